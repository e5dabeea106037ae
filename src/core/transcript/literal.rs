//! Strings and arguments as spans of the body; their escapes are decoded on demand.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::text::{Span, json};

/// The inside of a JSON string, escapes included.
#[derive(Clone, Copy)]
pub struct JsonText<'a> {
    body: &'a [u8],
    /// Range in the body, between the quotes.
    pub span: Span,
}

impl<'a> JsonText<'a> {
    pub(super) fn new(body: &'a [u8], span: Span) -> Self {
        Self { body, span }
    }

    /// Wraps the string literal at `span`; `None` if the value is not a string.
    pub fn literal(body: &'a [u8], span: Span) -> Option<Self> {
        (body.get(span.start) == Some(&b'"')).then(|| Self::new(body, span.inner()))
    }

    /// The decoded string; borrowed if it has no escapes.
    pub fn get(&self) -> Cow<'a, str> {
        json::unescape(self.raw())
    }

    /// The raw bytes in the body.
    pub fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// Decodes at most the first `bytes` bytes. Neither a character nor an escape is split.
    pub fn beginning(&self, bytes: usize) -> Cow<'a, str> {
        let raw = self.raw();
        if raw.len() <= bytes {
            return self.get();
        }
        let mut end = bytes;
        let mut at = 0;
        // Steps over whole escapes, because a backslash may itself be escaped.
        while let Some(next) = memchr(b'\\', &raw[at..end]) {
            let (_, len) = json::escape_at(&raw[at + next..]);
            if at + next + len > end {
                end = at + next;
                break;
            }
            at += next + len;
        }
        // Continuation bytes of UTF-8.
        while end > 0 && raw[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        json::unescape(&raw[..end])
    }
}

impl PartialEq<str> for JsonText<'_> {
    fn eq(&self, other: &str) -> bool {
        self.get() == other
    }
}

impl fmt::Debug for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// The arguments of a call: JSON, JSON in a string, or free text, depending on the wire and the tool.
#[derive(Clone, Copy)]
pub struct CallArguments<'a> {
    body: &'a [u8],
    /// The value in the body.
    pub span: Span,
}

impl<'a> CallArguments<'a> {
    pub(super) fn new(body: &'a [u8], span: Span) -> Self {
        Self { body, span }
    }

    /// Decodes the arguments: a JSON object for most tools, free text for some.
    ///
    /// Wires that send the object inside a JSON string, and those that send it as it is, give the same text.
    pub fn get(&self) -> Cow<'a, str> {
        match JsonText::literal(self.body, self.span) {
            Some(text) => text.get(),
            None => String::from_utf8_lossy(self.span.of(self.body)),
        }
    }

    /// At most the first `bytes` bytes of the arguments.
    pub fn beginning(&self, bytes: usize) -> Cow<'a, str> {
        match JsonText::literal(self.body, self.span) {
            Some(text) => text.beginning(bytes),
            None => {
                let end = self.span.end.min(self.span.start.saturating_add(bytes));
                String::from_utf8_lossy(Span::new(self.span.start, end).of(self.body))
            }
        }
    }

    /// A single argument as text: the value of a string, or the JSON of anything else.
    pub fn named(&self, key: &str) -> Option<String> {
        let text = self.get();
        let json = text.as_bytes();
        let value = json::get(json, json::whole(json).ok()?, key)?;
        Some(match json::string(json, value) {
            Some(string) => string.into_owned(),
            None => value.text(json),
        })
    }
}

impl fmt::Debug for CallArguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.get())
    }
}
