//! The scripted agent. Like real agents it sends its whole history with each request and knows nothing of the proxy.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::adapters::{self, Adapter};
use super::script::{DemoLength, tool_result};
use crate::cli::exit::{CommandFailure, Exit};

/// A running agent.
pub(super) struct DemoAgent {
    adapter: &'static Adapter,
    line: SendRequest<Full<Bytes>>,
    host: String,
    history: Vec<Value>,
    turn: usize,
}

/// The result of one request.
pub(super) struct RequestResult {
    /// The request's body as the agent sent it.
    pub(super) body: Bytes,
    /// The handoff that it was pinned to.
    pub(super) pinned: Option<String>,
    /// Whether the script is finished.
    pub(super) done: bool,
}

impl DemoAgent {
    /// An agent whose base URL is `address`.
    pub(super) async fn start(
        adapter: &'static Adapter,
        script: DemoLength,
        address: SocketAddr,
    ) -> Result<Self, CommandFailure> {
        let stream = TcpStream::connect(address).await?;
        let (line, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Self {
            adapter,
            line,
            host: address.to_string(),
            history: (adapter.opening)(script),
            turn: 0,
        })
    }

    /// Sends the history, appends the reply, and runs the tools that it calls.
    pub(super) async fn ask(&mut self) -> Result<RequestResult, CommandFailure> {
        let body = Bytes::from((self.adapter.body)(&self.history).to_string());
        let (headers, reply) = self.post(body.clone()).await?;
        let reply: Option<Value> = serde_json::from_slice(&reply).ok();
        let messages = reply.as_ref().and_then(self.adapter.reply).ok_or_else(|| {
            Exit::SOFTWARE.failure(format!("the reply of turn {} cannot be read", self.turn + 1))
        })?;
        let calls = adapters::calls(&messages);
        self.history.extend(messages);
        let results: Vec<_> = calls
            .into_iter()
            .map(|call| {
                let text = tool_result(&call.name, &call.arguments, self.turn);
                (call, text)
            })
            .collect();
        if !results.is_empty() {
            self.history.extend((self.adapter.results)(&results));
        }
        self.turn += 1;
        let pinned = headers.get("x-baton-handoff").and_then(|id| id.to_str().ok());
        Ok(RequestResult {
            body,
            pinned: pinned.map(str::to_owned),
            done: results.is_empty(),
        })
    }

    async fn post(&mut self, body: Bytes) -> Result<(HeaderMap, Bytes), CommandFailure> {
        let mut request = Request::post(self.adapter.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("x-session-id", "demo");
        for (name, value) in self.adapter.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(broken)?;
        self.line.ready().await.map_err(broken)?;
        let response = self.line.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        if head.status != StatusCode::OK {
            let body_text = String::from_utf8_lossy(&body);
            return Err(Exit::SOFTWARE.failure(format!("answered {}: {body_text}", head.status)));
        }
        Ok((head.headers, body))
    }
}

fn broken(error: impl std::error::Error) -> CommandFailure {
    Exit::SOFTWARE.failure(format!("the demo's own connection failed: {error}"))
}
