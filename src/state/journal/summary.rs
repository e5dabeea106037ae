//! Summary of a message for lists: role, kind and first line. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::Serialize;
use serde_json::value::RawValue;

use baton_core::text::{Span, json};
use baton_core::transcript::{JsonText, Transcript, TranscriptPart, TranscriptPartKind, TranscriptTurn};
use baton_core::wire::{Role, View};

/// Maximum length of a first line in characters.
const LINE: usize = 160;

/// Maximum bytes searched for a first line.
const LOOKED_AT: usize = 4096;

/// Summary of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageText {
    pub(super) role: &'static str,
    pub(super) kind: &'static str,
    pub(super) line: String,
}

/// A part of a message, in full.
#[derive(Debug, Serialize)]
pub struct ShownPart {
    /// `text`, `tool_use`, `tool_result`, `thinking`, `tools`, `other`.
    pub kind: &'static str,
    /// Unescaped text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Any other part, unchanged.
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

    /// Creates a part that is shown as JSON.
    pub(super) fn json(kind: &'static str, json: &[u8]) -> Self {
        let json = raw(json);
        Self {
            kind,
            text: None,
            json,
        }
    }
}

/// Returns the first distinctive line of a value.
pub(super) fn distinctive_line(text: &[u8], at: Span) -> String {
    dig(text, at, 0).unwrap_or_default()
}

/// Returns the role with this name, or `Other` if there is none.
pub(super) fn role_named(name: &str) -> Role {
    Role::named(name).unwrap_or(Role::Other)
}

fn kind_name(kind: &TranscriptPartKind<'_>) -> &'static str {
    match kind {
        TranscriptPartKind::Text(_) => "text",
        TranscriptPartKind::Call(_) => "tool_use",
        TranscriptPartKind::Result(_) => "tool_result",
        TranscriptPartKind::Thinking => "thinking",
        TranscriptPartKind::ToolChange => "tools",
        TranscriptPartKind::Image | TranscriptPartKind::Other(_) => "other",
    }
}

/// Returns the parts to list. Reasoning and images next to a message's content are omitted.
fn listed<'a>(message: &'a [u8], role: Role) -> Vec<TranscriptPart<'a>> {
    let mut parts = TranscriptTurn::alone(message, role).parts();
    let is_block = |part: &TranscriptPart<'_>| part.raw().starts_with(b"{");
    parts.retain(|part| {
        is_block(part)
            || !matches!(
                part.kind,
                TranscriptPartKind::Thinking | TranscriptPartKind::Image
            )
    });
    parts
}

/// Returns the kind of a message without parts.
fn bare_kind(role: Role) -> &'static str {
    match role {
        Role::Tool => "tool_result",
        _ => "other",
    }
}

/// Summarizes a message.
pub(super) fn summary(message: &[u8], role: Role) -> MessageText {
    let parts = listed(message, role);
    let mut kinds = parts.iter().map(|part| kind_name(&part.kind));
    let kind = match kinds.next() {
        None => bare_kind(role),
        Some(first) if kinds.all(|kind| kind == first) => first,
        Some(_) => "mixed",
    };
    // Thinking and a harness's blocks come first but say little about the message.
    let says_little = |part: &&TranscriptPart<'_>| match part.kind {
        TranscriptPartKind::Thinking => true,
        TranscriptPartKind::Text(text) => {
            role == Role::User && text.raw().trim_ascii_start().starts_with(b"<")
        }
        _ => false,
    };
    let distinctive = parts.iter().find(|part| !says_little(part)).or(parts.first());
    let line = match distinctive {
        Some(part) => part_line(message, part),
        None => distinctive_line(message, Span::new(json::blank(message, 0), message.len())),
    };
    MessageText {
        role: role.name(),
        kind,
        line: cut(&line),
    }
}

/// Returns the parts of a message in full.
pub(super) fn parts(message: &[u8], role: Role) -> Vec<ShownPart> {
    let parts = listed(message, role);
    if parts.is_empty() {
        return vec![ShownPart::json(bare_kind(role), message)];
    }
    let shown = parts.iter().map(|part| match part.kind {
        TranscriptPartKind::Text(text) => ShownPart::text("text", text.get().into_owned()),
        kind => ShownPart::json(kind_name(&kind), part.raw()),
    });
    shown.collect()
}

fn raw(json: &[u8]) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8_lossy(json).into_owned()).ok()
}

/// Returns the most distinctive line of a part. For a call, returns the tool and its arguments.
fn part_line(message: &[u8], part: &TranscriptPart<'_>) -> String {
    match part.kind {
        TranscriptPartKind::Text(text) => first_line(&text),
        TranscriptPartKind::Call(call) => {
            let name = call.name.map(|name| name.get()).unwrap_or_default();
            // Only the beginning is unescaped, because the arguments may contain a whole file.
            let arguments = call.arguments.map(|arguments| arguments.beginning(LOOKED_AT));
            format!("{name} {}", arguments.unwrap_or_default())
        }
        _ => distinctive_line(message, part.span),
    }
}

/// Keys whose values may contain text, most distinctive first.
const DISTINCTIVE_KEYS: [&str; 10] = [
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

/// Returns the first distinctive text in a value.
fn dig(text: &[u8], at: Span, depth: usize) -> Option<String> {
    /// Maximum depth. Deeper values are not suitable for a first line.
    const DEEPEST: usize = 6;
    if depth > DEEPEST {
        return None;
    }
    match text.get(at.start)? {
        b'"' => JsonText::literal(text, at)
            .map(|text| first_line(&text))
            .filter(|line| !line.is_empty()),
        b'[' => json::elements(text, at)
            .into_iter()
            .find_map(|e| dig(text, e, depth + 1)),
        b'{' => DISTINCTIVE_KEYS
            .iter()
            .find_map(|key| dig(text, json::get(text, at, key)?, depth + 1)),
        _ => None,
    }
}

/// Returns the first line that is not blank.
fn first_line(text: &JsonText<'_>) -> String {
    let shown = text.beginning(LOOKED_AT);
    let line = shown.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

/// Shortens a line for lists.
pub(super) fn cut(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LINE {
        return line;
    }
    line.chars().take(LINE - 1).chain(['…']).collect()
}

/// Returns the first line of the first user text that is not the harness's.
///
/// The line is complete, so that the caller can redact it before shortening it.
pub(super) fn title(view: &View, tags: &[String]) -> String {
    let turns = Transcript::from_view(view).turns();
    let users = turns.filter(|turn| turn.role == Role::User);
    let texts = users
        .flat_map(|turn| turn.parts())
        .filter_map(|part| match part.kind {
            TranscriptPartKind::Text(text) => Some(text),
            _ => None,
        });
    let mut fallback = String::new();
    for text in texts {
        let text = text.beginning(LOOKED_AT);
        let text = after_tags(text.trim_start(), tags);
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !is_resume_line(line))
            .unwrap_or_default();
        if tags.iter().any(|tag| line.starts_with(tag.as_str())) {
            // A line from the harness is better than no title.
            if fallback.is_empty() {
                line.clone_into(&mut fallback);
            }
        } else if !line.is_empty() {
            return line.to_owned();
        }
    }
    fallback
}

/// Whether a line resumes a handoff, or ends a pasted one.
fn is_resume_line(line: &str) -> bool {
    line.contains("[handoff-resume:") || line.contains("[/handoff-resume:")
}

/// Skips the harness's blocks at the beginning of user text.
fn after_tags<'a>(mut text: &'a str, tags: &[String]) -> &'a str {
    loop {
        let is_first = |tag: &&String| tag.starts_with('<') && text.starts_with(tag.as_str());
        let Some(tag) = tags.iter().find(is_first) else {
            return text;
        };
        let close = format!("</{}", &tag[1..]);
        // Without its end the block may be the user's text.
        let Some(at) = text.find(&close) else { return text };
        text = text[at + close.len()..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::wire::{Operation, anthropic};
    use bytes::Bytes;

    fn of(role: Role, json: &str) -> (&'static str, String) {
        let summary = summary(json.as_bytes(), role);
        (summary.kind, summary.line)
    }

    #[test]
    fn messages_of_each_kind_are_one_line() {
        assert_eq!(
            of(Role::User, r#"{"role":"user","content":"\n  Fix it.\nNow."}"#),
            ("text", "Fix it.".into())
        );
        let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t","name":"read","input":{"path":"a"}}]}"#;
        assert_eq!(
            of(Role::Assistant, call),
            ("mixed", r#"read {"path":"a"}"#.into())
        );
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"ok"}]}]}"#;
        assert_eq!(of(Role::User, result), ("tool_result", "ok".into()));
        let tool = r#"{"role":"tool","tool_call_id":"t","content":"done"}"#;
        assert_eq!(of(Role::Tool, tool).1, "done");
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]}"#;
        assert_eq!(of(Role::Assistant, call), ("tool_use", r#"read {"p":1}"#.into()));
    }

    #[test]
    fn a_title_is_the_users_own_first_line() {
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"<system-reminder>y</system-reminder>\nMend the build\nplease"}]}]}"#);
        let view = anthropic::WIRE.read(&body, Operation::Generate).unwrap();
        assert_eq!(title(&view, &["<system-reminder>".to_owned()]), "Mend the build");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(5000);
        let message = format!(r#"{{"role":"user","content":"{long}"}}"#);
        let (_, line) = of(Role::User, &message);
        assert_eq!(line.chars().count(), LINE);
    }
}
