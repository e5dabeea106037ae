//! The agent: one HTTP/1.1 connection that stays open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    addr: SocketAddr,
    /// Name of the session, if there is one.
    session: Option<String>,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            addr,
            session: None,
        }
    }

    /// Switches to the conversation with this number.
    pub(crate) fn speak_for(&mut self, conversation: usize) {
        self.session = Some(format!("conversation-{conversation}"));
    }

    pub(crate) async fn send(&mut self, script: &str, body: &Bytes) -> Response<Incoming> {
        let request = Request::post("/v1/messages")
            .header("host", self.addr.to_string())
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "bench")
            .header("x-script", script);
        let request = match &self.session {
            Some(session) => request.header("x-claude-code-session-id", session),
            None => request,
        };
        let request = request.body(Full::new(body.clone())).unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response
    }

    /// Sends a request and reads the complete response. Returns the duration.
    pub(crate) async fn ask(&mut self, script: &str, body: &Bytes) -> Duration {
        let begun = Instant::now();
        let response = self.send(script, body).await;
        let answer = response.into_body().collect().await.unwrap();
        let took = begun.elapsed();
        drop(answer);
        took
    }

    /// Returns the text of the response.
    pub(crate) async fn text(&mut self, script: &str, body: &Bytes) -> String {
        let response = self.send(script, body).await;
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(answer.to_vec()).unwrap()
    }
}
