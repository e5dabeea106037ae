//! The scripted provider: an HTTP server that answers in Anthropic's format, and keeps the requests.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::script;
use crate::state::sync::locked;

/// A running provider, which ends with the runtime.
pub(super) struct Provider {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<Bytes>>>,
}

impl Provider {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| answered(request, Arc::clone(&kept)));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, requests })
    }

    /// The bodies of the requests after the first `seen`.
    pub(super) fn received(&self, seen: usize) -> Vec<Bytes> {
        locked(&self.requests)[seen..].to_vec()
    }
}

async fn answered(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    let request = body
        .ok()
        .and_then(|body| Some((serde_json::from_slice(&body).ok()?, body)));
    let Some((value, body)) = request else {
        let mut refusal = Response::new(Full::default());
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(refusal);
    };
    let mut kept = locked(&kept);
    let answer = message(&value, kept.len());
    kept.push(body);
    let mut response = Response::new(Full::from(answer.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

fn message(request: &Value, number: usize) -> Value {
    let content = script::answer(request, number);
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": request["model"], "content": content,
        "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}
