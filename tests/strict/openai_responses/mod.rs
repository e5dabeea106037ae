//! OpenAI Responses: its dialect.

mod binding;
pub(crate) mod chatgpt;
mod output;
mod pairing;
mod render;
mod response;
mod rules;
mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod tools;
mod transcript;

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::complaint::{Findings, Rule};
use super::dialect::{Dialect, Received, RenderedBody};
use super::fields::{list, text};
use super::memory::Memory;
use super::openai_error;
use super::reply::Reply;
use super::transcript::{ToolDefinition, Turn};
use super::usage::{Segment, Usage, unmarked};

/// The dialect; what it stores between requests is in [`Received::memory`].
#[derive(Debug)]
pub(crate) struct OpenAiResponses {
    /// Whether it is that of ChatGPT's own server.
    chatgpt: bool,
}

impl OpenAiResponses {
    /// The public API.
    pub(crate) const API: Self = Self { chatgpt: false };
    /// ChatGPT's own server.
    pub(crate) const CHATGPT: Self = Self { chatgpt: true };
}

impl Dialect for OpenAiResponses {
    fn transcript_field(&self) -> &'static str {
        "input"
    }

    fn stored_history(&self, memory: &Memory, body: &Value) -> Vec<Value> {
        if let Some(stored) = memory.response(text(body, "previous_response_id")) {
            return stored.transcript;
        }
        let conversation = transcript::conversation(body).and_then(|id| memory.conversation(id));
        conversation.unwrap_or_default()
    }

    fn transcript(&self, request: &Received) -> Vec<Value> {
        transcript::all(request)
    }

    fn turns(&self, request: &Received) -> Vec<Turn> {
        transcript::all(request)
            .iter()
            .filter_map(transcript::turn)
            .collect()
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        let mut names = HashSet::new();
        let offered = transcript::tools(request)
            .into_iter()
            .filter_map(|tool| tool.definition());
        offered.filter(|tool| names.insert(tool.name.clone())).collect()
    }

    fn thinks(&self, body: &Value) -> bool {
        body.pointer("/reasoning/effort").and_then(Value::as_str) != Some("none")
    }

    fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        if self.chatgpt {
            chatgpt::check(request, findings);
        }
        rules::check(request, findings);
    }

    fn segments(&self, request: &Received) -> Vec<Segment> {
        let instructions = json!(text(&request.body, "instructions"));
        let head = list(&request.body, "tools")
            .iter()
            .chain(std::iter::once(&instructions));
        unmarked(head.chain(&transcript::all(request)))
    }

    fn token_count(&self, usage: &Usage) -> Value {
        json!({"object": "response.input_tokens", "input_tokens": usage.prompt()})
    }

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
        match self.chatgpt {
            true => chatgpt::render(request, reply, usage),
            false => render::render(request, reply, usage),
        }
    }

    fn answer(&self, request: &Received, usage: &Usage) -> (u16, Value) {
        stored::answer(request, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        match self.chatgpt {
            true => chatgpt::error(message),
            false => openai_error::body(status, message),
        }
    }

    fn refusal(&self, rule: Rule, message: &str) -> Value {
        if self.chatgpt {
            return chatgpt::error(message);
        }
        let (param, code) = match rule {
            Rule::UnknownResponse => (Some("previous_response_id"), Some("previous_response_not_found")),
            Rule::Conflict => (None, Some("mutually_exclusive_parameters")),
            Rule::Required => (None, Some("missing_required_parameter")),
            Rule::ForeignThinking => (None, Some("invalid_encrypted_content")),
            Rule::StrictSchema => (Some("tools"), Some("invalid_function_parameters")),
            Rule::BlockType | Rule::Include | Rule::Role => (None, Some("invalid_value")),
            _ => (Some("input"), None),
        };
        json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})
    }

    fn error_event(&self, request: &Received, at: usize, kind: &str, message: &str) -> Bytes {
        stream::error(request, at, kind, message)
    }

    fn padding_event(&self, _: &Received, at: usize, size: usize) -> Bytes {
        stream::event("keepalive", at, json!({"padding": "x".repeat(size)}))
    }

    fn models(&self) -> Value {
        match self.chatgpt {
            true => chatgpt::models(),
            false => json!({"object": "list", "data": []}),
        }
    }
}
