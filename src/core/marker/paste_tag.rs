//! The tag that an agent writes around pasted text.
//!
//! Claude Code 2.1 puts `<pasted_content id="19a4">` and `</pasted_content id="19a4">` around a paste of
//! several lines. Typed text is before or after it.

use crate::text::{Span, json};

const OPEN: &str = "<pasted_content";
const CLOSE: &str = "</pasted_content";
/// Maximum length of a tag's attributes, in bytes.
const ATTRIBUTES: usize = 64;

/// Offset after an opening tag at the start of the text, and after the blanks that follow it.
pub(crate) fn after_opening(text: &[u8], inside: Span) -> Option<usize> {
    let at = after_blanks(text, inside.start, inside.end);
    Some(after_blanks(
        text,
        after_tag(text, at, inside.end, OPEN)?,
        inside.end,
    ))
}

/// Offset after a closing tag at `from` and the two line breaks after it. Returns `from` if the text does not
/// begin with an opening tag.
pub(crate) fn after_closing(text: &[u8], inside: Span, from: usize) -> usize {
    let at = after_blanks(text, from, inside.end);
    let closing = after_opening(text, inside).and_then(|_| after_tag(text, at, inside.end, CLOSE));
    closing.map_or(from, |end| super::gap::after(text, end, inside.end))
}

/// Whether the text before `at` consists only of blanks and at most one opening tag.
pub(crate) fn starts_at(text: &[u8], inside: Span, at: usize) -> bool {
    let blank = || {
        json::unescape(Span::new(inside.start, at).of(text))
            .trim()
            .is_empty()
    };
    after_opening(text, inside) == Some(at) || blank()
}

fn after_tag(text: &[u8], at: usize, end: usize, tag: &str) -> Option<usize> {
    let rest = text.get(at..end)?.strip_prefix(tag.as_bytes())?;
    let close = memchr::memchr(b'>', &rest[..rest.len().min(ATTRIBUTES)])?;
    let attributes = &rest[..close];
    // Excludes longer tag names, and a `<` that begins another tag.
    let is_one = attributes.is_empty() || attributes[0] == b' ' && !attributes.contains(&b'<');
    is_one.then_some(at + tag.len() + close + 1)
}

fn after_blanks(text: &[u8], mut at: usize, end: usize) -> usize {
    while let Some((c, used)) = json::char_at(text.get(at..end).unwrap_or_default())
        && c.is_whitespace()
    {
        at += used;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> (Vec<u8>, Span) {
        let quoted = json::quote(text).into_bytes();
        let span = Span::new(1, quoted.len() - 1);
        (quoted, span)
    }

    #[test]
    fn a_tag_at_the_start_is_read_and_no_other() {
        for (text, pasted) in [
            ("\n\n<pasted_content id=\"19a4\">\n\n\nx", Some("x")),
            ("<pasted_content>x", Some("x")),
            ("See <pasted_content id=\"19a4\">x", None),
            ("<pasted_contents>x", None),
            ("<pasted_content id=\"<b>\">x", None),
            ("<pasted_content id=\"19a4", None),
        ] {
            let (raw, span) = inside(text);
            let found = after_opening(&raw, span).map(|at| json::unescape(&raw[at..span.end]).into_owned());
            assert_eq!(found.as_deref(), pasted, "{text}");
        }
    }

    #[test]
    fn what_was_typed_follows_the_closing_tag() {
        let close = "</pasted_content id=\"19a4\">";
        for (text, typed) in [
            (
                format!("<pasted_content id=\"19a4\">x\n\n{close}\n\nGo on."),
                "Go on.",
            ),
            (format!("<pasted_content id=\"19a4\">x{close}\n"), ""),
            (
                format!("x\n{close}\nGo on."),
                "\n</pasted_content id=\"19a4\">\nGo on.",
            ),
            ("<pasted_content>x and more".to_owned(), " and more"),
        ] {
            let (raw, span) = inside(&text);
            let from = memchr::memchr(b'x', &raw).unwrap() + 1;
            let at = after_closing(&raw, span, from);
            assert_eq!(json::unescape(&raw[at..span.end]), typed, "{text}");
        }
    }
}
