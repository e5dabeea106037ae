//! Lists of words and phrases, found in one pass.

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Deserializer};

use super::prose::is_whole_word;

/// Words and phrases of a table, in lower case.
#[derive(Debug)]
pub struct Phrases(Option<AhoCorasick>);

impl Phrases {
    pub fn new(phrases: &[&str]) -> Self {
        Self(
            (!phrases.is_empty())
                .then(|| AhoCorasick::new(phrases).ok())
                .flatten(),
        )
    }

    /// Whether a lower-case string contains one of them as whole words.
    pub fn occur_in(&self, text: &str) -> bool {
        let found = self
            .0
            .iter()
            // Overlapping, because a match inside a longer word may hide one that is a whole word.
            .flat_map(|phrases| phrases.find_overlapping_iter(text));
        found
            .into_iter()
            .any(|phrase| is_whole_word(text, phrase.range()))
    }
}

impl<'de> Deserialize<'de> for Phrases {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<&str>::deserialize(from).map(|phrases| Self::new(&phrases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_as_a_whole_and_inside_of_a_longer_one() {
        let phrases = Phrases::new(&["no", "not", "no way", "für"]);
        for (text, has) in [
            ("say no", true),
            ("do not", true),
            ("nothing is known", false),
            ("no wayside", true),
            ("nota bene, no_way", false),
            ("für dich", true),
            ("afür", false),
            ("", false),
        ] {
            assert_eq!(phrases.occur_in(text), has, "{text}");
        }
        assert!(!Phrases::new(&[]).occur_in("no"));
    }
}
