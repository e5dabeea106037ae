//! Escapes sentinel-like text that baton did not write, and restores it.
//!
//! On the way to the agent, `[[handoff-resume:` becomes `[[handoff-resume\:`; aside, note and closing forms
//! alike. So nothing that a model quotes can cut a transcript. On the way upstream the backslash is removed
//! again. Text that already has n backslashes there gets n + 1, which makes the inverse exact.

use std::borrow::Cow;

use memchr::memchr2;

use super::find::{STEM, WORDS};
use crate::text::splice::Edit;
use crate::text::{Span, json};

/// Scanner for the beginning of a sentinel. The matched prefix survives from one delta to the next.
///
/// Each variant names the last part that was read, up to `Colon`, which expects the colon. `Stem` and `Word` count the
/// matched bytes, and `Word` also has the index of the word in `WORDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escaper {
    #[default]
    Clear,
    Bracket,
    Brackets,
    Slash,
    Stem(u8),
    Word(u8, u8),
    Colon,
}

impl Escaper {
    /// Returns the state after `c`, and whether `c` is the colon that completes a sentinel's beginning.
    fn next(self, c: char) -> (Self, bool) {
        let byte = if c.is_ascii() { c as u8 } else { 0 };
        let state = match (self, byte) {
            (Self::Bracket | Self::Brackets, b'[') => Self::Brackets,
            // After three brackets the last two still open a sentinel.
            (_, b'[') => Self::Bracket,
            (Self::Brackets, b'/') => Self::Slash,
            (Self::Brackets | Self::Slash, b'h') => Self::Stem(1),
            (Self::Stem(n), c) if STEM.get(n as usize) == Some(&c) => Self::Stem(n + 1),
            (Self::Stem(n), c) if n as usize == STEM.len() => match WORDS.iter().position(|w| w[0] == c) {
                Some(word) => Self::Word(word as u8, 1),
                None => Self::Clear,
            },
            (Self::Word(w, n), c) if WORDS[w as usize].get(n as usize) == Some(&c) => {
                if n as usize + 1 == WORDS[w as usize].len() {
                    Self::Colon
                } else {
                    Self::Word(w, n + 1)
                }
            }
            // Text that is already escaped matches too and gets one more backslash, so that restoring it is
            // exact.
            (Self::Colon, b'\\') => Self::Colon,
            (Self::Colon, b':') => return (Self::Clear, true),
            _ => Self::Clear,
        };
        (state, false)
    }

    /// Whether no prefix is matched, so that text without a bracket can be skipped.
    pub fn is_clear(self) -> bool {
        self == Self::Clear
    }

    /// Reads the next piece of text, the inside of a JSON string literal.
    ///
    /// Returns the offsets in it where an escaped backslash (`\\`, two bytes) must be inserted.
    pub fn follow(&mut self, raw: &[u8]) -> Vec<usize> {
        let mut breaks = Vec::new();
        self.read(raw, |_, span, colon| {
            if colon {
                breaks.push(span.start);
            }
        });
        breaks
    }

    /// Reads the next piece of text and returns the edits that escape it. The piece is the `inside` of a
    /// literal in `text`.
    pub fn breaks(&mut self, text: &[u8], inside: Span) -> Vec<Edit> {
        let breaks = self.follow(inside.of(text)).into_iter();
        breaks.map(|at| Edit::insert(inside.start + at, r"\\")).collect()
    }

    /// Reads the next piece of escaped text, the inside of a JSON string literal.
    ///
    /// Returns the spans of the escaped backslashes to remove, even if the sentinel begins in an earlier
    /// piece.
    pub fn unescaped(&mut self, raw: &[u8]) -> Vec<Span> {
        let mut slashes = Vec::new();
        let mut last = Span::default();
        self.read(raw, |c, span, colon| {
            // Only the backslash directly before the colon was added on the way to the agent.
            if colon && !last.is_empty() && last.end == span.start {
                slashes.push(last);
            }
            if c == '\\' {
                last = span;
            }
        });
        slashes
    }

    /// Visits each character that may belong to a sentinel's beginning.
    ///
    /// `visit` receives the character, its span in `raw`, and whether it is the colon that completes the
    /// beginning.
    #[inline]
    fn read(&mut self, raw: &[u8], mut visit: impl FnMut(char, Span, bool)) {
        let mut at = 0;
        while at < raw.len() {
            if self.is_clear() {
                // A bracket may also be spelled as an escape, so a backslash ends the skip.
                let Some(hit) = memchr2(b'[', b'\\', &raw[at..]) else {
                    break;
                };
                at += hit;
            }
            let (c, used) = if raw[at] == b'\\' {
                json::escape_at(&raw[at..])
            } else {
                (raw[at] as char, 1)
            };
            let (state, colon) = self.next(c);
            *self = state;
            visit(c, Span::new(at, at + used), colon);
            at += used;
        }
    }
}

/// Returns `text` with every sentinel-like beginning escaped.
pub fn break_up(text: &str) -> Cow<'_, str> {
    let mut state = Escaper::Clear;
    let mut out = String::new();
    let mut copied = 0;
    for (at, c) in text.char_indices() {
        let (next, colon) = state.next(c);
        state = next;
        if colon {
            out.push_str(&text[copied..at]);
            out.push('\\');
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMS: [&str; 6] = [
        "[[handoff-resume:",
        "[[/handoff-resume:",
        "[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]",
        "[[handoff-aside:",
        "[[/handoff-aside:",
        "[[handoff-note:",
    ];

    fn broken_in_pieces(text: &str, cut: usize) -> String {
        let mut escaper = Escaper::default();
        let quoted = json::quote(text);
        let raw = &quoted.as_bytes()[1..quoted.len() - 1];
        // Cut between characters: each delta is a literal of its own, so a piece never ends inside an escape.
        let cut = (cut..=raw.len())
            .find(|&c| json::unescape(&raw[..c]).len() + json::unescape(&raw[c..]).len() == text.len());
        let (first, second) = raw.split_at(cut.unwrap_or(raw.len()));
        let mut out = Vec::new();
        for piece in [first, second] {
            let mut at = 0;
            for place in escaper.follow(piece) {
                out.extend_from_slice(&piece[at..place]);
                out.extend_from_slice(b"\\\\");
                at = place;
            }
            out.extend_from_slice(&piece[at..]);
        }
        json::unescape(&out).into_owned()
    }

    #[test]
    fn every_form_is_broken_at_every_split() {
        for form in FORMS {
            let text = format!("a [[[{form}0199\" \n{form}");
            let broken = |text: String, word| text.replace(&format!("{word}:"), &format!("{word}\\:"));
            let wanted = ["resume", "aside", "note"].into_iter().fold(text.clone(), broken);
            assert_eq!(break_up(&text), wanted);
            for cut in 0..text.len() + 3 {
                assert_eq!(broken_in_pieces(&text, cut), wanted, "cut at {cut}");
            }
        }
    }

    #[test]
    fn broken_text_is_broken_again_so_that_the_way_back_is_exact() {
        assert_eq!(break_up(r"[[handoff-resume\:"), r"[[handoff-resume\\:");
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in [
            "[[handoff-resumed:",
            "[handoff-resume:",
            "[[ handoff-resume:",
            "[[handoff-:",
            "a[[b]]",
        ] {
            assert_eq!(break_up(text), text);
        }
    }

    proptest! {
        #[test]
        fn streaming_and_whole_text_agree(
            pieces in proptest::collection::vec(prop_oneof![
                Just("["), Just("[["), Just("/"), Just("handoff-"), Just("hand"), Just("off-"), Just("resume"),
                Just("aside"), Just("note"), Just(":"), Just("\\"), Just("é"), Just("\n")], 0..12),
            cut in 0usize..60,
        ) {
            let text = pieces.concat();
            prop_assert_eq!(broken_in_pieces(&text, cut), break_up(&text).into_owned());
        }

        /// Unescaping restores the model's text for any split.
        #[test]
        fn pieces_are_given_back(
            pieces in proptest::collection::vec(prop_oneof![
                Just("["), Just("[["), Just("/"), Just("handoff-"), Just("hand"), Just("off-"), Just("resume"),
                Just("aside"), Just("note"), Just(":"), Just("\\"), Just("é"), Just("\n")], 0..12),
        ) {
            let (mut down, mut up) = (Escaper::default(), Escaper::default());
            let mut back = String::new();
            for piece in &pieces {
                let quoted = json::quote(piece);
                let raw = &quoted.as_bytes()[1..quoted.len() - 1];
                let mut shown = raw.to_vec();
                for at in down.follow(raw).into_iter().rev() {
                    shown.splice(at..at, *br"\\");
                }
                for slash in up.unescaped(&shown).into_iter().rev() {
                    shown.drain(slash.start..slash.end);
                }
                back.push_str(&json::unescape(&shown));
            }
            prop_assert_eq!(back, pieces.concat());
        }
    }
}
