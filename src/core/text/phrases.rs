//! Lists of words and phrases, found in one pass.

use std::ops::Range;

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Deserializer};

use super::prose::is_letter;

/// Words and phrases of a table, in lower case.
#[derive(Debug)]
pub struct Phrases(Beginnings);

impl Phrases {
    /// Whether a lower-case string contains one of them as whole words.
    pub fn occur_in(&self, text: &str) -> bool {
        self.found_in(text).next().is_some()
    }

    /// The ranges of a lower-case string that are one of them as whole words.
    ///
    /// Sentences have few words. Comparing the phrases with the same first letters at each takes less time than an automaton.
    pub fn found_in(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let mut is_inside = false;
        let starts = text
            .char_indices()
            .filter(move |(_, c)| !std::mem::replace(&mut is_inside, is_letter(*c)));
        starts.flat_map(move |(at, _)| {
            let rests = self.0.rests(&text[at..]);
            let rests = rests.filter(|rest| !rest.starts_with(is_letter));
            rests.map(move |rest| at..text.len() - rest.len())
        })
    }
}

impl<'de: 'static> Deserialize<'de> for Phrases {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Beginnings::deserialize(from).map(Self)
    }
}

/// Beginnings of strings, from a table.
#[derive(Debug)]
pub struct Beginnings {
    /// Sorted, so that those with the same first byte are neighbors.
    all: Vec<&'static str>,
    /// The second byte of each; zero if there is none.
    seconds: Vec<u8>,
    /// For each byte, the index of the first one that begins with it or with a later byte.
    from: Vec<usize>,
}

impl Beginnings {
    fn new(mut all: Vec<&'static str>) -> Self {
        all.sort_unstable();
        let from =
            |byte: usize| all.partition_point(|begins| begins.bytes().next().map(usize::from) < Some(byte));
        let seconds = all
            .iter()
            .map(|begins| begins.as_bytes().get(1).copied().unwrap_or_default());
        Self {
            from: (0..=256).map(from).collect(),
            seconds: seconds.collect(),
            all,
        }
    }

    /// Whether a string begins with one of them.
    pub fn begin(&self, text: &str) -> bool {
        self.rests(text).next().is_some()
    }

    /// The rests of a string after each of them that it begins with.
    pub fn rests<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut bytes = text.bytes();
        let first = bytes.next().map(usize::from);
        let second = bytes.next().unwrap_or_default();
        let alike = first.map_or(0..0, |first| self.from[first]..self.from[first + 1]);
        let seconds = self.seconds[alike.clone()].iter();
        let begins = seconds.zip(&self.all[alike]);
        let begins = begins.filter(move |(byte, _)| **byte == second || **byte == 0);
        begins.filter_map(|(_, begins)| text.strip_prefix(begins))
    }
}

impl<'de: 'static> Deserialize<'de> for Beginnings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::new)
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
        let phrases = |all: &[&'static str]| Phrases(Beginnings::new(all.to_vec()));
        let some = phrases(&["no", "not", "no way", "für"]);
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
            assert_eq!(some.occur_in(text), has, "{text}");
        }
        assert!(!phrases(&[]).occur_in("no"));
    }
}
