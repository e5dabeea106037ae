//! Parsing of requests: content as blocks, messages as turns.

use serde_json::{Value, json};

use crate::fields::text;
use crate::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};

/// Content as blocks. A string is one text block; any other value except a list has none.
pub(super) fn as_blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// Canonical form of a block or tool for comparison, like in the API: without `cache_control` and null
/// fields, and with the content of a tool result as blocks.
pub(super) fn canonical_form(block: &Value) -> Value {
    let Value::Object(fields) = block else {
        return block.clone();
    };
    let mut out = fields.clone();
    out.retain(|key, value| key != "cache_control" && !value.is_null());
    if text(block, "type") == "tool_result" {
        let content = as_blocks(block.get("content"))
            .iter()
            .map(canonical_form)
            .collect();
        out.insert("content".to_owned(), Value::Array(content));
    }
    Value::Object(out)
}

/// A tool that the client runs, or `None` if it has no name.
pub(super) fn tool_definition(tool: &Value) -> Option<ToolDefinition> {
    let name = tool.get("name")?.as_str()?.to_owned();
    let schema = tool.get("input_schema").cloned().unwrap_or(Value::Null);
    Some(ToolDefinition { name, schema })
}

pub(super) fn turn(message: &Value) -> Turn {
    let role = match text(message, "role") {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::User,
    };
    let mut turn = Turn::new(role);
    for block in as_blocks(message.get("content")) {
        match text(&block, "type") {
            "text" => turn.texts.push(text(&block, "text").to_owned()),
            "tool_use" => turn.calls.push(ToolCall {
                id: text(&block, "id").to_owned(),
                name: text(&block, "name").to_owned(),
                arguments: block.get("input").cloned().unwrap_or(Value::Null),
            }),
            "tool_result" => turn.results.push(ToolResult {
                id: text(&block, "tool_use_id").to_owned(),
                text: as_blocks(block.get("content"))
                    .iter()
                    .map(|block| text(block, "text"))
                    .collect(),
            }),
            _ => {}
        }
    }
    turn
}
