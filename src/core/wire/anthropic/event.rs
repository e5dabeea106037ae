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
    let mut found = AnthropicEvent::default();
    let mut kind: &[u8] = b"";
    let _ = json::object(data, json::blank(data, 0), |key, at| {
        let end = json::value_end(data, at)?;
        let value = Span::new(at, end);
        match key.of(data) {
            b"type" => kind = value.inner().of(data),
            b"index" => found.index = Some(value),
            b"delta" => found.delta = Some(value),
            b"content_block" => found.block = Some(value),
            b"message" => found.message = Some(value),
            b"usage" => found.usage = Some(value),
            _ => {}
        }
        Ok(end)
    });
    (found, kind)
}
