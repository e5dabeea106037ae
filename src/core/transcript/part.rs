//! A turn, the contribution of one speaker in one piece, and its parts.

use std::borrow::Cow;
use std::fmt;

use super::literal::{self, CallArguments, JsonText};
use crate::text::{Span, json};
use crate::wire::{self, Role, TurnPart, TurnPartKind};

/// A part of a turn.
#[derive(Clone, Copy)]
pub struct TranscriptPart<'a> {
    pub(super) body: &'a [u8],
    /// The block or item, or the bare string if there is no block around it.
    pub span: Span,
    pub kind: TranscriptPartKind<'a>,
    /// The values that hold the part's text, unless the part itself is a string.
    pub(super) said: [Option<Span>; 2],
}

impl<'a> TranscriptPart<'a> {
    /// Wraps a part that the wire's reader found in `body`.
    pub(super) fn from_part(body: &'a [u8], part: TurnPart) -> Self {
        let literal = |inside: Option<Span>| Some(JsonText::new(body, inside?));
        let name = || {
            // A Gemini part has no type; its first member names it.
            let at = json::blank(body, part.span.start + 1);
            let is_named = body.get(at) == Some(&b'"');
            let first = is_named.then(|| Some(Span::new(at, json::string_end(body, at).ok()?).inner()));
            JsonText::new(body, part.name.or(first.flatten()).unwrap_or_default())
        };
        let kind = match part.kind {
            TurnPartKind::Text => {
                TranscriptPartKind::Text(JsonText::new(body, part.text.unwrap_or_default()))
            }
            TurnPartKind::Call => TranscriptPartKind::Call(ToolCall {
                id: literal(part.id.filter(|id| !id.is_empty())),
                name: literal(part.name),
                arguments: part.value.map(|value| CallArguments::new(body, value)),
            }),
            TurnPartKind::Result => TranscriptPartKind::Result(ToolResult {
                call: literal(part.id),
                name: literal(part.name),
                error: part.failed.map(|failed| failed || states_error(body, part.value)),
            }),
            TurnPartKind::Thinking => TranscriptPartKind::Thinking,
            // Gemini's `inlineData` also holds sounds and documents.
            TurnPartKind::Image if part.value.is_none_or(|data| is_picture(body, data)) => {
                TranscriptPartKind::Image
            }
            TurnPartKind::ToolChange => TranscriptPartKind::ToolChange,
            TurnPartKind::Image | TurnPartKind::Compaction | TurnPartKind::Other => {
                TranscriptPartKind::Other(name())
            }
        };
        let is_said = matches!(
            part.kind,
            TurnPartKind::Result | TurnPartKind::Thinking | TurnPartKind::Compaction | TurnPartKind::Other
        );
        Self {
            body,
            span: part.span,
            kind,
            said: [part.value, part.more].map(|value| value.filter(|_| is_said)),
        }
    }

    /// Strings of the part in order: speech, reasoning or tool results. A call's arguments are not included.
    pub fn texts(&self) -> Vec<JsonText<'a>> {
        if let TranscriptPartKind::Text(text) = self.kind {
            return vec![text];
        }
        let mut all = Vec::new();
        for value in self.said.into_iter().flatten() {
            literal::collect(self.body, value, &mut all);
        }
        all
    }

    /// The text of a part that is speech.
    pub fn speech(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            TranscriptPartKind::Text(text) => Some(text.get()),
            _ => None,
        }
    }

    /// The raw bytes in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// All text of the part, joined by newlines.
    pub fn text(&self) -> String {
        match self.texts()[..] {
            [text] => text.get().into_owned(),
            ref texts => texts.iter().map(JsonText::get).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl fmt::Debug for TranscriptPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.texts())
    }
}

/// Kind of a part, with the content that the kind has.
#[derive(Debug, Clone, Copy)]
pub enum TranscriptPartKind<'a> {
    /// Speech, or any other plain text.
    Text(JsonText<'a>),
    /// A call of one of the agent's tools.
    Call(ToolCall<'a>),
    /// Result of a tool.
    Result(ToolResult<'a>),
    /// Reasoning; without text if the provider hides it.
    Thinking,
    Image,
    /// A change of the set of tools.
    ToolChange,
    /// Anything else, by the wire's name for it.
    Other(JsonText<'a>),
}

/// A call of one of the agent's tools.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The id that the result refers to; some wires have none.
    pub id: Option<JsonText<'a>>,
    pub name: Option<JsonText<'a>>,
    pub arguments: Option<CallArguments<'a>>,
}

impl ToolCall<'_> {
    /// The tool's name, or an empty string.
    pub fn named(&self) -> String {
        self.name.map(|name| name.get().into_owned()).unwrap_or_default()
    }

    /// The arguments as text, or an empty string.
    pub fn given(&self) -> String {
        self.arguments
            .map(|all| all.get().into_owned())
            .unwrap_or_default()
    }
}

/// Result of a tool. The part holds its text.
#[derive(Debug, Clone, Copy)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call: Option<JsonText<'a>>,
    /// The tool, if the result names it.
    pub name: Option<JsonText<'a>>,
    /// Whether the tool failed; `None` if the wire has no flag for it.
    pub error: Option<bool>,
}

/// Whether data is a picture, by its declared MIME type.
fn is_picture(body: &[u8], data: Span) -> bool {
    let types = json::pick(body, data, ["mimeType", "mime_type"])
        .into_iter()
        .flatten();
    types
        .filter_map(|mime| json::string(body, mime))
        .any(|mime| mime.starts_with("image/"))
}

/// Whether a tool's result is an object with an error, as Gemini reports failures.
fn states_error(body: &[u8], answer: Option<Span>) -> bool {
    let error = answer.and_then(|answer| json::get(body, answer, "error"));
    error.is_some_and(|error| !matches!(error.of(body), b"null" | b"\"\"" | b"[]" | b"{}"))
}

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
