//! The kinds of parts that a turn is made of.

use std::fmt;

use super::literal::{CallArguments, JsonText};
use super::texts;
use crate::text::Span;

/// One part of a turn.
#[derive(Clone, Copy)]
pub struct TranscriptPart<'a> {
    body: &'a [u8],
    /// The block, the item, or the string where there is no block around it.
    pub span: Span,
    pub kind: TranscriptPartKind<'a>,
    /// The values that hold its texts.
    text_spans: [Option<Span>; 2],
}

impl<'a> TranscriptPart<'a> {
    pub(super) fn new(
        body: &'a [u8],
        span: Span,
        kind: TranscriptPartKind<'a>,
        text_spans: [Option<Span>; 2],
    ) -> Self {
        Self {
            body,
            span,
            kind,
            text_spans,
        }
    }

    /// Its texts, in order: speech, thinking, or results of a tool. Arguments of a call are not among them.
    pub fn texts(&self) -> Vec<JsonText<'a>> {
        let mut all = Vec::new();
        for value in self.text_spans.into_iter().flatten() {
            texts::collect(self.body, value, &mut all);
        }
        all
    }

    /// The raw bytes in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// Its texts, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.texts().iter().map(JsonText::get).collect();
        texts.join("\n")
    }
}

impl fmt::Debug for TranscriptPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.texts())
    }
}

#[derive(Debug, Clone, Copy)]
pub enum TranscriptPartKind<'a> {
    /// A statement.
    Text(JsonText<'a>),
    /// A call of one of the agent's tools.
    Call(ToolCall<'a>),
    /// What a tool answered.
    Result(ToolResult<'a>),
    /// Reasoning; without texts where it is hidden.
    Thinking,
    /// A picture.
    Image,
    /// A change of which tools exist.
    ToolChange,
    /// Anything else, by the name that the wire has for it.
    Other(JsonText<'a>),
}

/// A call of one of the agent's tools.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The id that its result names; some wires have none.
    pub id: Option<JsonText<'a>>,
    pub name: Option<JsonText<'a>>,
    /// What it is called with.
    pub arguments: Option<CallArguments<'a>>,
}

/// What a tool answered. Its texts are the part's.
impl ToolCall<'_> {
    /// Its tool; empty where it has none.
    pub fn named(&self) -> String {
        self.name.map(|name| name.get().into_owned()).unwrap_or_default()
    }

    /// Its arguments; empty where it has none.
    pub fn given(&self) -> String {
        self.arguments
            .map(|all| all.get().into_owned())
            .unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call: Option<JsonText<'a>>,
    /// The tool, where the result names it.
    pub name: Option<JsonText<'a>>,
    /// Whether the tool failed; `None` where the wire has no place to say so.
    pub error: Option<bool>,
    /// The exit code, where the wire has a place for it.
    pub exit: Option<i32>,
}
