//! What a message says, as a person would call it: whose it is, of what kind, how it begins. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::text::{Span, json};
use crate::wire::{Facts, Part, PartKind, Role, Turn, View, Wire};

/// Characters of a first line that are kept.
const LINE: usize = 160;

/// Bytes of a text that are looked at for its first line.
const LOOKED_AT: usize = 4096;

/// A message in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gist {
    pub(super) role: &'static str,
    pub(super) kind: &'static str,
    pub(super) line: String,
}

/// One part of a message, in full.
#[derive(Debug, Serialize)]
pub struct ShownPart {
    /// `text`, `tool_use`, `tool_result`, `thinking`, `tools`, `other`.
    pub kind: &'static str,
    /// A text, unescaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Anything else, as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Box<RawValue>>,
}

impl ShownPart {
    pub(super) fn text(kind: &'static str, text: String) -> Self {
        let text = Some(text);
        Self {
            kind,
            text,
            json: None,
        }
    }

    /// A part that is shown as the JSON that it is.
    pub(super) fn json(kind: &'static str, json: &[u8]) -> Self {
        let json = raw(json);
        Self {
            kind,
            text: None,
            json,
        }
    }
}

/// The first line of a value that says something.
pub(super) fn telling_line(text: &[u8], at: Span) -> String {
    dig(text, at, 0).unwrap_or_default()
}

/// The name of a role.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::Tools => "tools",
        Role::Other => "other",
    }
}

/// The role of that name.
pub(super) fn role_named(name: &str) -> Role {
    let all = [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tools];
    all.into_iter()
        .find(|r| role_name(*r) == name)
        .unwrap_or(Role::Other)
}

fn kind_name(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Text => "text",
        PartKind::Call => "tool_use",
        PartKind::Result => "tool_result",
        PartKind::Thinking => "thinking",
        PartKind::ToolChange => "tools",
        PartKind::Other => "other",
    }
}

/// A message as a transcript of its own, so that its wire can take it apart.
fn alone(message: &Bytes, role: Role) -> View {
    let all = Span::new(0, message.len());
    View {
        body: message.clone(),
        list: all,
        turns: vec![Turn { span: all, role }],
        tools: None,
        facts: Facts::default(),
    }
}

/// A message in short.
pub(super) fn gist(wire: &dyn Wire, message: &Bytes, role: Role) -> Gist {
    let parts = wire.anatomy(&alone(message, role), 0).parts;
    let first = parts.first().map(|p| p.kind);
    let kind = match first {
        None if role == Role::Tool => "tool_result",
        None => "other",
        Some(first) if parts.iter().all(|p| p.kind == first) => kind_name(first),
        Some(_) => "mixed",
    };
    // Thinking comes first and says least, and so do a harness's blocks in front of a person's words.
    let says_little = |p: &&Part| p.kind == PartKind::Thinking || role == Role::User && is_tagged(message, p);
    let telling = parts.iter().find(|p| !says_little(p)).or(parts.first());
    let line = match telling {
        Some(part) => part_line(message, part),
        None => dig(message, Span::new(json::blank(message, 0), message.len()), 0).unwrap_or_default(),
    };
    Gist {
        role: role_name(role),
        kind,
        line: cut(&line),
    }
}

/// A message in full.
pub(super) fn parts(wire: &dyn Wire, message: &Bytes, role: Role) -> Vec<ShownPart> {
    let anatomy = wire.anatomy(&alone(message, role), 0);
    if anatomy.parts.is_empty() {
        return vec![ShownPart {
            kind: if role == Role::Tool {
                "tool_result"
            } else {
                "other"
            },
            text: None,
            json: raw(message),
        }];
    }
    let shown = anatomy.parts.iter().map(|part| {
        let text = part.text.filter(|_| part.kind == PartKind::Text);
        let text = text.map(|span| json::unescape(span.of(message)).into_owned());
        ShownPart {
            kind: kind_name(part.kind),
            json: if text.is_none() {
                raw(part.span.of(message))
            } else {
                None
            },
            text,
        }
    });
    shown.collect()
}

/// Whether a text begins like markup, as a harness writes it.
fn is_tagged(text: &[u8], part: &Part) -> bool {
    part.text
        .is_some_and(|inside| inside.of(text).trim_ascii_start().starts_with(b"<"))
}

fn raw(json: &[u8]) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8_lossy(json).into_owned()).ok()
}

fn part_line(text: &[u8], part: &Part) -> String {
    if part.kind == PartKind::Text
        && let Some(inside) = part.text
    {
        return first_line(text, inside);
    }
    let at = part.span;
    if part.kind == PartKind::Call {
        return call_line(text, at);
    }
    dig(text, at, 0).unwrap_or_default()
}

/// `name {arguments}`, wherever the wire has them.
fn call_line(text: &[u8], at: Span) -> String {
    let inner = ["function", "functionCall", "function_call"]
        .iter()
        .find_map(|key| json::get(text, at, key));
    let at = inner.unwrap_or(at);
    let name = json::get_string(text, at, "name").unwrap_or_default();
    let arguments = ["input", "arguments", "args"]
        .iter()
        .find_map(|key| json::get(text, at, key));
    let arguments = arguments.map(|span| match json::string(text, bounded(text, span)) {
        Some(string) => string.into_owned(),
        None => String::from_utf8_lossy(bounded(text, span).of(text)).into_owned(),
    });
    format!("{name} {}", arguments.unwrap_or_default())
}

/// Keys under which texts stand, most telling first.
const TELLING: [&str; 10] = [
    "text",
    "thinking",
    "content",
    "output",
    "response",
    "functionResponse",
    "parts",
    "summary",
    "result",
    "type",
];

/// The first text in a value that says something.
fn dig(text: &[u8], at: Span, depth: usize) -> Option<String> {
    /// Deeper there is nothing that a first line should show.
    const DEEPEST: usize = 6;
    if depth > DEEPEST {
        return None;
    }
    match text.get(at.start)? {
        b'"' => Some(first_line(text, at.inner())).filter(|line| !line.is_empty()),
        b'[' => json::elements(text, at)
            .into_iter()
            .find_map(|e| dig(text, e, depth + 1)),
        b'{' => TELLING
            .iter()
            .find_map(|key| dig(text, json::get(text, at, key)?, depth + 1)),
        _ => None,
    }
}

fn bounded(text: &[u8], span: Span) -> Span {
    let end = span.end.min(span.start + LOOKED_AT);
    if end == span.end {
        span
    } else {
        Span::new(span.start, char_end(text, end))
    }
}

/// An offset at or before `at` that splits neither a character nor an escape.
fn char_end(text: &[u8], mut at: usize) -> usize {
    while at > 0 && (text[at] & 0xC0 == 0x80 || text[at - 1] == b'\\') {
        at -= 1;
    }
    at
}

/// The first line of a literal's inside that says something.
fn first_line(text: &[u8], inside: Span) -> String {
    let shown = json::unescape(bounded(text, inside).of(text));
    let line = shown.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

/// A line as short as lists want it.
pub(super) fn cut(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LINE {
        return line;
    }
    line.chars().take(LINE - 1).chain(['…']).collect()
}

/// The first line of the first user text that is not the harness's, whole, so that it can be redacted before it
/// is cut.
pub(super) fn title(wire: &dyn Wire, view: &View, tags: &[String]) -> String {
    let users = (0..view.turns.len()).filter(|&i| view.turns[i].role == Role::User);
    let texts = users
        .flat_map(|i| wire.anatomy(view, i).parts)
        .filter_map(|p| match p.kind {
            PartKind::Text => p.text,
            _ => None,
        });
    let mut fallback = String::new();
    for inside in texts {
        let text = json::unescape(bounded(&view.body, inside).of(&view.body))
            .trim_start()
            .to_owned();
        let text = behind_tags(&text, tags);
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        if tags.iter().any(|tag| line.starts_with(tag.as_str())) {
            fallback = if fallback.is_empty() {
                line.to_owned()
            } else {
                fallback
            };
        } else if !line.is_empty() {
            return line.to_owned();
        }
    }
    fallback
}

/// What follows the blocks of the harness at the start of a text.
fn behind_tags<'a>(mut text: &'a str, tags: &[String]) -> &'a str {
    loop {
        let tag = tags
            .iter()
            .find(|tag| tag.starts_with('<') && text.starts_with(tag.as_str()));
        let Some(tag) = tag else { return text };
        let close = format!("</{}", &tag[1..]);
        let Some(at) = text.find(&close) else { return text };
        text = text[at + close.len()..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Call, anthropic::Anthropic, openai_chat::OpenaiChat};

    fn of(wire: &dyn Wire, role: Role, json: &'static str) -> (&'static str, String) {
        let gist = gist(wire, &Bytes::from_static(json.as_bytes()), role);
        (gist.kind, gist.line)
    }

    #[test]
    fn messages_of_each_kind_are_told_in_a_line() {
        let a: &dyn Wire = &Anthropic;
        assert_eq!(
            of(a, Role::User, r#"{"role":"user","content":"\n  Fix it.\nNow."}"#),
            ("text", "Fix it.".into())
        );
        let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t","name":"read","input":{"path":"a"}}]}"#;
        assert_eq!(
            of(a, Role::Assistant, call),
            ("mixed", r#"read {"path":"a"}"#.into())
        );
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"ok"}]}]}"#;
        assert_eq!(of(a, Role::User, result), ("tool_result", "ok".into()));
        let o: &dyn Wire = &OpenaiChat;
        let tool = r#"{"role":"tool","tool_call_id":"t","content":"done"}"#;
        assert_eq!(of(o, Role::Tool, tool).1, "done");
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]}"#;
        assert_eq!(
            of(o, Role::Assistant, call),
            ("tool_use", r#"read {"p":1}"#.into())
        );
    }

    #[test]
    fn a_title_is_the_persons_own_first_line() {
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"<system-reminder>y</system-reminder>\nMend the build\nplease"}]}]}"#);
        let view = Anthropic.read(&body, Call::Generate).unwrap();
        assert_eq!(
            title(&Anthropic, &view, &["<system-reminder>".to_owned()]),
            "Mend the build"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(5000);
        let message = Bytes::from(format!(r#"{{"role":"user","content":"{long}"}}"#));
        let gist = gist(&Anthropic, &message, Role::User);
        assert_eq!(gist.line.chars().count(), LINE);
    }
}
