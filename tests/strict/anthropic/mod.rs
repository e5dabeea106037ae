//! Anthropic Messages.

mod binding;
mod calls;
mod context;
mod diagnostics;
mod render;
mod rules;
#[cfg(test)]
mod tests;
mod transcript;
mod version;

use bytes::Bytes;
use serde_json::{Value, json};

use super::canonical;
use super::complaint::Findings;
use super::dialect::{Dialect, Received, RenderedBody};
use super::fields::{list, text};
use super::reply::Reply;
use super::transcript::{ToolDefinition, Turn};
use super::usage::{Segment, Usage};
pub use context::signed_summary;
use transcript::{as_blocks, canonical_form};

/// Implementation of the wire, without state.
#[derive(Debug)]
pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn turns(&self, request: &Received) -> Vec<Turn> {
        list(&request.body, "messages")
            .iter()
            .map(transcript::turn)
            .collect()
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        list(&request.body, "tools")
            .iter()
            .filter_map(transcript::tool_definition)
            .collect()
    }

    fn streams(&self, request: &Received) -> bool {
        let stream = request.body.get("stream").and_then(Value::as_bool);
        stream.unwrap_or_else(|| request.path.contains(":streamRawPredict"))
    }

    fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        rules::check(request, findings);
    }

    fn segments(&self, request: &Received) -> Vec<Segment> {
        let body = &request.body;
        let mut out: Vec<Segment> = list(body, "tools").iter().map(segment).collect();
        out.extend(as_blocks(body.get("system")).iter().map(segment));
        for message in list(body, "messages") {
            let role = text(message, "role").to_owned();
            for block in as_blocks(message.get("content")) {
                let mut segment = segment(&block);
                segment.text.insert_str(0, &role);
                out.push(segment);
            }
        }
        out
    }

    fn token_count(&self, usage: &Usage) -> Value {
        json!({"input_tokens": usage.prompt()})
    }

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
        render::render(request, reply, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let error = json!({"type": error_kind(status), "message": message});
        json!({"type": "error", "error": error, "request_id": "req_strict"})
    }

    fn error_event(&self, _: &Received, _: usize, kind: &str, message: &str) -> Bytes {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        render::event("error", &error)
    }

    fn padding_event(&self, _: &Received, _: usize, size: usize) -> Bytes {
        render::event("ping", &json!({"type": "ping", "padding": "x".repeat(size)}))
    }

    fn models(&self) -> Value {
        let model = json!({
            "type": "model", "id": "claude-strict-1", "display_name": "Claude Strict",
            "created_at": "2026-01-01T00:00:00Z",
        });
        json!({"data": [model], "has_more": false, "first_id": "claude-strict-1", "last_id": "claude-strict-1"})
    }

    fn thinks(&self, body: &Value) -> bool {
        body.pointer("/thinking/type").and_then(Value::as_str) != Some("disabled")
    }

    fn request_id_header(&self) -> &'static str {
        "request-id"
    }
}

fn error_kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

fn segment(block: &Value) -> Segment {
    let mark = block.get("cache_control").is_some_and(|mark| !mark.is_null());
    Segment {
        text: canonical::text(&canonical_form(block)),
        mark,
    }
}
