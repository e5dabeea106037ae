//! Stream events as spans.

use crate::text::{Span, json};

/// The spans of an event's members that matter.
#[derive(Default)]
pub(super) struct AnthropicEvent {
    pub(super) index: Option<Span>,
    pub(super) delta: Option<Span>,
    pub(super) block: Option<Span>,
    pub(super) message: Option<Span>,
    pub(super) usage: Option<Span>,
}

/// An event's members, and its type.
pub(super) fn event(data: &[u8]) -> (AnthropicEvent, &[u8]) {
    let keys = ["type", "index", "delta", "content_block", "message", "usage"];
    let [kind, index, delta, block, message, usage] = json::pick(data, json::root(data), keys);
    let event = AnthropicEvent {
        index,
        delta,
        block,
        message,
        usage,
    };
    (event, kind.map_or(b"", |kind| kind.inner().of(data)))
}
