//! A scripted Agent Mail server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The reply to a call.
#[derive(Debug, Clone)]
pub(super) enum MailReply {
    /// The tool's result.
    Tool(Value),
    /// The tool fails.
    Fails(&'static str),
    /// The tool's result, after a delay.
    Late(Duration, Value),
    /// No reply at all.
    Hangs,
    /// This status and body.
    Raw(u16, String),
}

/// A received call: the tool and its arguments.
pub(super) type MailCall = (String, Value);

pub(super) struct MailServer {
    pub(super) url: String,
    calls: Arc<Mutex<Vec<MailCall>>>,
}

impl MailServer {
    /// Starts a server that passes each tool call to the script. `calls` are the earlier ones.
    pub(super) async fn start(
        script: impl Fn(&str, &Value, &[MailCall]) -> MailReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp/", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (script, seen) = (Arc::new(script), calls.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (script.clone(), seen.clone());
                let service = service_fn(move |request| answer(request, script.clone(), seen.clone()));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, calls }
    }

    /// Returns the calls so far.
    pub(super) fn calls(&self) -> Vec<MailCall> {
        self.calls.lock().unwrap().clone()
    }

    /// Summarizes the calls: tool, agent and paths.
    pub(super) fn received_calls(&self) -> Vec<String> {
        let calls = self.calls();
        calls
            .iter()
            .map(|(tool, arguments)| summary(tool, arguments))
            .collect()
    }
}

/// A call in short: tool, agent and paths.
pub(super) fn summary(tool: &str, arguments: &Value) -> String {
    let paths = arguments["paths"].as_array().into_iter().flatten();
    let paths: Vec<_> = paths.filter_map(Value::as_str).collect();
    let agent = arguments["agent_name"].as_str().unwrap_or_default();
    let exclusive = match arguments["exclusive"].as_bool() {
        Some(true) => " exclusive",
        Some(false) => " shared",
        None => "",
    };
    let verb = tool.split('_').next().unwrap_or_default();
    format!("{verb} {agent}{exclusive} {}", paths.join(","))
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<impl Fn(&str, &Value, &[MailCall]) -> MailReply>,
    seen: Arc<Mutex<Vec<MailCall>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let tool = match message["method"].as_str() {
        Some("tools/call") => message["params"]["name"].as_str().unwrap().to_owned(),
        method => method.unwrap().to_owned(),
    };
    let arguments = match message["params"].get("arguments") {
        Some(arguments) => arguments.clone(),
        None => message["params"].clone(),
    };
    let reply = {
        let mut calls = seen.lock().unwrap();
        let reply = script(&tool, &arguments, &calls);
        calls.push((tool, arguments));
        reply
    };
    let result = match reply {
        MailReply::Tool(value) => json!({"content": [], "structuredContent": value}),
        MailReply::Fails(text) => json!({"content": [{"type": "text", "text": text}], "isError": true}),
        MailReply::Late(time, value) => {
            tokio::time::sleep(time).await;
            json!({"content": [{"type": "text", "text": value.to_string()}]})
        }
        MailReply::Hangs => std::future::pending().await,
        MailReply::Raw(status, body) => {
            let response = Response::builder().status(status).header("mcp-session-id", "s1");
            return Ok(response.body(Full::new(body.into())).unwrap());
        }
    };
    let message = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    Ok(Response::new(Full::new(message.to_string().into())))
}
