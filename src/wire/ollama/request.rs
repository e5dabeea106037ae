//! What an agent sends to Ollama, as spans, and the tool and the carry-over message that go in.

use bytes::Bytes;

use crate::text::prescan::Prescan;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::SCHEMA;
use crate::tools::TOOL_NAME;
use crate::wire::anchor::Traits;
use crate::wire::view::{Anatomy, Facts, Part, PartKind, Role, Tools, Turn, View};
use crate::wire::walk;
use crate::wire::{Call, Unread};

/// Output room under which no call can be made.
const LEAST_ROOM: u64 = 1024;

/// Top-level keys that a rewrite reads or edits: repeated, the body is left alone.
const KEYS: [&str; 6] = ["messages", "tools", "model", "stream", "format", "options"];

pub(super) fn read(body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
    let text: &[u8] = body;
    let mut view = View {
        body: body.clone(),
        list: Span::default(),
        turns: Vec::new(),
        tools: None,
        facts: Facts {
            stream: true,
            summary: call == Call::Compact,
            ..Facts::default()
        },
    };
    walk::body(text, &KEYS, |key, at| {
        let end = prescan.value_end(text, at)?;
        member(text, key, Span::new(at, end), &mut view);
        Ok(end)
    })?;
    if view.turns.is_empty() {
        return Err(Unread::OtherShape);
    }
    Ok(view)
}

fn member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let raw = value.of(text);
    match key {
        b"messages" => {
            view.list = value;
            view.turns = turns(text, value);
        }
        b"tools" => view.tools = tools(text, value),
        b"model" => view.facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => view.facts.stream = raw != b"false",
        b"format" => view.facts.structured = !matches!(raw, b"null" | b"\"\""),
        b"options" => {
            view.facts.cramped = json::get_u64(text, value, "num_predict").is_some_and(|n| n < LEAST_ROOM);
        }
        _ => {}
    }
}

fn turns(text: &[u8], messages: Span) -> Vec<Turn> {
    let objects = json::elements(text, messages)
        .into_iter()
        .filter(|s| text.get(s.start) == Some(&b'{'));
    let turn = |span| {
        let role = match json::get(text, span, "role").map(|r| r.of(text)) {
            Some(b"\"user\"") => Role::User,
            Some(b"\"assistant\"") => Role::Assistant,
            Some(b"\"system\"") => Role::System,
            Some(b"\"tool\"") => Role::Tool,
            _ => Role::Other,
        };
        Turn { span, role }
    };
    objects.map(turn).collect()
}

fn tools(text: &[u8], value: Span) -> Option<Tools> {
    if text.get(value.start) != Some(&b'[') {
        return None;
    }
    let all = json::elements(text, value);
    let name = |tool: &Span| json::get_string(text, json::get(text, *tool, "function")?, "name");
    Some(Tools {
        end: value.end - 1,
        count: all.len(),
        client: !all.is_empty(),
        taken: all.iter().any(|t| name(t).is_some_and(|n| n == TOOL_NAME)),
        old_style: false,
    })
}

/// The content's text, then the calls. A tool's message is one result.
pub(super) fn anatomy(view: &View, turn: usize) -> Anatomy {
    let text: &[u8] = &view.body;
    let Some(turn) = view.turns.get(turn) else {
        return Anatomy::default();
    };
    let mut content = None;
    let mut calls = None;
    let mut id = None;
    for (key, value) in json::members(text, turn.span) {
        let literal = text[value.start] == b'"';
        match key.of(text) {
            b"content" if literal => content = Some(value),
            b"tool_calls" => calls = Some(value),
            b"tool_call_id" if literal => id = Some(value.inner()),
            _ => {}
        }
    }
    let result = turn.role == Role::Tool;
    let said = content.map(|span| Part {
        span,
        kind: if result { PartKind::Result } else { PartKind::Text },
        text: (!result).then_some(span.inner()),
        id: id.filter(|_| result),
    });
    let calls = calls.map_or(Vec::new(), |c| json::elements(text, c));
    let call = |span| Part {
        span,
        kind: PartKind::Call,
        text: None,
        id: traits(text, span).id,
    };
    Anatomy {
        parts: said.into_iter().chain(calls.into_iter().map(call)).collect(),
        list: None,
    }
}

/// What a call is known by.
pub(super) fn traits(text: &[u8], call: Span) -> Traits {
    let function = |key: &str| json::at_path(text, call, &["function", key]);
    Traits {
        name: function("name"),
        arguments: function("arguments"),
        id: json::get(text, call, "id")
            .filter(|i| text[i.start] == b'"' && i.len() > 2)
            .map(Span::inner),
        signature: None,
    }
}

/// Whether a call is of our tool.
pub(super) fn is_ours(text: &[u8], call: Span) -> bool {
    let name = traits(text, call).name.and_then(|n| json::string(text, n));
    name.is_some_and(|n| n == TOOL_NAME)
}

pub(super) fn tool(view: &View, description: &str) -> Option<Edit> {
    Some(view.tools?.with(
        format_args!(
            r#"{{"type":"function","function":{{"name":"{TOOL_NAME}","description":{description},"parameters":{SCHEMA}}}}}"#
        ),
        description.len() + SCHEMA.len(),
    ))
}

pub(super) fn user_text(text: &str) -> String {
    format!(r#"{{"role":"user","content":{}}}"#, json::quote(text))
}
