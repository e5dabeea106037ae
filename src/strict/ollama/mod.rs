//! Ollama `/api/chat`: how to read a request, and the shapes around a reply.

mod render;
mod rules;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::api::Endpoint;
use super::complaint::Findings;
use super::dialect::{Dialect, Received, Rendered};
use super::fields::{list, text};
use super::reply::Reply;
use super::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};
use super::usage::{Segment, Usage, unmarked};

/// The dialect. It has no state.
#[derive(Debug)]
pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn turns(&self, request: &Received) -> Vec<Turn> {
        turns(list(&request.body, "messages"))
    }

    fn tools(&self, request: &Received) -> Vec<ToolDefinition> {
        list(&request.body, "tools")
            .iter()
            .filter_map(tool_definition)
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

    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> Rendered {
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

/// The name in a tool or a call.
fn name(value: &Value) -> &str {
    value
        .get("function")
        .map_or("", |function| text(function, "name"))
}

fn tool_definition(tool: &Value) -> Option<ToolDefinition> {
    let schema = tool
        .get("function")
        .and_then(|function| function.get("parameters"));
    let name = name(tool);
    (!name.is_empty()).then(|| ToolDefinition {
        name: name.to_owned(),
        schema: schema.cloned().unwrap_or(Value::Null),
    })
}

/// The transcript. A call without an id gets one by its place, and so does the result that answers it: the
/// first open call of that name, or the first one where the result names no tool.
fn turns(messages: &[Value]) -> Vec<Turn> {
    let mut open: Vec<(String, String)> = Vec::new();
    let mut out = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let said = text(message, "content");
        let mut turn = Turn::new(Role::User);
        match text(message, "role") {
            "tool" => turn.results.push(tool_result(message, &mut open)),
            role => {
                turn.texts.extend((!said.is_empty()).then(|| said.to_owned()));
                turn.role = match role {
                    "assistant" => Role::Assistant,
                    "system" => Role::System,
                    _ => Role::User,
                };
            }
        }
        for (m, call) in list(message, "tool_calls").iter().enumerate() {
            let id = match text(call, "id") {
                "" => format!("call {n}.{m}"),
                id => id.to_owned(),
            };
            open.push((id.clone(), name(call).to_owned()));
            turn.calls.push(ToolCall {
                id,
                name: name(call).to_owned(),
                arguments: call
                    .pointer("/function/arguments")
                    .cloned()
                    .unwrap_or(Value::Null),
            });
        }
        out.push(turn);
    }
    out
}

fn tool_result(message: &Value, open: &mut Vec<(String, String)>) -> ToolResult {
    let at = open
        .iter()
        .position(|(id, called)| rules::answers(message, id, called));
    let id = at.map_or_else(
        || text(message, "tool_call_id").to_owned(),
        |at| open.remove(at).0,
    );
    ToolResult {
        id,
        text: text(message, "content").to_owned(),
    }
}
