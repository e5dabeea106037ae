//! Strings and arguments as spans of the body; their escapes are decoded on demand. All readable strings of a value.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::text::Span;
use crate::text::json::{self, WalkResult};

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

/// Maximum depth of values that are read.
///
/// Each block is walked once more to find its type, so an unlimited depth would cost quadratic time.
const DEEPEST: usize = 16;

/// Types of blocks without text: pictures, sounds, files, references.
const MEDIA: &[&[u8]] = &[
    b"image",
    b"image_url",
    b"input_image",
    b"computer_screenshot",
    b"input_audio",
    b"audio",
    b"input_file",
    b"file",
    b"base64",
    b"url",
    b"item_reference",
    b"redacted_thinking",
    b"reasoning.encrypted",
];

/// Members of a block (an object with a type) that hold no readable text.
const UNREAD: &[&[u8]] = &[
    b"type",
    b"role",
    b"id",
    b"tool_use_id",
    b"tool_call_id",
    b"call_id",
    b"item_id",
    b"file_id",
    b"signature",
    b"thoughtSignature",
    b"thought_signature",
    b"encrypted_content",
    b"encrypted_index",
    b"encrypted_stdout",
    b"cache_control",
    b"media_type",
    b"mime_type",
    b"annotations",
    b"citations",
    b"logprobs",
    b"status",
    b"phase",
    b"index",
    b"outcome",
    b"format",
];

/// Appends the strings of the value at `span`, in order, each once. A truncated value yields those before the
/// break.
pub(super) fn collect<'a>(body: &'a [u8], span: Span, out: &mut Vec<JsonText<'a>>) {
    let mut reader = TextReader {
        body,
        all_are_blocks: false,
        out,
    };
    let _ = reader.value(span.start, 0);
}

/// The strings of a message, or of any other part of a request, in order; `None` if the JSON is invalid at
/// any depth.
pub fn texts(json: &[u8]) -> Option<Vec<JsonText<'_>>> {
    let mut all = Vec::new();
    let mut reader = TextReader {
        body: json,
        all_are_blocks: true,
        out: &mut all,
    };
    let end = reader.value(json::blank(json, 0), 0).ok()?;
    (json::blank(json, end) == json.len()).then_some(all)
}

struct TextReader<'a, 'o> {
    body: &'a [u8],
    /// Whether objects without a type count as blocks, as messages and their contents do.
    all_are_blocks: bool,
    out: &'o mut Vec<JsonText<'a>>,
}

impl TextReader<'_, '_> {
    /// Reads the value at `at`, and returns its end.
    fn value(&mut self, at: usize, depth: usize) -> WalkResult {
        let body = self.body;
        if depth > DEEPEST {
            return json::value_end(body, at);
        }
        match body.get(at) {
            Some(b'"') => {
                let end = json::string_end(body, at)?;
                self.out.push(JsonText::new(body, Span::new(at, end).inner()));
                Ok(end)
            }
            Some(b'[') => json::array(body, at, |at| self.value(at, depth + 1)),
            Some(b'{') => self.object(at, depth),
            _ => json::value_end(body, at),
        }
    }

    fn object(&mut self, at: usize, depth: usize) -> WalkResult {
        let body = self.body;
        // The type may follow the other members, so it is looked up before they are read.
        let kind = json::get(body, Span::new(at, at), "type").filter(|kind| body[kind.start] == b'"');
        if kind.is_some_and(|kind| MEDIA.contains(&kind.inner().of(body))) {
            return json::value_end(body, at);
        }
        let is_block = self.all_are_blocks || kind.is_some();
        json::object(body, at, |key, at| {
            match is_block && UNREAD.contains(&key.of(body)) {
                true => json::value_end(body, at),
                false => self.value(at, depth + 1),
            }
        })
    }
}
