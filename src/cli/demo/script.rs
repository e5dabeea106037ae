//! The recorded session (`script.json`), and the provider that plays the model's part of it in Anthropic's format.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use baton_core::tools::TOOL_NAME;
use baton_state::sync::locked;

#[derive(Deserialize)]
pub(super) struct Script {
    /// The agent's request without messages.
    pub(super) request: Value,
    /// Blocks of the first message: the harness's preamble, and the user's request.
    pub(super) opening: Value,
    /// The model's outputs, in order.
    pub(super) steps: Vec<ScriptStep>,
    /// Lines of the source files, repeated in order.
    source: Vec<String>,
}

/// An output of the model.
#[derive(Deserialize)]
pub(super) struct ScriptStep {
    thought: Option<String>,
    text: String,
    /// Called tool; `None` in the last step.
    tool: Option<String>,
    #[serde(default)]
    input: Value,
}

#[allow(clippy::expect_used)] // `script.json` is part of the program, and every test of the demo reads it.
pub(super) static SCRIPT: LazyLock<Script> =
    LazyLock::new(|| serde_json::from_str(include_str!("script.json")).expect("script.json is a script"));

impl Script {
    /// Number of handoffs in the script.
    pub(super) fn handoffs(&self) -> usize {
        let steps = self.steps.iter();
        steps
            .filter(|step| step.tool.as_deref() == Some(TOOL_NAME))
            .count()
    }
}

/// Builds the content blocks of the model's output with this number.
pub(super) fn output(number: usize) -> Vec<Value> {
    let Some(step) = SCRIPT.steps.get(number) else {
        return vec![json!({"type": "text", "text": "The script has ended."})];
    };
    let thought = step.thought.as_ref();
    let thought = thought
        .map(|words| json!({"type": "thinking", "thinking": words, "signature": "c2lnbmVk".repeat(8)}));
    let call = step.tool.as_ref();
    let call = call.map(|name| json!({"type": "tool_use", "id": format!("toolu_{number:020}"), "name": name, "input": step.input}));
    let text = json!({"type": "text", "text": step.text});
    thought.into_iter().chain([text]).chain(call).collect()
}

/// Computes the result of a tool call from its input.
pub(super) fn result(call: &Value) -> Value {
    let path = call["input"]["path"].as_str().unwrap_or_default();
    let text = match call["name"].as_str().unwrap_or_default() {
        "read_file" => {
            let lines = call["input"]["lines"].as_u64().unwrap_or_default() as usize;
            let lines = SCRIPT.source.iter().cycle().zip(1..=lines);
            let lines: String = lines
                .map(|(text, number)| format!("{number:6}\t{text}\n"))
                .collect();
            format!("{path}\n{lines}")
        }
        "edit_file" => format!("{path} changed, 1 place."),
        _ => {
            "running 37 tests\n.....................................\ntest result: ok. 37 passed; 0 failed\n"
                .to_owned()
        }
    };
    json!({"type": "tool_result", "tool_use_id": call["id"], "content": text})
}

/// A running provider, which keeps the requests. It ends with the runtime.
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
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| respond(request, Arc::clone(&kept)));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, requests })
    }

    /// Bodies of the requests after the first `seen`.
    pub(super) fn received(&self, seen: usize) -> Vec<Bytes> {
        locked(&self.requests)[seen..].to_vec()
    }
}

async fn respond(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // A body that broke off is kept as an empty one, which no request of the agent equals.
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let mut kept = locked(&kept);
    let content = output(kept.len());
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    let message = json!({
        "id": format!("msg_{}", kept.len()), "type": "message", "role": "assistant", "model": SCRIPT.request["model"],
        "content": content, "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    kept.push(body);
    let mut response = Response::new(Full::from(message.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}
