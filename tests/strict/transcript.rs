//! A transcript in one shape for all wires: what scripted models and tests read.

use serde_json::Value;

/// Who a turn belongs to. Tool results belong to the user on every wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// System or developer.
    System,
    /// The user, and tool results.
    User,
    /// The model.
    Assistant,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who it belongs to.
    pub role: Role,
    /// Its texts, in order.
    pub texts: Vec<String>,
    /// Its tool calls, in order.
    pub calls: Vec<ToolCall>,
    /// Its tool results, in order.
    pub results: Vec<ToolResult>,
}

impl Turn {
    /// An empty turn.
    pub(crate) fn new(role: Role) -> Self {
        Turn {
            role,
            texts: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
        }
    }
}

/// A tool call in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, parsed; `null` where they cannot be parsed.
    pub arguments: Value,
}

/// A tool result in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id of the call that it answers.
    pub id: String,
    pub text: String,
}

/// A tool that a request offers to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    /// The JSON schema of its arguments; `null` for a tool whose schema only the provider knows.
    pub schema: Value,
}
