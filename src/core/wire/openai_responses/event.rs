//! Stream events as spans.

use crate::marker::escape::Escaper;
use crate::text::splice::Edit;
use crate::text::{Span, json};

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

/// A number, zero where there is none.
pub(super) fn number(data: &[u8], span: Option<Span>) -> u64 {
    span.and_then(|s| json::number(s.of(data))).unwrap_or_default()
}

/// Where a whole text is escaped that continues what `before` has seen.
pub(super) fn broken(data: &[u8], literal: Option<Span>, mut before: Escaper) -> Vec<Edit> {
    let literal = literal.filter(|l| l.len() >= 2);
    literal.map_or(Vec::new(), |l| before.breaks(data, l.inner()))
}

/// The number of the next event; upstream's own until an event was swallowed or put in.
#[derive(Default)]
pub(super) struct Sequence {
    next: u64,
    /// Whether events are counted here.
    ours: bool,
}

impl Sequence {
    /// From here on events are counted here: one was swallowed.
    pub(super) fn count(&mut self) {
        self.ours = true;
    }

    /// The number of an event of ours.
    pub(super) fn of_ours(&mut self) -> u64 {
        self.ours = true;
        self.next += 1;
        self.next - 1
    }

    /// The number of an event that is sent on, which upstream has `given` this one.
    pub(super) fn of_given(&mut self, given: u64) -> u64 {
        if !self.ours {
            self.next = given;
        }
        self.next += 1;
        self.next - 1
    }
}
