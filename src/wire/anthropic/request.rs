//! What an agent sends to Anthropic, as spans, and the edits that a rewrite makes in it.

use std::collections::HashMap;

use bytes::Bytes;
use memchr::memmem;

use crate::mark::gap;
use crate::record::{HiddenPair, Place};
use crate::text::Span;
use crate::text::json::{self, Malformed};
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;
use crate::tools::SCHEMA;
use crate::tools::TOOL_NAME;
use crate::wire::view::{self, Anatomy, Choice, Facts, Part, PartKind, Role, Tools, View};
use crate::wire::walk;
use crate::wire::{Beside, Call, HiddenCall, Unread};

/// Output room under which no call can be made (pre-warming and probes send 0 or 1).
const LEAST_ROOM: u64 = 1024;

/// Versioned tools that the agent runs itself; other typed tools run at the provider.
const CLIENT_TOOLS: [&str; 6] = [
    "custom",
    "bash_",
    "text_editor_",
    "memory_",
    "computer_",
    "browser_",
];

/// Top-level keys that a rewrite reads or edits: repeated, the body is left alone.
const KEYS: [&str; 9] = [
    "messages",
    "tools",
    "tool_choice",
    "model",
    "stream",
    "max_tokens",
    "output_config",
    "metadata",
    "thread",
];

pub(super) fn read(body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
    walk::view((body, prescan), call, &KEYS, role, read_member)
}

fn role(literal: &[u8]) -> Role {
    match literal {
        b"\"user\"" => Role::User,
        b"\"assistant\"" => Role::Assistant,
        b"\"system\"" => Role::System,
        _ => Role::Other,
    }
}

fn read_member(text: &[u8], key: &[u8], value: Span, facts: &mut Facts, tools: &mut Option<Tools>) {
    match key {
        b"model" => facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => facts.stream = json::is_true(value.of(text)),
        b"max_tokens" => facts.cramped = json::number(value.of(text)).is_some_and(|n| n < LEAST_ROOM),
        b"tool_choice" => {
            facts.choice = match json::get_string(text, value, "type").as_deref() {
                Some("none") => Choice::None,
                Some("any" | "tool") => Choice::Forced,
                _ => Choice::Auto,
            }
        }
        b"output_config" => {
            facts.structured |= json::get(text, value, "format").is_some_and(|v| v.of(text) != b"null")
        }
        b"thread" => facts.held |= value.of(text) != b"null",
        b"compaction" => facts.summary |= value.of(text) != b"null",
        b"metadata" => facts.session = session(text, value),
        b"tools" => *tools = read_tools(text, value),
        _ => {}
    }
}

/// Claude Code puts a JSON text with a `session_id` into `metadata.user_id`.
fn session(text: &[u8], metadata: Span) -> Option<String> {
    let user = json::get_string(text, metadata, "user_id")?;
    let inner = user.as_bytes();
    let span = json::whole(inner).ok()?;
    json::get_string(inner, span, "session_id").map(|s| s.into_owned())
}

fn read_tools(text: &[u8], value: Span) -> Option<Tools> {
    walk::typed_tools(text, value, |kind| {
        CLIENT_TOOLS.iter().any(|c| kind.starts_with(c))
    })
}

/// One walk, down to the members of each block: behind a cut it is made over everything that is kept.
pub(super) fn anatomy(view: &View, turn: usize) -> Anatomy {
    let text: &[u8] = &view.body;
    let mut found = Anatomy::default();
    let Some(turn) = view.turns.get(turn) else {
        return found;
    };
    let walked = json::object(text, turn.span.start, |key, at| {
        if key.of(text) != b"content" {
            return json::value_end(text, at);
        }
        let (content, end) = content(text, at)?;
        found = content;
        Ok(end)
    });
    walked.map_or_else(|_| Anatomy::default(), |_| found)
}

/// What a message's content at `at` is made of, and where it ends.
fn content(text: &[u8], at: usize) -> Result<(Anatomy, usize), Malformed> {
    let mut parts = Vec::new();
    if text.get(at) != Some(&b'[') {
        let end = json::value_end(text, at)?;
        let span = Span::new(at, end);
        parts.extend((text[at] == b'"').then(|| Part {
            kind: PartKind::Text,
            text: Some(span.inner()),
            ..other(span)
        }));
        return Ok((Anatomy { parts, list: None }, end));
    }
    let end = json::array(text, at, |at| {
        let part = part(text, at)?;
        let end = part.span.end;
        parts.push(part);
        Ok(end)
    })?;
    let list = Some(Span::new(at, end));
    Ok((Anatomy { parts, list }, end))
}

fn other(span: Span) -> Part {
    Part {
        span,
        kind: PartKind::Other,
        text: None,
        id: None,
    }
}

fn part(text: &[u8], at: usize) -> Result<Part, Malformed> {
    let mut part = other(Span::new(at, at));
    if text.get(at) != Some(&b'{') {
        part.span.end = json::value_end(text, at)?;
        return Ok(part);
    }
    let (mut own, mut answered) = (None, None);
    part.span.end = json::object(text, at, |key, at| {
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        match key.of(text) {
            b"type" => part.kind = kind(value.of(text)),
            b"text" if text[at] == b'"' => part.text = Some(value.inner()),
            b"id" if text[at] == b'"' => own = Some(value.inner()),
            b"tool_use_id" if text[at] == b'"' => answered = Some(value.inner()),
            _ => {}
        }
        Ok(end)
    })?;
    part.id = match part.kind {
        PartKind::Call => own,
        PartKind::Result => answered,
        _ => None,
    };
    Ok(part)
}

fn kind(literal: &[u8]) -> PartKind {
    match literal {
        b"\"text\"" => PartKind::Text,
        b"\"tool_use\"" => PartKind::Call,
        b"\"tool_result\"" => PartKind::Result,
        b"\"thinking\"" | b"\"redacted_thinking\"" => PartKind::Thinking,
        b"\"tool_addition\"" | b"\"tool_removal\"" => PartKind::ToolChange,
        _ => PartKind::Other,
    }
}

/// Signed thinking in an assistant turn binds its prefix. The search for the words comes first: it is cheap,
/// and most histories without thinking hold neither.
pub(super) fn bound(view: &View) -> bool {
    let history = view.text(view.list);
    if memmem::find(history, b"\"thinking\"").is_none()
        && memmem::find(history, b"\"redacted_thinking\"").is_none()
    {
        return false;
    }
    (0..view.turns.len())
        .filter(|&i| view.turns[i].role == Role::Assistant)
        .any(|i| {
            anatomy(view, i)
                .parts
                .iter()
                .any(|p| p.kind == PartKind::Thinking)
        })
}

pub(super) fn tool(view: &View, description: &str) -> Option<Edit> {
    Some(view.tools?.with(
        format_args!(r#"{{"name":"{TOOL_NAME}","description":{description},"input_schema":{SCHEMA}}}"#),
        description.len() + SCHEMA.len(),
    ))
}

pub(super) fn carry_over(blocks: &[String], prompt: &str) -> String {
    let prompt = json::quote(prompt);
    if blocks.is_empty() {
        return format!(r#"{{"role":"user","content":{prompt}}}"#);
    }
    format!(
        r#"{{"role":"user","content":[{},{{"type":"text","text":{prompt}}}]}}"#,
        blocks.join(",")
    )
}

/// A hidden call as a block. Arguments that are no JSON object become an empty one: the API takes no other.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
    let input = if object.is_ok() {
        call.arguments.trim()
    } else {
        "{}"
    };
    format!(
        r#"{{"type":"tool_use","id":{},"name":"{TOOL_NAME}","input":{input}}}"#,
        json::quote(&call.id)
    )
}

/// The result of a hidden call, as a block.
pub(super) fn result(pair: &HiddenPair) -> String {
    let error = if pair.answer.is_error() {
        r#","is_error":true"#
    } else {
        ""
    };
    format!(
        r#"{{"type":"tool_result","tool_use_id":{},"content":{}{error}}}"#,
        json::quote(&pair.call_id),
        json::quote(pair.answer.text())
    )
}

/// The call goes among the blocks of its sibling's turn, the result in front of the other results.
pub(super) fn put_beside(view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>> {
    let mut turns: HashMap<usize, (Anatomy, ResultsAt)> = HashMap::new();
    let edits = besides.iter().map(|Beside { at, pair }| {
        let Place::Beside { offset, .. } = pair.place else {
            return Vec::new();
        };
        let (anatomy, results) = turns
            .entry(at.turn)
            .or_insert_with(|| (anatomy(view, at.turn), ResultsAt::behind(view, at.turn)));
        vec![
            view::beside(&anatomy.parts, at.part, offset, &pair.call),
            results.with(&result(pair)),
        ]
    });
    edits.collect()
}

/// Where the results of a turn's calls go.
enum ResultsAt {
    /// First in the next user message, which is empty or not.
    Among { at: usize, empty: bool },
    /// In a message of their own: there is no user message, or it has no blocks.
    Alone { at: usize },
}

impl ResultsAt {
    fn behind(view: &View, turn: usize) -> Self {
        let next = view.turns.get(turn + 1).filter(|t| t.role == Role::User);
        match next.map(|_| anatomy(view, turn + 1)) {
            Some(Anatomy {
                list: Some(list),
                parts,
            }) => Self::Among {
                at: list.start + 1,
                empty: parts.is_empty(),
            },
            _ => Self::Alone {
                at: view.turns[turn].span.end,
            },
        }
    }

    fn with(&self, results: &str) -> Edit {
        match *self {
            Self::Among { at, empty } => {
                let comma = if empty { "" } else { "," };
                Edit::insert(at, format!("{results}{comma}"))
            }
            Self::Alone { at } => Edit::insert(at, format!(r#",{{"role":"user","content":[{results}]}}"#)),
        }
    }
}

/// The turn is split at the aside's line: what was said before it with the call, the result, what was said
/// after it.
pub(super) fn put_aside(
    view: &View,
    turn: usize,
    anatomy: &Anatomy,
    part: usize,
    mark: Span,
    pair: &HiddenPair,
) -> Vec<Edit> {
    let text: &[u8] = &view.body;
    let whole = view.turns[turn].span;
    let Some(here) = anatomy.parts.get(part) else {
        return Vec::new();
    };
    let Some(inside) = here.text else {
        return Vec::new();
    };
    let before = Span::new(inside.start, gap::before(text, inside.start, mark.start));
    let after = Span::new(gap::behind(text, mark.end, inside.end), inside.end);
    // The block, or for string content a block made of it, up to its text and behind it.
    let (open, close, head, tail) = match anatomy.list {
        Some(list) => (
            view.str(Span::new(here.span.start, inside.start)).into_owned(),
            view.str(Span::new(inside.end, here.span.end)).into_owned(),
            view.str(Span::new(whole.start, list.start + 1)).into_owned(),
            view.str(Span::new(list.end - 1, whole.end)).into_owned(),
        ),
        None => (
            r#"{"type":"text","text":""#.to_owned(),
            "\"}".to_owned(),
            format!("{}[", view.str(Span::new(whole.start, here.span.start))),
            format!("]{}", view.str(Span::new(here.span.end, whole.end))),
        ),
    };
    let block = |span: Span| {
        let blank = json::unescape(span.of(text)).trim().is_empty();
        (!blank).then(|| format!("{open}{}{close}", view.str(span)))
    };
    let mut with = String::new();
    if anatomy.list.is_none() {
        with.push_str(&head);
    }
    if let Some(block) = block(before) {
        with.push_str(&block);
        with.push(',');
    }
    with.push_str(&pair.call);
    with.push_str(&tail);
    with.push_str(&format!(r#",{{"role":"user","content":[{}]}}"#, result(pair)));
    let last = part + 1 >= anatomy.parts.len();
    let rest = block(after);
    let from = if anatomy.list.is_none() {
        whole.start
    } else {
        here.span.start
    };
    if rest.is_none() && last {
        return vec![Edit::replace(Span::new(from, whole.end), with)];
    }
    with.push(',');
    with.push_str(&head);
    match (&rest, last) {
        (Some(rest), true) => {
            with.push_str(rest);
            with.push_str(&tail);
            vec![Edit::replace(Span::new(from, whole.end), with)]
        }
        (Some(rest), false) => {
            with.push_str(rest);
            vec![Edit::replace(Span::new(from, here.span.end), with)]
        }
        (None, _) => vec![Edit::replace(
            Span::new(from, anatomy.parts[part + 1].span.start),
            with,
        )],
    }
}
