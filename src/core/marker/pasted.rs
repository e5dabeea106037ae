//! The line that a user pastes to resume a handoff.
//!
//! Tolerates changes by users and agents: quote marks of a reply or a shell, one lost pair of brackets, a
//! truncated id, and words after the line.

use uuid::Uuid;

use super::find::ID_CHARS;
use super::gap;
use super::sentinel::raw_line_for_people;
use crate::text::{Span, json};

/// Prefix that every form of the line contains.
const WORD: &[u8] = b"handoff-resume:";
/// Maximum number of decoration characters before the line.
const DECORATION: usize = 32;
/// Minimum length of a truncated id, in characters: its timestamp.
const LEAST_ID: usize = 13;
/// Maximum length of a closing line, in bytes.
const CLOSING: usize = 96;

/// A parsed line to resume a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastedLine {
    /// Lowest and highest id that the line may mean; equal if the id is complete.
    pub ids: (Uuid, Uuid),
    /// Offset of the user's own text after the line. A whole pasted sentinel is skipped, because its prompt
    /// counts once.
    pub rest: usize,
}

/// Parses a line at the very start of the text with this `inside`.
pub fn read(text: &[u8], inside: Span) -> Option<PastedLine> {
    let start = after_opening(text, inside).unwrap_or(inside.start);
    let mut at = LiteralCursor {
        raw: Span::new(start, inside.end).of(text),
        at: 0,
    };
    at.skip(DECORATION, |c| c.is_whitespace() || c == '>' || is_quote(c));
    let brackets = at.skip(2, |c| c == '[');
    // At least one bracket must be left, so that prose about the syntax does not resume a handoff.
    if brackets == 0 || !at.raw[at.at..].starts_with(WORD) {
        return None;
    }
    at.at += WORD.len();
    at.skip(2, |c| c == ' ');
    let from = at.at;
    at.skip(ID_CHARS, |c| c.is_ascii_hexdigit() || c == '-');
    let ids = ids(&at.raw[from..at.at])?;
    // A truncated id may end in an ellipsis.
    at.skip(3, |c| matches!(c, '.' | '…'));
    at.skip(2, |c| c == ']');
    at.skip(3, is_quote);
    let rest = after_line(text, start + at.at, inside.end);
    Some(PastedLine {
        ids,
        rest: after_closing(text, inside, rest),
    })
}

/// Range of ids that a user's input may mean.
pub fn id_range(given: &str) -> Option<(Uuid, Uuid)> {
    let id = given.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id = id.strip_prefix("handoff-resume:").unwrap_or(id);
    // Read as a pasted line, so that both accept the same ids.
    let line = json::quote(&format!("[[handoff-resume:{id}]]"));
    read(line.as_bytes(), Span::new(1, line.len() - 1)).map(|pasted| pasted.ids)
}

fn is_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '*' | '“' | '”' | '„' | '‘' | '’' | '«' | '»'
    )
}

/// Offset of the user's text after the line, or after the block that the line opens.
fn after_line(text: &[u8], from: usize, end: usize) -> usize {
    let closed = closing(text, from, end).and_then(|at| {
        let line = &text[at..end.min(at + CLOSING)];
        memchr::memmem::find(line, b"]]").map(|i| at + i + 2)
    });
    let line = || raw_line_for_people(text, from, end);
    // A whole block if it is closed, otherwise the line for users.
    gap::after(text, closed.or_else(line).unwrap_or(from), end)
}

/// Finds the closing line of the block that was opened before `from`. An opening line in between belongs to
/// another block.
fn closing(text: &[u8], from: usize, end: usize) -> Option<usize> {
    let words = memchr::memmem::find_iter(&text[from..end], WORD).map(|at| from + at);
    let mut lines = words.filter_map(|at| {
        let before = &text[from..at];
        let closes = before.ends_with(b"[[/");
        (closes || before.ends_with(b"[")).then_some((closes, at))
    });
    lines.next().filter(|(closes, _)| *closes).map(|(_, at)| at)
}

/// Lowest and highest id with this prefix.
fn ids(given: &[u8]) -> Option<(Uuid, Uuid)> {
    const PATTERN: &[u8; ID_CHARS] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let fits = |(given, wanted): (&u8, &u8)| (*given == b'-') == (*wanted == b'-');
    // A shorter beginning has only a part of the timestamp, and would match the handoffs of minutes or days.
    if given.len() < LEAST_ID || !given.iter().zip(PATTERN).all(fits) {
        return None;
    }
    let filled = |with: u8| {
        let rest = PATTERN[given.len()..].iter();
        let rest = rest.map(|&c| if c == b'-' { c } else { with });
        let whole: Vec<u8> = given.iter().copied().chain(rest).collect();
        Uuid::try_parse_ascii(&whole).ok()
    };
    Some((filled(b'0')?, filled(b'f')?))
}

/// Iterates over the inside of a literal, character by character.
struct LiteralCursor<'a> {
    raw: &'a [u8],
    at: usize,
}

impl LiteralCursor<'_> {
    /// Skips at most `most` characters of a kind, and returns their number.
    fn skip(&mut self, most: usize, of_kind: impl Fn(char) -> bool) -> usize {
        let mut count = 0;
        while count < most
            && let Some((c, used)) = json::char_at(&self.raw[self.at..])
            && of_kind(c)
        {
            self.at += used;
            count += 1;
        }
        count
    }
}

/// Beginning of the tag that Claude Code 2.1 puts before a paste of several lines, `<pasted_content id="19a4">`. Typed
/// text is before the tag or after the closing one.
const OPEN: &str = "<pasted_content";
const CLOSE: &str = "</pasted_content";
/// Maximum length of a tag's attributes, in bytes.
const ATTRIBUTES: usize = 64;

/// Offset after an opening tag at the start of the text, and after the blanks that follow it.
pub(crate) fn after_opening(text: &[u8], inside: Span) -> Option<usize> {
    let at = after_blanks(text, inside.start, inside.end);
    let after = after_tag(text, at, inside.end, OPEN)?;
    Some(after_blanks(text, after, inside.end))
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
        let before = json::unescape(Span::new(inside.start, at).of(text));
        before.trim().is_empty()
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
    use crate::marker::sentinel;

    const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

    fn pasted(text: &str) -> Option<((Uuid, Uuid), String)> {
        let text = json::quote(text).into_bytes();
        let inside = Span::new(1, text.len() - 1);
        let found = read(&text, inside)?;
        Some((
            found.ids,
            json::unescape(&text[found.rest..inside.end]).into_owned(),
        ))
    }

    #[test]
    fn what_people_do_to_the_line_is_forgiven() {
        let block = sentinel::full(ID, Some("done"), "Goal.\nNext.", "VR-iunEUwURMLNGuL8sekw");
        let quoted: String = block.lines().map(|l| format!("> {l}\n")).collect();
        for (line, rest) in [
            (format!("[[handoff-resume:{ID}]]"), ""),
            (format!("  \n[[handoff-resume:{ID}]]  \nGo on."), "Go on."),
            (format!("[[handoff-resume:{ID}]] Go on."), "Go on."),
            (format!("> [[handoff-resume:{ID}]]\nGo on."), "Go on."),
            (format!("\"[[handoff-resume:{ID}]]\" Go on."), "Go on."),
            (format!("“[[handoff-resume:{ID}]]”\n\nGo on."), "Go on."),
            (format!("`[handoff-resume:{ID}]`"), ""),
            (format!("[handoff-resume: {ID}]"), ""),
            (format!("{block}\n\nGo on."), "Go on."),
            (format!("{}Go on.", quoted), "Go on."),
            (
                format!("{}\n\nGo on.", sentinel::short(ID, Some("done"))),
                "Go on.",
            ),
        ] {
            assert_eq!(pasted(&line), Some(((ID, ID), rest.to_owned())), "{line}");
        }
    }

    /// The user quotes only the opening line, and another block further down.
    #[test]
    fn the_closing_line_of_another_block_closes_nothing() {
        let other = Uuid::from_u128(0x0199a3c2_8000_7c3a_9b1f_2f6f0c9d8e11);
        let block = sentinel::full(other, Some("done"), "Goal.", "VR-iunEUwURMLNGuL8sekw");
        let quoted: String = block.lines().map(|l| format!("> {l}\n")).collect();
        for block in [&block, &quoted] {
            let written = format!("Go on. It must not be like this one:\n\n{block}\nBut better.");
            for line in [
                format!("[[handoff-resume:{ID}]]\n"),
                format!("> [[handoff-resume:{ID}]]\n"),
            ] {
                assert_eq!(
                    pasted(&format!("{line}{written}")),
                    Some(((ID, ID), written.clone()))
                );
            }
        }
        let written = "Is it like a handoff-resume:x? No.";
        let whole = sentinel::full(ID, Some("done"), written, "VR-iunEUwURMLNGuL8sekw");
        assert_eq!(pasted(&format!("{whole}\nGo on.")).unwrap().1, "Go on.");
    }

    #[test]
    fn an_id_that_was_cut_off_may_be_several() {
        let first = Uuid::from_u128(0x0199a3c2_7d1e_0000_0000_000000000000);
        let last = Uuid::from_u128(0x0199a3c2_7d1e_ffff_ffff_ffffffffffff);
        for line in [
            "[[handoff-resume:0199a3c2-7d1e",
            "[[handoff-resume:0199a3c2-7d1e…]]",
            "[handoff-resume:0199a3c2-7d1e]",
        ] {
            assert_eq!(pasted(line).unwrap().0, (first, last), "{line}");
        }
        assert_eq!(pasted("[[handoff-resume:0199a3c2-7d1"), None);
        assert_eq!(pasted("[[handoff-resume:0199a3c27d1e7c3a"), None);
    }

    #[test]
    fn anything_else_is_plain_text() {
        for text in [
            format!("handoff-resume:{ID}"),
            format!("see [[handoff-resume:{ID}]]"),
            format!("[[handoff-aside:{ID}]]"),
            format!("[[handoff-resume\\:{ID}]]"),
            format!("{}[[handoff-resume:{ID}]]", " ".repeat(40)),
            "[[handoff-resume:ID]]".to_owned(),
            String::new(),
        ] {
            assert_eq!(pasted(&text), None, "{text}");
        }
    }

    #[test]
    fn an_id_is_read_whole_by_its_beginning_and_with_what_was_copied_around_it() {
        let id = "01932f5e-4c00-7aaa-8bbb-123456789abc";
        let whole = id_range(id).unwrap();
        assert_eq!((whole.0, whole.1), (whole.1, id.parse().unwrap()));
        for copied in [
            format!("`{id}`"),
            format!("[[handoff-resume:{id}]]"),
            format!(" \"{id}\"."),
        ] {
            assert_eq!(id_range(&copied), Some(whole), "{copied}");
        }
        let beginning = id_range(&id[..13]).unwrap();
        assert!(beginning.0 < whole.0 && whole.0 < beginning.1);
        for unreadable in ["", "the last one", "\"\\", "]]"] {
            assert_eq!(id_range(unreadable), None, "{unreadable:?}");
        }
    }

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
