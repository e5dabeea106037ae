//! Reading a request: messages as turns.

use serde_json::Value;

use crate::fields::{list, text};
use crate::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};

/// The name of a tool or a call: that of its function or custom tool.
pub(super) fn name(value: &Value) -> &str {
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
        Some(Value::String(words)) if !words.is_empty() => vec![words.clone()],
        Some(Value::Array(parts)) => parts
            .iter()
            .filter(|part| text(part, "type") == "text")
            .map(|part| text(part, "text").to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

/// A tool that the client runs; `None` where it has no name.
pub(super) fn tool_definition(tool: &Value) -> Option<ToolDefinition> {
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

pub(super) fn turn(message: &Value) -> Turn {
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
    turn.calls = list(message, "tool_calls").iter().map(tool_call).collect();
    turn
}

fn tool_call(call: &Value) -> ToolCall {
    let arguments = call
        .get("function")
        .map_or("", |function| text(function, "arguments"));
    ToolCall {
        id: text(call, "id").to_owned(),
        name: name(call).to_owned(),
        arguments: serde_json::from_str(arguments).unwrap_or(Value::Null),
    }
}
