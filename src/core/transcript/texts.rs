//! Collects the human-readable strings in a value.

use super::literal::JsonText;
use crate::text::json::WalkResult;
use crate::text::{Span, json};

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
