//! A turn: the contribution of one speaker, in one piece.

use super::part::{ToolCall, TranscriptPart, TranscriptPartKind};
use crate::text::{Span, json};
use crate::wire::{self, Role};

/// A message, an item or a content: the contribution of one speaker, in one piece.
#[derive(Clone, Copy)]
pub struct TranscriptTurn<'a> {
    pub(super) body: &'a [u8],
    /// The whole element in the body.
    pub span: Span,
    /// The role of the speaker.
    pub role: Role,
}

/// Members with the time of a message.
///
/// No current API has one in requests. Responses do, and so do the files of agents that store them.
const TIMES: [&str; 4] = ["timestamp", "created_at", "createTime", "created"];

impl<'a> TranscriptTurn<'a> {
    /// A turn of a single message; `message` is one JSON value.
    pub fn alone(message: &'a [u8], role: Role) -> Self {
        Self {
            body: message,
            span: json::root(message),
            role,
        }
    }

    /// Parts of the turn, in the order in which the model reads them.
    pub fn parts(&self) -> Vec<TranscriptPart<'a>> {
        let parts = wire::parts(self.body, self.span, self.role).into_iter();
        parts
            .map(|part| TranscriptPart::from_part(self.body, part))
            .collect()
    }

    /// The tool calls of the turn, in order.
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

    /// When the message was created, as written: a number of seconds or a date. `None` if the wire has no time.
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
