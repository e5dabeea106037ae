//! Scans the bytes of a request before it is parsed.

use crate::agents::speakers::INTERJECTION;
use crate::marker::{self, stem_at};
use crate::text::scan::{self, PAIR_DISTANCE};

/// Results of the scan.
#[derive(Debug, Default)]
pub struct BodyScan {
    /// Offsets of candidate markers, in order: their [stems](marker::stems).
    pub stems: Vec<usize>,
    /// Number of opening braces.
    pub braces: usize,
    /// Whether the text has the words before a message that the user typed while the agent worked.
    pub(super) may_interject: bool,
}

/// Offset in [`marker::WORD`] of the pair of bytes that is searched for: `d` and `f`, which are seldom this far
/// apart.
const PAIR_IN_WORD: usize = 3;

impl BodyScan {
    /// Scans a body.
    pub fn new(text: &[u8]) -> Self {
        let interjection = INTERJECTION.trim_end().as_bytes();
        let (word, words) = (pair(marker::WORD, PAIR_IN_WORD), pair(interjection, 0));
        let mut found = Self::default();
        found.braces = scan::find_pairs(text, [word, words], |at| {
            found.may_interject |= text[at..].starts_with(interjection);
            let word = at.checked_sub(PAIR_IN_WORD);
            let word = word.filter(|word| text[*word..].starts_with(marker::WORD));
            found.stems.extend(word.and_then(|word| stem_at(text, word)));
        });
        found
    }
}

fn pair(text: &[u8], at: usize) -> [u8; 2] {
    [text[at], text[at + PAIR_DISTANCE]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::note::PROGRESS;
    use memchr::memmem;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_pass_finds_the_same_as_separate_searches(pieces in proptest::collection::vec(prop_oneof![
            Just("handoff-"), Just("handof"), Just("handoff"), Just("f-"), Just(PROGRESS), Just(&PROGRESS[..20]),
            Just("[[handoff-resume:"), Just(INTERJECTION), Just(&INTERJECTION[..30]), Just("{"), Just("é"),
            Just("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")], 0..40), cut in any::<proptest::sample::Index>()) {
            let text = pieces.concat().into_bytes();
            let text = &text[..cut.index(text.len() + 1)];
            let scan = BodyScan::new(text);
            let mut stems: Vec<usize> = memmem::find_iter(text, "handoff-").collect();
            stems.extend(memmem::find_iter(text, PROGRESS));
            stems.sort_unstable();
            prop_assert_eq!(&scan.stems, &stems);
            prop_assert_eq!(marker::stems(text), stems);
            prop_assert_eq!(scan.may_interject, memmem::find(text, INTERJECTION.trim_end().as_bytes()).is_some());
            prop_assert_eq!(scan.braces, memchr::memchr_iter(b'{', text).count());
        }
    }
}
