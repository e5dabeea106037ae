//! Parses Anthropic requests into spans, and edits them.

use bytes::Bytes;

use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{RequestFacts, Role, ToolChoice, ToolList, TurnContent, View};
use crate::wire::walk::{self, is_cramped};
use crate::wire::{Operation, UnreadReason, own_text};

/// Tools that the agent runs, mostly by the prefix of a version. Other typed tools run at the provider.
const CLIENT_TOOLS: [&str; 6] = [
    "custom",
    "bash_",
    "text_editor_",
    "memory_",
    "computer_",
    "browser_",
];

/// Top-level keys that a rewrite reads or edits. A body that repeats one is relayed unchanged.
const KEYS: [&str; 10] = [
    "messages",
    "tools",
    "tool_choice",
    "model",
    "stream",
    "max_tokens",
    "output_config",
    "metadata",
    "thread",
    "context_hint",
];

pub(super) fn read(body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
    let view = View::unread(WireId::Anthropic, body, RequestFacts::for_operation(operation));
    walk::view(view, &KEYS, role, read_member)
}

/// Appends the last block of the message, because results must come first. String content becomes a
/// block.
pub(super) fn text_inside(content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
    let block = own_text::block(text);
    own_text::among_blocks(content, &block)
        .or_else(|| own_text::after_lone(content, [r#"{"type":"text","text":"#, "}"], &block))
        .or_else(|| Some(Vec::new()))
}

fn role(literal: &[u8]) -> Role {
    match literal {
        b"\"user\"" => Role::User,
        b"\"assistant\"" => Role::Assistant,
        b"\"system\"" => Role::System,
        _ => Role::Other,
    }
}

fn read_member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let facts = &mut view.facts;
    match key {
        b"model" => facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"system" => facts.system = !matches!(value.of(text), b"null" | b"\"\"" | b"[]"),
        b"stream" => facts.stream = json::is_true(value.of(text)),
        b"max_tokens" => facts.cramped = is_cramped(value.of(text)),
        b"tool_choice" => {
            facts.choice = match json::get_string(text, value, "type").as_deref() {
                Some("none") => ToolChoice::None,
                // With baton's tool offered, the model could answer every forced turn by a handoff.
                Some("any" | "tool") => ToolChoice::Forced,
                _ => ToolChoice::Auto,
            }
        }
        b"output_config" => {
            facts.structured |= json::get(text, value, "format").is_some_and(|v| v.of(text) != b"null")
        }
        b"context_hint" => facts.context_hint = true,
        // A new branch comes with the whole conversation. Any other one is stored at the provider.
        b"thread" => match json::get_string(text, value, "type").as_deref() {
            Some("create") => facts.begins_branch = true,
            _ => facts.server_side |= value.of(text) != b"null",
        },
        b"compaction" => facts.summary |= value.of(text) != b"null",
        b"metadata" => facts.session = session(text, value),
        b"tools" => view.tools = read_tools(text, value),
        _ => {}
    }
}

/// Claude Code stores JSON with a `session_id` in `metadata.user_id`.
fn session(text: &[u8], metadata: Span) -> Option<String> {
    let user = json::get_string(text, metadata, "user_id")?;
    let inner = user.as_bytes();
    let span = json::whole(inner).ok()?;
    json::get_string(inner, span, "session_id").map(|s| s.into_owned())
}

fn read_tools(text: &[u8], value: Span) -> Option<ToolList> {
    walk::typed_tools(text, value, |kind| {
        CLIENT_TOOLS.iter().any(|c| kind.starts_with(c))
    })
}
