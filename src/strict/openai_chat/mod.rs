//! OpenAI Chat Completions: how to read a request, and the shapes around a reply.

mod render;
mod rules;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::complaint::Findings;
use super::dialect::{Dialect, Received, Rendered};
use super::fields::{list, text};
use super::openai_error;
use super::reply::Reply;
use super::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};
use super::usage::{Segment, Usage, unmarked};

/// The dialect. It has no state.
#[derive(Debug)]
pub(crate) struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn turns(&self, request: &Received) -> Vec<Turn> {
        list(&request.body, "messages").iter().map(turn).collect()
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        list(&request.body, "tools")
            .iter()
            .filter_map(tool_definition)
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

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> Rendered {
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

/// The name in a tool or a call: that of its function, or of its custom tool.
fn name(value: &Value) -> &str {
    ["function", "custom"]
        .iter()
        .filter_map(|kind| value.get(kind))
        .map(|inner| text(inner, "name"))
        .next()
        .unwrap_or("")
}

/// The texts of a message's content.
fn texts(message: &Value) -> Vec<String> {
    match message.get("content") {
        Some(Value::String(said)) if !said.is_empty() => vec![said.clone()],
        Some(Value::Array(parts)) => parts
            .iter()
            .filter(|part| text(part, "type") == "text")
            .map(|part| text(part, "text").to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

fn tool_definition(tool: &Value) -> Option<ToolDefinition> {
    let schema = tool
        .get("function")
        .and_then(|function| function.get("parameters"))
        .cloned();
    let name = name(tool);
    (!name.is_empty()).then(|| ToolDefinition {
        name: name.to_owned(),
        schema: schema.unwrap_or(Value::Null),
    })
}

fn turn(message: &Value) -> Turn {
    let mut turn = Turn::new(Role::User);
    match text(message, "role") {
        "tool" => {
            let id = text(message, "tool_call_id").to_owned();
            turn.results.push(ToolResult {
                id,
                text: texts(message).concat(),
            });
            return turn;
        }
        "assistant" => turn.role = Role::Assistant,
        "system" | "developer" => turn.role = Role::System,
        _ => {}
    }
    turn.texts = texts(message);
    turn.calls = list(message, "tool_calls").iter().map(called).collect();
    turn
}

fn called(call: &Value) -> ToolCall {
    let arguments = call
        .get("function")
        .map_or("", |function| text(function, "arguments"));
    ToolCall {
        id: text(call, "id").to_owned(),
        name: name(call).to_owned(),
        arguments: serde_json::from_str(arguments).unwrap_or(Value::Null),
    }
}
