//! The elements of a transcript, as far as all wires have them in common.

use crate::text::Span;

/// One element of the transcript: a message, an item, a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The whole element.
    pub span: Span,
    /// The role of its speaker.
    pub role: Role,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// System or developer.
    System,
    /// The user, tool results included where the wire puts them there.
    User,
    /// The model.
    Assistant,
    /// A tool's result as a turn of its own.
    Tool,
    /// An item that changes which tools exist.
    Tools,
    /// Anything else.
    Other,
}

impl Role {
    /// Whether such a turn belongs to the conversation itself: no system message, and no change of the tools.
    pub fn is_spoken(self) -> bool {
        !matches!(self, Self::System | Self::Tools)
    }

    /// Whether the model may have made it: items of kinds that are not known are mostly its own.
    pub fn may_be_models(self) -> bool {
        matches!(self, Self::Assistant | Self::Other)
    }
}
