//! OpenAI Chat Completions: its dialect.

mod render;
mod rules;
#[cfg(test)]
mod tests;
mod transcript;

use bytes::Bytes;
use serde_json::{Value, json};

use super::complaint::Findings;
use super::dialect::{Dialect, Received, RenderedBody};
use super::fields::list;
use super::openai_error;
use super::reply::Reply;
use super::transcript::{ToolDefinition, Turn};
use super::usage::{Segment, Usage, unmarked};

/// The dialect; it has no state.
#[derive(Debug)]
pub(crate) struct OpenAiChat;

impl Dialect for OpenAiChat {
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

    fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        rules::check(request, findings);
    }

    fn segments(&self, request: &Received) -> Vec<Segment> {
        let body = &request.body;
        unmarked(list(body, "tools").iter().chain(list(body, "messages")))
    }

    fn token_count(&self, usage: &Usage) -> Value {
        json!({"input_tokens": usage.prompt()})
    }

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
        render::render(request, reply, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        openai_error::body(status, message)
    }

    fn error_event(&self, _: &Received, _: usize, kind: &str, message: &str) -> Bytes {
        let error = json!({"message": message, "type": kind, "param": null, "code": null});
        render::event(&json!({"error": error}))
    }

    fn padding_event(&self, _: &Received, _: usize, size: usize) -> Bytes {
        let choice = json!({"index": 0, "delta": {"content": ""}, "logprobs": null, "finish_reason": null});
        render::event(&json!({
            "id": "chatcmpl-padding", "object": "chat.completion.chunk", "created": 0, "model": "strict",
            "choices": [choice], "obfuscation": "x".repeat(size),
        }))
    }

    fn models(&self) -> Value {
        let model =
            json!({"id": "gpt-strict-1", "object": "model", "created": 1_790_000_000, "owned_by": "strict"});
        json!({"object": "list", "data": [model]})
    }
}
