//! Stream events as spans.

use crate::marker::escape::Escaper;
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// Spans of an event's relevant members.
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

/// Parses an event. Returns its members and its type.
pub(super) fn event(data: &[u8]) -> (ResponsesEvent, &[u8]) {
    let keys = [
        "type",
        "output_index",
        "content_index",
        "sequence_number",
        "item",
        "part",
        "delta",
        "text",
        "response",
    ];
    let [kind, index, content, sequence, item, part, delta, text, response] = json::pick_begun(data, keys);
    let event = ResponsesEvent {
        index,
        content,
        sequence,
        item,
        part,
        delta,
        text,
        response,
    };
    (event, kind.map_or(b"", |kind| kind.inner().of(data)))
}

/// Parses a number; zero if there is none.
pub(super) fn number(data: &[u8], span: Option<Span>) -> u64 {
    span.and_then(|s| json::number(s.of(data))).unwrap_or_default()
}

/// Returns the edits that escape a complete text literal. `before` is the state after the text before it.
pub(super) fn broken(data: &[u8], literal: Option<Span>, mut before: Escaper) -> Vec<Edit> {
    let literal = literal.filter(|l| l.len() >= 2);
    literal.map_or(Vec::new(), |l| before.breaks(data, l.inner()))
}

/// Sequence numbers of events: upstream's, until an event is hidden or injected.
#[derive(Default)]
pub(super) struct Sequence {
    next: u64,
    /// Whether baton numbers the events.
    ours: bool,
}

impl Sequence {
    /// Starts numbering, because an event was hidden.
    pub(super) fn count(&mut self) {
        self.ours = true;
    }

    /// Returns the number of an injected event.
    pub(super) fn of_ours(&mut self) -> u64 {
        self.ours = true;
        self.next += 1;
        self.next - 1
    }

    /// Returns the number of a forwarded event with upstream's number `given`.
    pub(super) fn of_given(&mut self, given: u64) -> u64 {
        if !self.ours {
            self.next = given;
        }
        self.next += 1;
        self.next - 1
    }
}
