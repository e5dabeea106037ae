//! Stream events as spans.

use crate::mark::escape::Escaper;
use crate::text::splice::Edit;
use crate::text::{Span, json};

use super::response_object;

/// The spans of an event's members that matter.
#[derive(Default)]
pub(super) struct ResponsesEvent {
    pub(super) index: Option<Span>,
    pub(super) content: Option<Span>,
    pub(super) sequence: Option<Span>,
    pub(super) item: Option<Span>,
    pub(super) part: Option<Span>,
    pub(super) delta: Option<Span>,
    pub(super) text: Option<Span>,
    pub(super) response: Option<Span>,
}

/// An event's members, and its type.
pub(super) fn event(data: &[u8]) -> (ResponsesEvent, &[u8]) {
    let mut found = ResponsesEvent::default();
    let mut kind: &[u8] = b"";
    let _ = json::object(data, json::blank(data, 0), |key, at| {
        let end = json::value_end(data, at)?;
        let value = Some(Span::new(at, end));
        match key.of(data) {
            b"type" => kind = Span::new(at, end).inner().of(data),
            b"output_index" => found.index = value,
            b"content_index" => found.content = value,
            b"sequence_number" => found.sequence = value,
            b"item" => found.item = value,
            b"part" => found.part = value,
            b"delta" => found.delta = value,
            b"text" => found.text = value,
            b"response" => found.response = value,
            _ => {}
        }
        Ok(end)
    });
    (found, kind)
}

/// A number, zero where there is none.
pub(super) fn number(data: &[u8], span: Option<Span>) -> u64 {
    span.and_then(|s| json::number(s.of(data))).unwrap_or_default()
}

/// Where a whole text is escaped that continues what `before` has seen.
pub(super) fn broken(data: &[u8], literal: Option<Span>, mut before: Escaper) -> Vec<Edit> {
    let literal = literal.filter(|l| l.len() >= 2);
    literal.map_or(Vec::new(), |l| response_object::break_edits(data, l, &mut before))
}
