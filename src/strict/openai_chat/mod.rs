//! OpenAI Chat Completions: how to read a request, and the shapes around a reply.

mod render;
mod rules;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::canonical;
use super::complaint::Findings;
use super::dialect::{Answered, Called, Dialect, Offered, Rendered, Role, Turn};
use super::fields::{list, text};
use super::model::Seen;
use super::reply::Reply;
use super::usage::{Segment, Usage};

/// The dialect. It has no state.
pub(crate) struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn turns(&self, seen: &Seen) -> Vec<Turn> {
        list(&seen.body, "messages").iter().map(turn).collect()
    }

    fn tools(&self, seen: &Seen) -> Vec<Offered> {
        list(&seen.body, "tools").iter().filter_map(offered).collect()
    }

    fn check(&self, seen: &Seen, findings: &mut Findings<'_>) {
        rules::check(seen, findings);
    }

    fn segments(&self, seen: &Seen) -> Vec<Segment> {
        let body = &seen.body;
        let parts = list(body, "tools").iter().chain(list(body, "messages"));
        parts
            .map(|part| Segment {
                text: canonical::text(part),
                mark: false,
            })
            .collect()
    }

    fn counted(&self, usage: &Usage) -> Value {
        json!({"input_tokens": usage.prompt()})
    }

    fn render(&self, seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered {
        render::render(seen, reply, usage)
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let (kind, code) = error_kind(status);
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
    }

    fn error_event(&self, _: &Seen, _: usize, kind: &str, message: &str) -> Bytes {
        let error = json!({"message": message, "type": kind, "param": null, "code": null});
        render::event(&json!({"error": error}))
    }

    fn padding_event(&self, _: &Seen, _: usize, size: usize) -> Bytes {
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

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}

fn error_kind(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("authentication_error", Some("invalid_api_key")),
        403 => ("permission_error", None),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", None),
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

fn offered(tool: &Value) -> Option<Offered> {
    let schema = tool
        .get("function")
        .and_then(|function| function.get("parameters"))
        .cloned();
    let name = name(tool);
    (!name.is_empty()).then(|| Offered {
        name: name.to_owned(),
        schema: schema.unwrap_or(Value::Null),
    })
}

fn turn(message: &Value) -> Turn {
    let mut turn = Turn {
        role: Role::User,
        texts: Vec::new(),
        calls: Vec::new(),
        results: Vec::new(),
    };
    match text(message, "role") {
        "tool" => {
            let id = text(message, "tool_call_id").to_owned();
            turn.results.push(Answered {
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

fn called(call: &Value) -> Called {
    let arguments = call
        .get("function")
        .map_or("", |function| text(function, "arguments"));
    Called {
        id: text(call, "id").to_owned(),
        name: name(call).to_owned(),
        arguments: serde_json::from_str(arguments).unwrap_or(Value::Null),
    }
}
