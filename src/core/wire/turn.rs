//! Elements of a transcript, as far as all wires share them.

use crate::text::Span;
use crate::text::splice::Edit;

/// An element of the transcript: a message, an item or a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Span of the whole element.
    pub span: Span,
    /// Role of the speaker.
    pub role: Role,
    /// Which buffer of the view the spans refer to: 0 is the agent's body, `n` is `View::made[n - 1]`.
    pub text: usize,
}

impl Turn {
    /// A turn of the agent's body.
    pub fn new(span: Span, role: Role) -> Self {
        Self { span, role, text: 0 }
    }
}

/// A change at the turn with this number.
#[derive(Debug, Clone)]
pub enum TurnChange {
    /// Insert an element before the turn.
    Before(usize, String),
    /// Insert an element after the turn.
    After(usize, String),
    /// Edit the turn's bytes.
    Within(usize, Edit),
    /// Omit the turn.
    LeftOut(usize),
}

impl TurnChange {
    /// Wraps edits of a turn's bytes.
    pub(crate) fn within(turn: usize, edits: Vec<Edit>) -> Vec<Self> {
        let edits = edits.into_iter();
        edits.map(|edit| Self::Within(turn, edit)).collect()
    }

    /// Index of the turn that the change is at.
    pub fn turn(&self) -> usize {
        match *self {
            Self::Before(turn, _) | Self::After(turn, _) | Self::Within(turn, _) | Self::LeftOut(turn) => {
                turn
            }
        }
    }
}

named! {
    /// Speaker of a turn.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Role {
        /// System or developer.
        System = "system",
        /// The user; on some wires also tool results.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// A tool result that is a turn of its own.
        Tool = "tool",
        /// An item that changes the available tools.
        Tools = "tools",
        /// Anything else.
        Other = "other",
    }
}

impl Role {
    /// Whether turns of this role belong to the conversation itself, unlike system messages and tool changes.
    pub fn is_spoken(self) -> bool {
        !matches!(self, Self::System | Self::Tools)
    }

    /// Whether the model may have created turns of this role. Most items of unknown types come from the
    /// model.
    pub fn may_be_models(self) -> bool {
        matches!(self, Self::Assistant | Self::Other)
    }
}

/// Content of a turn.
#[derive(Debug, Clone, Default)]
pub struct TurnContent {
    /// Parts in order.
    pub parts: Vec<TurnPart>,
    /// The content array including its brackets, or `None` if the content is a string or absent.
    pub list: Option<Span>,
}

impl TurnContent {
    /// Content of a single part outside a list.
    pub(super) fn from_part(part: TurnPart) -> Self {
        Self {
            parts: vec![part],
            list: None,
        }
    }

    /// Applies `seen` to each block. It turns parts that a rewrite must not edit into `Other`.
    pub(super) fn edited(mut self, seen: impl Fn(&mut TurnPart)) -> Self {
        if self.list.is_some() {
            self.parts.iter_mut().for_each(seen);
        }
        self
    }
}

/// A part of a turn, as spans of the turn's buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnPart {
    /// The block, or the string literal if the content is a string.
    pub span: Span,
    pub kind: TurnPartKind,
    /// Inside of the text literal.
    pub text: Option<Span>,
    /// Inside of the call id literal (calls and results).
    pub id: Option<Span>,
    /// Inside of the name literal: the tool that is called or answers, otherwise the part's type.
    ///
    /// `None` means that the part has no type and is named by its first member.
    pub name: Option<Span>,
    /// Payload: a call's arguments, a tool's output, reasoning, or image data.
    pub value: Option<Span>,
    /// Additional payload after `value`.
    pub more: Option<Span>,
    /// Inside of the signature literal (Gemini).
    pub signature: Option<Span>,
    /// Whether the tool failed, or `None` if the wire has no member for that.
    pub failed: Option<bool>,
}

impl TurnPart {
    /// A part with only a span and a kind.
    pub(super) fn new(span: Span, kind: TurnPartKind) -> Self {
        Self {
            span,
            kind,
            ..Self::default()
        }
    }

    /// A part of text; `inside` is the inside of its literal.
    pub(super) fn of_text(span: Span, inside: Span) -> Self {
        Self {
            text: Some(inside),
            ..Self::new(span, TurnPartKind::Text)
        }
    }

    /// A part that is a plain string literal.
    pub(super) fn literal(span: Span) -> Self {
        Self::of_text(span, span.inner())
    }

    /// A part with a name and a payload.
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

/// Kind of a part, in terms that all wires share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TurnPartKind {
    Text,
    /// Tool call.
    Call,
    /// Tool result.
    Result,
    /// Reasoning.
    Thinking,
    /// An image. With a `value`, other media of the type that the part states.
    Image,
    /// Change of the available tools.
    ToolChange,
    /// The provider's summary of earlier turns.
    Compaction,
    /// Anything else.
    #[default]
    Other,
}
