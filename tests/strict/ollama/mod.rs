//! Ollama `/api/chat`: its dialect.

mod render;
mod rules;
#[cfg(test)]
mod tests;
mod transcript;

use bytes::Bytes;
use serde_json::{Value, json};

use super::api::Endpoint;
use super::complaint::Findings;
use super::dialect::{Dialect, Received, RenderedBody};
use super::fields::list;
use super::reply::Reply;
use super::transcript::{ToolDefinition, Turn};
use super::usage::{Segment, Usage, unmarked};

/// The dialect; it has no state.
#[derive(Debug)]
pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn turns(&self, request: &Received) -> Vec<Turn> {
        transcript::turns(list(&request.body, "messages"))
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        list(&request.body, "tools")
            .iter()
            .filter_map(transcript::tool_definition)
            .collect()
    }

    fn streams(&self, request: &Received) -> bool {
        request.body.get("stream").and_then(Value::as_bool) != Some(false)
    }

    fn thinks(&self, body: &Value) -> bool {
        body.get("think") != Some(&Value::Bool(false))
    }

    fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        rules::check(request, findings);
    }

    fn segments(&self, request: &Received) -> Vec<Segment> {
        let body = &request.body;
        unmarked(list(body, "tools").iter().chain(list(body, "messages")))
    }

    fn token_count(&self, usage: &Usage) -> Value {
        json!({"prompt_eval_count": usage.prompt()})
    }

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
        render::render(request, reply, usage)
    }

    fn answer(&self, request: &Received, _: &Usage) -> (u16, Value) {
        let known = request.endpoint == Endpoint::Stored;
        if known {
            (200, json!({"version": "0.99.0"}))
        } else {
            (404, self.error(404, "not found"))
        }
    }

    fn error(&self, _: u16, message: &str) -> Value {
        json!({"error": message})
    }

    fn error_event(&self, _: &Received, _: usize, _: &str, message: &str) -> Bytes {
        render::line(&json!({"error": message}))
    }

    fn padding_event(&self, request: &Received, _: usize, size: usize) -> Bytes {
        let mut chunk = render::chunk(request, &json!({"role": "assistant", "content": ""}));
        chunk["padding"] = json!("x".repeat(size));
        render::line(&chunk)
    }

    fn models(&self) -> Value {
        let details = json!({"format": "gguf", "family": "strict", "parameter_size": "1B"});
        json!({"models": [{
            "name": "strict:latest", "model": "strict:latest", "modified_at": "2026-01-01T00:00:00Z", "size": 1,
            "digest": "0", "details": details,
        }]})
    }
}
