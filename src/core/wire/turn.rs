//! The elements of a transcript, as far as all wires have them in common.

use crate::text::Span;
use crate::text::splice::Edit;

/// One element of the transcript: a message, an item, a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The whole element.
    pub span: Span,
    /// The role of its speaker.
    pub role: Role,
    /// Which text of the view its spans are in: 0 is the agent's body, and a rewritten turn has one of its own.
    pub text: usize,
}

impl Turn {
    /// A turn of the agent's body.
    pub fn new(span: Span, role: Role) -> Self {
        Self { span, role, text: 0 }
    }
}

/// A change at a turn of a transcript, which the number names.
#[derive(Debug, Clone)]
pub enum TurnChange {
    /// An element in front of it.
    Before(usize, String),
    /// An element after it.
    After(usize, String),
    /// An edit of its own text.
    Within(usize, Edit),
    /// It is left out.
    LeftOut(usize),
}

impl TurnChange {
    pub fn turn(&self) -> usize {
        match *self {
            Self::Before(turn, _) | Self::After(turn, _) | Self::Within(turn, _) | Self::LeftOut(turn) => {
                turn
            }
        }
    }
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
