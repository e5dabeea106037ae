//! Ollama `/api/chat`: how to read a request, and the shapes around a reply.

mod render;
mod rules;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::canonical;
use super::complaint::Findings;
use super::dialect::{Answered, Called, Dialect, Endpoint, Offered, Rendered, Role, Turn};
use super::fields::{list, text};
use super::model::Seen;
use super::reply::Reply;
use super::usage::{Segment, Usage};

/// The dialect. It has no state.
pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn turns(&self, seen: &Seen) -> Vec<Turn> {
        turns(list(&seen.body, "messages"))
    }

    fn tools(&self, seen: &Seen) -> Vec<Offered> {
        list(&seen.body, "tools").iter().filter_map(offered).collect()
    }

    fn streams(&self, seen: &Seen) -> bool {
        seen.body.get("stream").and_then(Value::as_bool) != Some(false)
    }

    fn thinks(&self, body: &Value) -> bool {
        body.get("think") != Some(&Value::Bool(false))
    }

    fn check(&self, seen: &Seen, findings: &mut Findings<'_>) {
        rules::check(seen, findings);
    }

    fn segments(&self, seen: &Seen) -> Vec<Segment> {
        let parts = list(&seen.body, "tools")
            .iter()
            .chain(list(&seen.body, "messages"));
        parts
            .map(|part| Segment {
                text: canonical::text(part),
                mark: false,
            })
            .collect()
    }

    fn counted(&self, usage: &Usage) -> Value {
        json!({"prompt_eval_count": usage.prompt()})
    }

    fn render(&self, seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered {
        render::render(seen, reply, usage)
    }

    fn answer(&self, seen: &Seen, _: &Usage) -> (u16, Value) {
        let known = seen.endpoint == Endpoint::Stored;
        if known {
            (200, json!({"version": "0.99.0"}))
        } else {
            (404, self.error(404, "not found"))
        }
    }

    fn error(&self, _: u16, message: &str) -> Value {
        json!({"error": message})
    }

    fn error_event(&self, _: &Seen, _: usize, _: &str, message: &str) -> Bytes {
        render::line(&json!({"error": message}))
    }

    fn padding_event(&self, seen: &Seen, _: usize, size: usize) -> Bytes {
        let mut chunk = render::chunk(seen, &json!({"role": "assistant", "content": ""}));
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

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}

/// The name in a tool or a call.
fn name(value: &Value) -> &str {
    value
        .get("function")
        .map_or("", |function| text(function, "name"))
}

fn offered(tool: &Value) -> Option<Offered> {
    let schema = tool
        .get("function")
        .and_then(|function| function.get("parameters"));
    let name = name(tool);
    (!name.is_empty()).then(|| Offered {
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
        let mut turn = Turn {
            role: Role::User,
            texts: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
        };
        match text(message, "role") {
            "tool" => turn.results.push(answered(message, &mut open)),
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
            turn.calls.push(Called {
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

fn answered(message: &Value, open: &mut Vec<(String, String)>) -> Answered {
    let at = open
        .iter()
        .position(|(id, called)| rules::answers(message, id, called));
    let id = at.map_or_else(
        || text(message, "tool_call_id").to_owned(),
        |at| open.remove(at).0,
    );
    Answered {
        id,
        text: text(message, "content").to_owned(),
    }
}
