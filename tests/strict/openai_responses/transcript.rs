//! Reading a request: its items, their types, its tools, and items as turns.

use serde_json::{Value, json};

use crate::dialect::Received;
use crate::fields::{list, text};
use crate::transcript::{Role, ToolCall, ToolDefinition, ToolResult, Turn};

/// Calls that the client answers, each with the type of its answer.
pub(super) const CALLS: [(&str, &str); 5] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
];

/// What the model may produce right after its reasoning, besides messages and [`CALLS`].
const PRODUCED: [&str; 11] = [
    "local_shell_call",
    "tool_search_call",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "program",
    "compaction",
];

/// The other types of items that a request may hold.
const OTHERS: [&str; 8] = [
    "reasoning",
    "item_reference",
    "additional_tools",
    "configuration_update",
    "local_shell_call_output",
    "tool_search_output",
    "mcp_approval_response",
    "program_output",
];

/// An item's type; a message may leave it out.
pub(super) fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" if !text(item, "role").is_empty() => "message",
        kind => kind,
    }
}

/// Whether the API knows this type.
pub(super) fn is_known(kind: &str) -> bool {
    kind == "compaction_trigger"
        || is_answer(kind)
        || OTHERS.contains(&kind)
        || PRODUCED.contains(&kind)
        || kind == "message"
        || answer_of(kind).is_some()
}

/// The type of the output of a call; `None` where `kind` is not a call that the client answers.
pub(super) fn answer_of(kind: &str) -> Option<&'static str> {
    CALLS
        .iter()
        .find(|(call, _)| *call == kind)
        .map(|(_, answer)| *answer)
}

/// Whether `kind` answers a call.
pub(super) fn is_answer(kind: &str) -> bool {
    CALLS.iter().any(|(_, answer)| *answer == kind)
}

/// Whether an output answers no call, but is a statement of the agent's own: Codex sends its session's goal that way.
pub(super) fn is_agents_own(item: &Value) -> bool {
    item.get("call_id").is_none() && text(item, "namespace") == "agent"
}

/// Whether the model produces such items.
pub(super) fn is_produced(item: &Value) -> bool {
    let kind = kind(item);
    let message = kind == "message" && text(item, "role") == "assistant";
    message || answer_of(kind).is_some() || PRODUCED.contains(&kind)
}

/// The id of the conversation that a request continues.
pub(super) fn conversation(body: &Value) -> Option<&str> {
    let given = body.get("conversation")?;
    given.as_str().or_else(|| given.get("id").and_then(Value::as_str))
}

/// The request's own items; a string is one user message.
pub(super) fn own_items(body: &Value) -> Vec<Value> {
    match body.get("input") {
        Some(Value::String(string)) => vec![json!({"type": "message", "role": "user", "content": string})],
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

/// All items that the model reads, with references to stored ones resolved.
pub(super) fn all(request: &Received) -> Vec<Value> {
    let own = own_items(&request.body)
        .into_iter()
        .map(|item| match kind(&item) {
            "item_reference" => request.memory.item(text(&item, "id")).unwrap_or(item),
            _ => item,
        });
    request.stored_history.iter().cloned().chain(own).collect()
}

/// The texts of a content or an output.
pub(super) fn texts(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::String(string)) => vec![string.clone()],
        Some(Value::Array(parts)) => parts
            .iter()
            .filter(|part| matches!(text(part, "type"), "input_text" | "output_text" | "text"))
            .map(|part| text(part, "text").to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

/// An item as a turn; `None` where it is neither a message, a call nor an output.
pub(super) fn turn(item: &Value) -> Option<Turn> {
    let mut turn = Turn::new(Role::User);
    let id = text(item, "call_id").to_owned();
    match kind(item) {
        "message" => {
            turn.texts = texts(item.get("content"));
            turn.role = match text(item, "role") {
                "assistant" => Role::Assistant,
                "system" | "developer" => Role::System,
                _ => Role::User,
            };
        }
        kind if is_answer(kind) => {
            let text = texts(item.get("output")).concat();
            turn.results.push(ToolResult { id, text });
        }
        kind if answer_of(kind).is_some() => {
            turn.role = Role::Assistant;
            let name = text(item, "name").to_owned();
            let arguments = match item.get("input") {
                Some(input) => input.clone(),
                None => serde_json::from_str(text(item, "arguments")).unwrap_or(Value::Null),
            };
            turn.calls.push(ToolCall { id, name, arguments });
        }
        _ => return None,
    }
    Some(turn)
}

/// A tool as a request lists it, and the namespace it is in.
#[derive(Clone, Debug)]
pub(super) struct ListedTool {
    pub(super) tool: Value,
    pub(super) namespace: Option<String>,
}

impl ListedTool {
    pub(super) fn definition(&self) -> Option<ToolDefinition> {
        let name = text(&self.tool, "name");
        let schema = self.tool.get("parameters").cloned().unwrap_or(Value::Null);
        let ours = matches!(text(&self.tool, "type"), "function" | "custom") && !name.is_empty();
        ours.then(|| ToolDefinition {
            name: name.to_owned(),
            schema,
        })
    }
}

/// Every tool of a request: at its top level, in `additional_tools` items, and in the results of a tool search.
pub(super) fn tools(request: &Received) -> Vec<ListedTool> {
    let mut out = Vec::new();
    flatten(list(&request.body, "tools"), None, &mut out);
    for item in all(request) {
        if matches!(kind(&item), "additional_tools" | "tool_search_output") {
            flatten(list(&item, "tools"), None, &mut out);
        }
    }
    out
}

fn flatten(tools: &[Value], namespace: Option<&str>, out: &mut Vec<ListedTool>) {
    for tool in tools {
        if text(tool, "type") == "namespace" {
            flatten(list(tool, "tools"), Some(text(tool, "name")), out);
        } else {
            out.push(ListedTool {
                tool: tool.clone(),
                namespace: namespace.map(ToOwned::to_owned),
            });
        }
    }
}
