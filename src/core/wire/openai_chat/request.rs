//! Parses chat requests into spans, and adds the tool.

use bytes::Bytes;

use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::view::{RequestFacts, Role, ToolChoice, ToolList, TurnContent, View, first_member};
use crate::wire::walk::{self, is_cramped};
use crate::wire::{Operation, UnreadReason, own_text};

/// Top-level keys that a rewrite reads or edits. A body that repeats one is relayed unchanged.
const KEYS: [&str; 12] = [
    "messages",
    "tools",
    "tool_choice",
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "n",
    "modalities",
    "prompt_cache_key",
];

/// Members of compatible servers that bind the output to a grammar, in addition to `response_format`.
const GRAMMARS: [&str; 7] = [
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "json_schema",
    "grammar",
];

/// Body fields that identify a session, best first. `user` is not one of them, because a user has many
/// conversations.
const SESSIONS: [&[&str]; 3] = [
    &["prompt_cache_key"],
    &["session_id"],
    &["metadata", "session_id"],
];

pub(super) fn read(body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
    let view = View::unread(WireId::OpenaiChat, body, RequestFacts::for_operation(operation));
    walk::view(view, &KEYS, role, read_member)
}

/// Appends the last block of the user's content, or extends its string. Servers with their own chat
/// template reject two user messages in a row.
///
/// Blank text is valid here, and the model's text is returned unchanged.
pub(super) fn text_inside(content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
    own_text::among_blocks(content, &own_text::block(text)).or_else(|| own_text::in_string(content, text))
}

/// Requests usage in every stream that may have a later leg, because the size would otherwise be unknown.
pub(super) fn companions(view: &View) -> Vec<Edit> {
    if !view.facts.stream || view.facts.wants_usage {
        return Vec::new();
    }
    let text: &[u8] = &view.body;
    let include_usage = r#"{"include_usage":true}"#;
    let Some(options) = view.member(&["stream_options"]) else {
        let stream = view.member(&["stream"]);
        let add = |s: Span| Edit::insert(s.end, format!(r#","stream_options":{include_usage}"#));
        return stream.map(add).into_iter().collect();
    };
    vec![match json::get(text, options, "include_usage") {
        // `null`, or an invalid value.
        _ if text[options.start] != b'{' => Edit::replace(options, include_usage),
        Some(no) => Edit::replace(no, "true"),
        None => first_member(text, options, "include_usage", "true"),
    }]
}

fn role(literal: &[u8]) -> Role {
    match literal {
        b"\"user\"" => Role::User,
        b"\"assistant\"" => Role::Assistant,
        b"\"system\"" | b"\"developer\"" => Role::System,
        // `function` is the deprecated form of a tool message.
        b"\"tool\"" | b"\"function\"" => Role::Tool,
        _ => Role::Other,
    }
}

fn read_member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let facts = &mut view.facts;
    match key {
        b"model" => facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => facts.stream = json::is_true(value.of(text)),
        b"stream_options" => {
            facts.wants_usage =
                json::get(text, value, "include_usage").is_some_and(|v| json::is_true(v.of(text)))
        }
        b"max_tokens" | b"max_completion_tokens" => facts.cramped |= is_cramped(value.of(text)),
        b"tool_choice" => facts.choice = choice(text, value),
        b"response_format" => {
            facts.structured |= json::get_string(text, value, "type").is_some_and(|t| t != "text")
        }
        // Choices interleave, and a later leg could not continue just one of them.
        b"n" => facts.many = json::number(value.of(text)).is_some_and(|n| n > 1),
        // Audio output cannot contain a sentinel.
        b"modalities" => {
            let modes = json::elements(text, value);
            facts.server_side |= modes.iter().any(|m| m.of(text) == b"\"audio\"");
        }
        b"tools" => view.tools = read_tools(text, value),
        _ => read_other(text, key, value, facts),
    }
}

fn read_other(text: &[u8], key: &[u8], value: Span, facts: &mut RequestFacts) {
    facts.structured |= GRAMMARS.iter().any(|g| g.as_bytes() == key) && value.of(text) != b"null";
    // The best name of a session is first in the table; one from `metadata` yields to it.
    let Some(path) = SESSIONS.iter().find(|p| p[0].as_bytes() == key) else {
        return;
    };
    let named = json::at_path(text, value, &path[1..]).and_then(|v| json::string(text, v));
    let Some(named) = named.filter(|s| !s.trim().is_empty()) else {
        return;
    };
    if facts.session.is_none() || path.len() == 1 && key == SESSIONS[0][0].as_bytes() {
        facts.session = Some(named.into_owned());
    }
}

/// `allowed_tools` lists only the agent's tools, so baton's cannot be called.
fn choice(text: &[u8], value: Span) -> ToolChoice {
    match json::string(text, value).as_deref() {
        Some("none") => ToolChoice::None,
        Some("auto") => ToolChoice::Auto,
        Some(_) => ToolChoice::Forced,
        None if text.get(value.start) == Some(&b'{') => ToolChoice::Forced,
        None => ToolChoice::Auto,
    }
}

fn read_tools(text: &[u8], value: Span) -> Option<ToolList> {
    walk::tools(text, value, ["function", "custom"], |found, tools| {
        for inner in found.into_iter().flatten() {
            tools.client = true;
            tools.taken |= json::get_string(text, inner, "name").is_some_and(|n| n == TOOL_NAME);
        }
    })
}
