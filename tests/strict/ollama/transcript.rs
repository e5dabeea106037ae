//! Reading a request: messages as turns.

use serde_json::Value;

use crate::fields::{list, text};
use crate::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};

/// The name of a tool or a call.
pub(super) fn name(value: &Value) -> &str {
    value
        .get("function")
        .map_or("", |function| text(function, "name"))
}

/// A tool that the client runs; `None` where it has no name.
pub(super) fn tool_definition(tool: &Value) -> Option<ToolDefinition> {
    let schema = tool
        .get("function")
        .and_then(|function| function.get("parameters"));
    let name = name(tool);
    (!name.is_empty()).then(|| ToolDefinition {
        name: name.to_owned(),
        schema: schema.cloned().unwrap_or(Value::Null),
    })
}

/// The messages as turns. A call without an id gets one from its position. A result without one answers the first
/// unanswered call of its name, or, without a name, the first unanswered call.
pub(super) fn turns(messages: &[Value]) -> Vec<Turn> {
    let mut open: Vec<(String, String)> = Vec::new();
    let mut out = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let content = text(message, "content");
        let mut turn = Turn::new(Role::User);
        match text(message, "role") {
            "tool" => turn.results.push(tool_result(message, &mut open)),
            role => {
                turn.texts
                    .extend((!content.is_empty()).then(|| content.to_owned()));
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
    let at = open.iter().position(|(id, called)| answers(message, id, called));
    let id = at.map_or_else(
        || text(message, "tool_call_id").to_owned(),
        |at| open.remove(at).0,
    );
    ToolResult {
        id,
        text: text(message, "content").to_owned(),
    }
}

/// Whether a tool message answers this call: by id where both have one, else by name where the message has one.
pub(super) fn answers(message: &Value, id: &str, called: &str) -> bool {
    let (given, tool) = (text(message, "tool_call_id"), text(message, "tool_name"));
    if given.is_empty() || id.starts_with("call ") {
        tool.is_empty() || tool == called
    } else {
        given == id
    }
}
