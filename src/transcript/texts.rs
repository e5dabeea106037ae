//! The texts in a value: what a person would read of it, and nothing that is there for machines.

use super::part::Text;
use crate::json::{self, Span};

/// Values are looked into so deep. Each level is stepped over once more, so that there must be a bound.
const DEEPEST: usize = 16;

/// Blocks that hold no text: pictures, sounds, files, references.
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

/// Members of a block (an object with a type) that nobody reads.
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

/// Appends the texts of the value at `span`, in order, each once.
pub(super) fn collect<'a>(body: &'a [u8], span: Span, out: &mut Vec<Text<'a>>) {
    deeper(body, span, 0, out);
}

fn deeper<'a>(body: &'a [u8], span: Span, depth: usize, out: &mut Vec<Text<'a>>) {
    if depth > DEEPEST {
        return;
    }
    match body.get(span.start) {
        Some(b'"') => out.push(Text::new(body, span.inner())),
        Some(b'[') => {
            // A list that breaks off has what stands before that.
            let _ = json::array(body, span.start, |at| {
                let end = json::value_end(body, at)?;
                deeper(body, Span::new(at, end), depth + 1, out);
                Ok(end)
            });
        }
        Some(b'{') => object(body, span, depth, out),
        _ => {}
    }
}

fn object<'a>(body: &'a [u8], span: Span, depth: usize, out: &mut Vec<Text<'a>>) {
    let kind = json::get(body, span, "type").filter(|kind| body[kind.start] == b'"');
    if kind.is_some_and(|kind| MEDIA.contains(&kind.inner().of(body))) {
        return;
    }
    let _ = json::object(body, span.start, |key, at| {
        let end = json::value_end(body, at)?;
        if kind.is_none() || !UNREAD.contains(&key.of(body)) {
            deeper(body, Span::new(at, end), depth + 1, out);
        }
        Ok(end)
    });
}
