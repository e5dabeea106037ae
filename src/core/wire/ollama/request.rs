//! Parses Ollama requests into spans.

use bytes::Bytes;

use crate::record::WireId;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::view::{RequestFacts, Role, ToolList, View};
use crate::wire::walk::{self, is_cramped};
use crate::wire::{Operation, UnreadReason};

/// Top-level keys that a rewrite reads or edits. A body that repeats one is relayed unchanged.
const KEYS: [&str; 6] = ["messages", "tools", "model", "stream", "format", "options"];

pub(super) fn read(body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
    let facts = RequestFacts {
        // Ollama streams by default.
        stream: true,
        ..RequestFacts::for_operation(operation)
    };
    let view = View::unread(WireId::Ollama, body, facts);
    walk::view(view, &KEYS, role, read_member)
}

fn role(literal: &[u8]) -> Role {
    match literal {
        b"\"user\"" => Role::User,
        b"\"assistant\"" => Role::Assistant,
        b"\"system\"" => Role::System,
        b"\"tool\"" => Role::Tool,
        _ => Role::Other,
    }
}

fn read_member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let facts = &mut view.facts;
    let raw = value.of(text);
    match key {
        b"tools" => view.tools = read_tools(text, value),
        b"model" => facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => facts.stream = raw != b"false",
        b"format" => facts.structured = !matches!(raw, b"null" | b"\"\""),
        b"options" => {
            facts.cramped = json::get(text, value, "num_predict").is_some_and(|n| is_cramped(n.of(text)));
        }
        _ => {}
    }
}

fn read_tools(text: &[u8], value: Span) -> Option<ToolList> {
    walk::tools(text, value, ["function"], |[function], tools| {
        let name = function.and_then(|f| json::get_string(text, f, "name"));
        tools.client = true;
        tools.taken |= name.is_some_and(|n| n == TOOL_NAME);
    })
}
