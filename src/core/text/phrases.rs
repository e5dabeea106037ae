//! Lists of words and phrases, found in one pass.

use std::ops::Range;

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Deserializer};

use super::prose::is_whole_word;

/// Words and phrases of a table, in lower case.
#[derive(Debug)]
pub struct Phrases(Option<AhoCorasick>);

impl Phrases {
    pub fn new(phrases: &[&str]) -> Self {
        // Sentences are short, and have each of the rare letters that a prefilter would look for.
        let automaton = || AhoCorasick::builder().prefilter(false).build(phrases).ok();
        Self((!phrases.is_empty()).then(automaton).flatten())
    }

    /// Whether a lower-case string contains one of them as whole words.
    pub fn occur_in(&self, text: &str) -> bool {
        // Most strings have none of them at all, and the search for whole words takes longer.
        let may_occur = self.0.as_ref().is_some_and(|phrases| phrases.is_match(text));
        may_occur && self.found_in(text).next().is_some()
    }

    /// The ranges of a lower-case string that are one of them as whole words.
    pub fn found_in(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        // Overlapping, because a match inside a longer word may hide one that is a whole word.
        let phrases = self.0.iter();
        let found = phrases.flat_map(move |phrases| phrases.find_overlapping_iter(text));
        let ranges = found.map(|phrase| phrase.range());
        ranges.filter(move |range| is_whole_word(text, range.clone()))
    }
}

impl<'de> Deserialize<'de> for Phrases {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<&str>::deserialize(from).map(|phrases| Self::new(&phrases))
    }
}

/// Beginnings of strings, from a table.
#[derive(Debug)]
pub struct Beginnings(Vec<&'static str>);

impl Beginnings {
    /// Whether a string begins with one of them.
    pub fn begin(&self, text: &str) -> bool {
        self.rests(text).next().is_some()
    }

    /// The rests of a string after each of them that it begins with.
    pub fn rests<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let first = text.bytes().next();
        let from = self.0.partition_point(|begins| begins.bytes().next() < first);
        // Sorted, so those with the same first byte are neighbors.
        let begins = self.0[from..].iter();
        let alike = begins.take_while(move |begins| begins.bytes().next() == first);
        alike.filter_map(|begins| text.strip_prefix(begins))
    }
}

impl<'de: 'static> Deserialize<'de> for Beginnings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Vec::<&str>::deserialize(from)?;
        all.sort_unstable();
        Ok(Self(all))
    }
}

/// Strings of a table, found anywhere in another string, with ASCII letters in either case.
#[derive(Debug)]
pub struct Wordings {
    automaton: Option<AhoCorasick>,
    /// Whether none of them is ASCII, so that no ASCII string contains one.
    are_foreign: bool,
}

impl Wordings {
    /// Whether a string contains one of them.
    pub fn occur_in(&self, text: &str) -> bool {
        let may_occur = !self.are_foreign || !text.is_ascii();
        may_occur && self.automaton.as_ref().is_some_and(|all| all.is_match(text))
    }

    /// Where each of them begins.
    pub fn places_in(&self, text: &str) -> impl Iterator<Item = usize> {
        let found = self.automaton.iter().flat_map(move |all| all.find_iter(text));
        found.map(|found| found.start())
    }
}

impl<'de> Deserialize<'de> for Wordings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let wordings = Vec::<&str>::deserialize(from)?;
        let are_foreign = !wordings.iter().any(|words| words.is_ascii());
        let mut builder = AhoCorasick::builder();
        let built = builder.ascii_case_insensitive(true).build(wordings);
        Ok(Self {
            automaton: built.ok(),
            are_foreign,
        })
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
