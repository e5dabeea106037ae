//! A turn: what one speaker put into the transcript in one piece.

use super::part::{ToolCall, TranscriptPart, TranscriptPartKind};
use crate::text::{Span, json};
use crate::wire::{self, Role};

/// A message, an item or a content: what one speaker put there in one piece.
#[derive(Clone, Copy)]
pub struct TranscriptTurn<'a> {
    pub(super) body: &'a [u8],
    /// The whole element, in the body.
    pub span: Span,
    /// The role of its speaker.
    pub role: Role,
}

/// Members with a message's time. No request of today's APIs has one; answers do, and agents that keep them.
const TIMES: [&str; 4] = ["timestamp", "created_at", "createTime", "created"];

impl<'a> TranscriptTurn<'a> {
    /// A single message: `message` is one JSON value.
    pub fn alone(message: &'a [u8], role: Role) -> Self {
        Self {
            body: message,
            span: json::root(message),
            role,
        }
    }

    /// What it is made of, in the order in which the model reads it.
    pub fn parts(&self) -> Vec<TranscriptPart<'a>> {
        let parts = wire::parts(self.body, self.span, self.role).into_iter();
        parts
            .map(|part| TranscriptPart::from_part(self.body, part))
            .collect()
    }

    /// The calls of tools in it, in order.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = ToolCall<'a>> + use<'a> {
        let parts = self.parts().into_iter();
        parts.filter_map(|part| match part.kind {
            TranscriptPartKind::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The raw bytes in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// When it was made, as it is written there: a number of seconds or a date; `None` where the wire does not say.
    pub fn time(&self) -> Option<&'a str> {
        let value = json::pick(self.body, self.span, TIMES)
            .into_iter()
            .flatten()
            .next()?;
        let value = match value.of(self.body).first() {
            Some(b'"') => value.inner(),
            Some(b'0'..=b'9') => value,
            _ => return None,
        };
        std::str::from_utf8(value.of(self.body)).ok()
    }
}
