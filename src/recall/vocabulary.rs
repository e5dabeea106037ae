//! The words of an index: each once, in small letters, with where it stands.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::stem::stem;
use crate::text::words;

/// Where a word stands, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) passage: u32,
    pub(super) count: u32,
}

/// The number of a word.
pub(super) type Word = u32;

/// A vocabulary.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    by_hash: HashMap<u64, Word, BuildHasherDefault<Hashed>>,
    /// All words, one behind the other.
    letters: String,
    /// Where each ends in `letters`.
    ends: Vec<u32>,
    postings: Vec<Vec<Posting>>,
    posted: usize,
}

/// Takes what is a hash already.
#[derive(Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Vocabulary {
    /// Notes that a word stands in a passage: the one that was noted last, or a later one.
    pub(super) fn add(&mut self, word: &str, passage: u32) {
        let hash = words::hash(word);
        let next = Word::try_from(self.ends.len()).unwrap_or(Word::MAX);
        let known = *self.by_hash.entry(hash).or_insert(next);
        if known == next {
            match word.is_ascii() {
                true => self.letters.extend(word.chars().map(|c| c.to_ascii_lowercase())),
                false => self.letters.push_str(&word.to_lowercase()),
            }
            self.ends
                .push(u32::try_from(self.letters.len()).unwrap_or(u32::MAX));
            self.postings.push(Vec::new());
        }
        let postings = &mut self.postings[known as usize];
        match postings.last_mut() {
            Some(last) if last.passage == passage => last.count += 1,
            _ => {
                postings.push(Posting { passage, count: 1 });
                self.posted += 1;
            }
        }
    }

    /// The word of this spelling, where it stands anywhere.
    pub(super) fn find(&self, word: &str) -> Option<Word> {
        let found = *self.by_hash.get(&words::hash(word))?;
        (!self.of(found).is_empty()).then_some(found)
    }

    /// Where a word stands, in order.
    pub(super) fn of(&self, word: Word) -> &[Posting] {
        self.postings.get(word as usize).map_or(&[], Vec::as_slice)
    }

    /// Its letters.
    pub(super) fn letters(&self, word: Word) -> &str {
        let at = word as usize;
        let start = match at {
            0 => 0,
            _ => self.ends[at - 1] as usize,
        };
        &self.letters[start..self.ends[at] as usize]
    }

    /// All words that stand somewhere.
    pub(super) fn words(&self) -> impl Iterator<Item = (Word, &str)> {
        let all = 0..Word::try_from(self.ends.len()).unwrap_or(Word::MAX);
        all.filter(move |word| !self.of(*word).is_empty())
            .map(move |word| (word, self.letters(word)))
    }

    /// The words of these stems, for each of them.
    pub(super) fn of_stems(&self, stems: &[&str]) -> Vec<Vec<Word>> {
        // Words of one stem begin alike, so that few stems are made.
        let mut by_beginning: HashMap<[u8; 3], Vec<usize>> = HashMap::new();
        for (at, stem) in stems.iter().enumerate() {
            by_beginning.entry(beginning(stem)).or_default().push(at);
        }
        let mut found = vec![Vec::new(); stems.len()];
        for (word, letters) in self.words() {
            let Some(maybe) = by_beginning.get(&beginning(letters)) else {
                continue;
            };
            let its = stem(letters);
            for at in maybe {
                if stems[*at] == its {
                    found[*at].push(word);
                }
            }
        }
        found
    }

    /// Forgets where words stand from this passage on.
    pub(super) fn truncate(&mut self, passages: u32) {
        for postings in &mut self.postings {
            let kept = postings.partition_point(|posting| posting.passage < passages);
            self.posted -= postings.len() - kept;
            postings.truncate(kept);
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        /// A word's places in the tables, and what its list of postings takes beyond them.
        const WORD: usize = 16 + 4 + size_of::<Vec<Posting>>() + 16;
        self.letters.len() + self.ends.len() * WORD + self.posted * size_of::<Posting>() * 3 / 2
    }
}

/// The first three bytes of a word; no stem is shorter than that unless its word is.
fn beginning(word: &str) -> [u8; 3] {
    let mut begins = [0; 3];
    for (to, from) in begins.iter_mut().zip(word.bytes()) {
        *to = from;
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_by_their_letters_and_by_their_stems() {
        let mut all = Vocabulary::default();
        for (word, passage) in [("Expired", 0), ("expired", 0), ("expiry", 1), ("port", 2)] {
            all.add(word, passage);
        }
        let expired = all.find("EXPIRED").unwrap();
        assert_eq!(all.of(expired), [Posting { passage: 0, count: 2 }]);
        let of_stem = all.of_stems(&[stem("expire").as_str(), "por"]);
        let letters: Vec<_> = of_stem[0].iter().map(|word| all.letters(*word)).collect();
        assert_eq!(letters, ["expired", "expiry"]);
        assert!(of_stem[1].is_empty());
        all.truncate(1);
        assert_eq!(all.find("expiry"), None);
        assert_eq!(all.words().count(), 1);
    }
}
