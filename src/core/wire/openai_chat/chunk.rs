//! One chunk of a chat stream, as spans.

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg::{Ending, StopReason};
use crate::wire::view::members_without;

/// The spans of a chunk that matter.
#[derive(Default)]
pub(super) struct ChatChunk {
    /// The chunk itself.
    pub(super) root: Span,
    /// Its members, key and value.
    pub(super) members: Vec<(Span, Span)>,
    /// Its first choice.
    pub(super) choice: Option<ChunkChoice>,
    /// Its usage, where it is an object.
    pub(super) usage: Option<Span>,
    /// Whether it is an error.
    pub(super) error: bool,
    /// Whether it says whose it is; Azure's filter chunks have an empty id.
    pub(super) named: bool,
}

/// The spans of a choice.
#[derive(Default)]
pub(super) struct ChunkChoice {
    pub(super) delta: Option<Span>,
    /// Whether a reason is stated: neither null nor empty.
    pub(super) finish: Option<Span>,
}

impl ChatChunk {
    /// Reads a chunk; `None` where it is no object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut chunk = Self {
            root: json::root(data),
            ..Self::default()
        };
        let mut choices = Span::default();
        json::object(data, json::blank(data, 0), |key, at| {
            let value = Span::new(at, json::value_end(data, at)?);
            match key.of(data) {
                b"id" => chunk.named = value.len() > 2 && data[at] == b'"',
                b"choices" => choices = value,
                b"usage" if data[at] == b'{' => chunk.usage = Some(value),
                b"error" => chunk.error = !matches!(value.of(data), b"null" | b"false" | b"\"\"" | b"{}"),
                _ => {}
            }
            chunk.members.push((key, value));
            Ok(value.end)
        })
        .ok()?;
        let first = json::elements(data, choices).into_iter().next();
        chunk.choice = first.map(|c| ChunkChoice::read(data, c));
        Some(chunk)
    }
}

impl ChunkChoice {
    fn read(data: &[u8], whole: Span) -> Self {
        let [delta, finish] = json::pick(data, whole, ["delta", "finish_reason"]);
        Self {
            delta: delta.filter(|delta| data[delta.start] == b'{'),
            finish: finish.filter(|finish| data[finish.start] == b'"' && finish.len() > 2),
        }
    }
}

/// Whether a member of a delta says anything.
pub(super) fn says_something(literal: &[u8]) -> bool {
    !matches!(literal, b"null" | b"\"\"" | b"[]" | b"{}")
}

/// The insides of a content's text literals: the one string, or the texts of a list (Mistral).
pub(super) fn texts(data: &[u8], content: Span) -> Vec<Span> {
    if data.get(content.start) == Some(&b'"') {
        return vec![content.inner()];
    }
    let blocks = json::elements(data, content).into_iter();
    blocks
        .filter_map(|block| json::get_inner(data, block, "text"))
        .collect()
}

/// The edits that take members out of an object, commas included.
pub(super) fn without(members: &[(Span, Span)], gone: &[Span]) -> Vec<Edit> {
    members_without(members, |key| gone.contains(&key)).unwrap_or_else(|| match members {
        [(first, _), .., (_, last)] | [(first, last)] => {
            vec![Edit::delete(Span::new(first.start - 1, last.end))]
        }
        [] => Vec::new(),
    })
}

/// A finish reason's meaning.
pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("stop") => StopReason::Done,
        Some("tool_calls" | "function_call") => StopReason::Calls,
        Some("content_filter") => StopReason::Refused,
        Some("error") => StopReason::Error,
        Some("") | None => StopReason::Open,
        Some(_) => StopReason::Truncated,
    }
}

/// A finish reason as the response's.
pub(super) fn reason_edit(data: &[u8], reason: Span, ending: Ending) -> Option<Edit> {
    let asks = reason.of(data) == b"\"tool_calls\"";
    match ending {
        Ending::Own => None,
        Ending::WithoutCall if !asks => None,
        _ => Some(Edit::replace(reason, r#""stop""#)),
    }
}
