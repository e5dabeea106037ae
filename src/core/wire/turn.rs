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
    /// Edits of a turn's own text.
    pub(crate) fn within(turn: usize, edits: Vec<Edit>) -> Vec<Self> {
        let edits = edits.into_iter();
        edits.map(|edit| Self::Within(turn, edit)).collect()
    }

    pub fn turn(&self) -> usize {
        match *self {
            Self::Before(turn, _) | Self::After(turn, _) | Self::Within(turn, _) | Self::LeftOut(turn) => {
                turn
            }
        }
    }
}

named! {
    /// Whose turn it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Role {
        /// System or developer.
        System = "system",
        /// The user, tool results included where the wire puts them there.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// A tool's result as a turn of its own.
        Tool = "tool",
        /// An item that changes which tools exist.
        Tools = "tools",
        /// Anything else.
        Other = "other",
    }
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

/// What a turn is made of.
#[derive(Debug, Clone, Default)]
pub struct TurnContent {
    /// Its parts, in order.
    pub parts: Vec<TurnPart>,
    /// The content array, brackets included; `None` where the content is a string or nothing.
    pub list: Option<Span>,
}

impl TurnContent {
    /// Nothing but this part, outside of a list.
    pub(super) fn from_part(part: TurnPart) -> Self {
        Self {
            parts: vec![part],
            list: None,
        }
    }

    /// The same with what a rewrite sees of each block: what it must not edit is made `Other`.
    pub(super) fn edited(mut self, seen: impl Fn(&mut TurnPart)) -> Self {
        if self.list.is_some() {
            self.parts.iter_mut().for_each(seen);
        }
        self
    }
}

/// A part of a turn, as spans of the text that the turn is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnPart {
    /// The block, or the string literal where the content is a string.
    pub span: Span,
    pub kind: TurnPartKind,
    /// The inside of its text literal.
    pub text: Option<Span>,
    /// The inside of its call id literal (calls and results).
    pub id: Option<Span>,
    /// The inside of its name: of the tool that is called or answers, else of its type. `None`, where it has no type:
    /// it goes by its first member.
    pub name: Option<Span>,
    /// What is said in it, a value: a call's arguments, what a tool answered, reasoning, the data of a picture.
    pub value: Option<Span>,
    /// More that is said, after it.
    pub more: Option<Span>,
    /// The inside of its signature literal (Gemini).
    pub signature: Option<Span>,
    /// Whether the tool failed; `None` where the wire has no place to say so.
    pub failed: Option<bool>,
}

impl TurnPart {
    /// A part of which nothing else is known.
    pub(super) fn new(span: Span, kind: TurnPartKind) -> Self {
        Self {
            span,
            kind,
            ..Self::default()
        }
    }

    /// A text whose inside is there.
    pub(super) fn of_text(span: Span, inside: Span) -> Self {
        Self {
            text: Some(inside),
            ..Self::new(span, TurnPartKind::Text)
        }
    }

    /// A text that is nothing but a string.
    pub(super) fn literal(span: Span) -> Self {
        Self::of_text(span, span.inner())
    }

    /// Something of this name that says `value`.
    pub(super) fn named(span: Span, kind: TurnPartKind, name: Option<Span>, value: Option<Span>) -> Self {
        Self {
            name,
            value,
            ..Self::new(span, kind)
        }
    }

    pub(super) fn with_id(self, id: Option<Span>) -> Self {
        Self { id, ..self }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TurnPartKind {
    Text,
    /// A call of a tool.
    Call,
    /// A tool's result.
    Result,
    /// Reasoning.
    Thinking,
    /// A picture; with a value, any other data, of the type that it states.
    Image,
    /// A change of which tools exist.
    ToolChange,
    /// A provider's summary of earlier turns.
    Compaction,
    /// Anything else.
    #[default]
    Other,
}
