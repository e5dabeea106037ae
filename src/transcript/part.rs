//! The neutral values: texts, and the kinds of parts that a turn is made of.

use std::borrow::Cow;
use std::fmt;

use super::texts;
use crate::json::{self, Span};

/// The inside of a JSON string, with its escapes.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    body: &'a [u8],
    /// Where it stands in the body, between its quotes.
    pub span: Span,
}

impl<'a> Text<'a> {
    pub(super) fn new(body: &'a [u8], span: Span) -> Self {
        Self { body, span }
    }

    /// The text of the string literal at `span`; `None` where it is no string.
    pub(super) fn literal(body: &'a [u8], span: Span) -> Option<Self> {
        (body.get(span.start) == Some(&b'"')).then(|| Self::new(body, span.inner()))
    }

    /// Without its escapes: a copy where it has any.
    pub fn get(&self) -> Cow<'a, str> {
        json::unescape(self.raw())
    }

    /// As it stands in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// The first bytes without their escapes: at least as many as asked for, where there are so many, and cut
    /// between characters.
    pub fn beginning(&self, bytes: usize) -> Cow<'a, str> {
        let raw = self.raw();
        let mut end = bytes.min(raw.len());
        // An escape has at most twelve bytes, a character at most four.
        const LONGEST: usize = 12;
        let from = end.saturating_sub(LONGEST);
        if end < raw.len() {
            end = raw[from..end]
                .iter()
                .position(|b| *b == b'\\')
                .map_or(end, |at| from + at);
            while end > 0 && raw[end] & 0xC0 == 0x80 {
                end -= 1;
            }
        }
        json::unescape(&raw[..end])
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.get() == other
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// One part of a turn.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    body: &'a [u8],
    /// The block, the item, or the string where there is no block around it.
    pub span: Span,
    /// What it is.
    pub kind: Kind<'a>,
    /// The values in which its texts stand.
    said: [Option<Span>; 2],
}

impl<'a> Part<'a> {
    pub(super) fn new(body: &'a [u8], span: Span, kind: Kind<'a>, said: [Option<Span>; 2]) -> Self {
        Self {
            body,
            span,
            kind,
            said,
        }
    }

    /// Its texts, in order: what is said, thought, or answered by a tool. Arguments of a call are not among them.
    pub fn texts(&self) -> Vec<Text<'a>> {
        let mut all = Vec::new();
        for value in self.said.into_iter().flatten() {
            texts::collect(self.body, value, &mut all);
        }
        all
    }

    /// As it stands in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// The value that holds a result's content, in its wire's shape.
    pub fn content(&self) -> Option<&'a [u8]> {
        Some(self.said[0]?.of(self.body))
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.texts())
    }
}

/// What a part is.
#[derive(Debug, Clone, Copy)]
pub enum Kind<'a> {
    /// Something said.
    Text(Text<'a>),
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
    Other(Text<'a>),
}

/// A call of one of the agent's tools.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The id that its result names; some wires have none.
    pub id: Option<Text<'a>>,
    /// The tool.
    pub name: Option<Text<'a>>,
    /// What it is called with.
    pub arguments: Option<Arguments<'a>>,
}

/// The arguments of a call: JSON, JSON in a string, or free text, as the wire and the tool have it.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    body: &'a [u8],
    /// The value in the body.
    pub span: Span,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(body: &'a [u8], span: Span) -> Self {
        Self { body, span }
    }

    /// As text: JSON for most tools, free text for some.
    pub fn get(&self) -> Cow<'a, str> {
        match Text::literal(self.body, self.span) {
            Some(text) => text.get(),
            None => String::from_utf8_lossy(self.span.of(self.body)),
        }
    }

    /// The first bytes of it, and so much more that no character and no escape is cut.
    pub fn beginning(&self, bytes: usize) -> Cow<'a, str> {
        match Text::literal(self.body, self.span) {
            Some(text) => text.beginning(bytes),
            None => {
                let end = self.span.end.min(self.span.start.saturating_add(bytes));
                String::from_utf8_lossy(Span::new(self.span.start, end).of(self.body))
            }
        }
    }

    /// One argument as text: a string's text, or the JSON of anything else.
    pub fn named(&self, key: &str) -> Option<String> {
        let text = self.get();
        let json = text.as_bytes();
        let value = json::get(json, json::whole(json).ok()?, key)?;
        Some(match json::string(json, value) {
            Some(string) => string.into_owned(),
            None => String::from_utf8_lossy(value.of(json)).into_owned(),
        })
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.get())
    }
}

/// What a tool answered. Its texts are the part's.
#[derive(Debug, Clone, Copy)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call: Option<Text<'a>>,
    /// The tool, where the result names it.
    pub name: Option<Text<'a>>,
    /// Whether the tool failed; `None` where the wire has no place to say so.
    pub error: Option<bool>,
    /// The exit code, where the wire has a place for it.
    pub exit: Option<i32>,
}
