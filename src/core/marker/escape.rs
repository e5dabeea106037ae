//! Escapes text that looks like a marker and that baton did not write, and restores it.
//!
//! On the way to the agent, `[[handoff-resume:` becomes `[[handoff-resume\:`; aside, note and closing forms
//! and the progress line alike. So nothing that a model quotes can cut a transcript. On the way upstream the
//! backslash is removed again. Text that already has n backslashes there gets n + 1, which makes the inverse
//! exact.

use std::borrow::Cow;

use memchr::memchr3;

use crate::text::splice::Edit;
use crate::text::{Span, json};

/// Beginnings of markers, up to the colon that is escaped. The last one begins the
/// [progress line](super::note::PROGRESS).
const BEGINNINGS: [&str; 7] = [
    "[[handoff-resume:",
    "[[/handoff-resume:",
    "[[handoff-aside:",
    "[[/handoff-aside:",
    "[[handoff-note:",
    "[[/handoff-note:",
    "baton: please wait:",
];

/// Scanner for the beginning of a marker. The matched prefix survives from one delta to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Escaper {
    /// Longest prefix of a beginning that ends the text so far, without backslashes before the colon.
    matched: &'static str,
}

impl Escaper {
    /// Returns the state after `c`, and whether `c` is the colon that completes a beginning.
    fn next(self, c: char) -> (Self, bool) {
        if self.is_clear() && !matches!(c, '[' | 'b') {
            return (self, false);
        }
        // Text that is already escaped matches too and gets one more backslash, so that restoring it is
        // exact.
        if c == '\\'
            && BEGINNINGS
                .iter()
                .any(|whole| whole.strip_suffix(':') == Some(self.matched))
        {
            return (self, false);
        }
        let longest = (0..=self.matched.len()).find_map(|skip| {
            let kept = &self.matched[skip..];
            let goes_on = |whole: &&&str| whole.strip_prefix(kept).is_some_and(|rest| rest.starts_with(c));
            let whole = BEGINNINGS.iter().find(goes_on)?;
            Some(whole.split_at(kept.len() + 1))
        });
        match longest {
            None | Some((_, "")) => (Self::default(), longest.is_some()),
            Some((matched, _)) => (Self { matched }, false),
        }
    }

    /// Whether no prefix is matched, so that text without the first character of one can be skipped.
    fn is_clear(self) -> bool {
        self.matched.is_empty()
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
    /// Returns the spans of the escaped backslashes to remove, even if the marker begins in an earlier
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

    /// Visits each character that may belong to a marker's beginning.
    ///
    /// `visit` receives the character, its span in `raw`, and whether it is the colon that completes the
    /// beginning.
    #[inline]
    fn read(&mut self, raw: &[u8], mut visit: impl FnMut(char, Span, bool)) {
        let mut at = 0;
        while at < raw.len() {
            if self.is_clear() {
                // A bracket may also be spelled as an escape, so a backslash ends the skip.
                let Some(hit) = memchr3(b'[', b'b', b'\\', &raw[at..]) else {
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

/// Returns `text` with the beginning of every marker escaped.
pub fn break_up(text: &str) -> Cow<'_, str> {
    let mut state = Escaper::default();
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
    use crate::marker::note::PROGRESS;
    use proptest::prelude::*;

    const FORMS: [&str; 7] = [
        "[[handoff-resume:",
        "[[/handoff-resume:",
        "[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]",
        "[[handoff-aside:",
        "[[/handoff-aside:",
        "[[handoff-note:",
        PROGRESS,
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
            let text = format!("a [[[{form}0199\" \nbaton: b{form}");
            let broken = |text: String, word| text.replace(&format!("{word}:"), &format!("{word}\\:"));
            let wanted = ["resume", "aside", "note", "wait"]
                .into_iter()
                .fold(text.clone(), broken);
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
            "baton: please wait",
            "baton: handed over.",
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
                Just("aside"), Just("note"), Just("baton: please"), Just(" wait"), Just("b"), Just(":"), Just("\\"),
                Just("é"), Just("\n")], 0..12),
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
                Just("aside"), Just("note"), Just("baton: please"), Just(" wait"), Just("b"), Just(":"), Just("\\"),
                Just("é"), Just("\n")], 0..12),
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
