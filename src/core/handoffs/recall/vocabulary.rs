//! The words of an index: each once, in lower case, with where it is.
//!
//! All postings are one list in insertion order, each linked to the previous posting of its word. An insertion appends
//! to that list and touches nothing else of the text's size.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::stem::stem;
use crate::text::words;

/// Where a word occurs, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) passage: u32,
    pub(super) count: u32,
}

pub(super) type WordNumber = u32;

#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    by_hash: HashMap<u64, WordNumber, BuildHasherDefault<IdentityHasher>>,
    /// All words, one after the other.
    letters: String,
    /// Where each ends in `letters`.
    ends: Vec<u32>,
    /// The last posting of each word.
    newest: Vec<NewestPosting>,
    log: Vec<PostingNode>,
}

/// No entry of the list.
const NONE: u32 = u32::MAX;

/// Where a word was recorded last.
#[derive(Debug, Clone, Copy)]
struct NewestPosting {
    /// The entry; [`NONE`] where it is nowhere.
    entry: u32,
    /// The passage of that entry.
    passage: u32,
    /// The number of passages that contain the word.
    passages: u32,
}

impl NewestPosting {
    const NOWHERE: Self = Self {
        entry: NONE,
        passage: NONE,
        passages: 0,
    };
}

/// An entry of the list.
#[derive(Debug, Clone, Copy)]
struct PostingNode {
    posting: Posting,
    /// The entry before it of the same word.
    before: u32,
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Vocabulary {
    /// Notes that a word is in a passage: the one that was noted last, or a later one.
    pub(super) fn add(&mut self, word: &str, passage: u32) {
        let hash = words::hash(word);
        let next = WordNumber::try_from(self.ends.len()).unwrap_or(WordNumber::MAX);
        let known = *self.by_hash.entry(hash).or_insert(next);
        if known == next {
            match word.is_ascii() {
                true => self.letters.extend(word.chars().map(|c| c.to_ascii_lowercase())),
                false => self.letters.push_str(&word.to_lowercase()),
            }
            self.ends
                .push(u32::try_from(self.letters.len()).unwrap_or(u32::MAX));
            self.newest.push(NewestPosting::NOWHERE);
        }
        let newest = &mut self.newest[known as usize];
        if newest.passage == passage && newest.entry != NONE {
            self.log[newest.entry as usize].posting.count += 1;
            return;
        }
        let Ok(entry) = u32::try_from(self.log.len()) else {
            return;
        };
        self.log.push(PostingNode {
            posting: Posting { passage, count: 1 },
            before: newest.entry,
        });
        *newest = NewestPosting {
            entry,
            passage,
            passages: newest.passages + 1,
        };
    }

    /// The word of this spelling, where it is anywhere.
    pub(super) fn find(&self, word: &str) -> Option<WordNumber> {
        let found = *self.by_hash.get(&words::hash(word))?;
        (self.passages_with(found) > 0).then_some(found)
    }

    /// The number of passages that contain a word.
    pub(super) fn passages_with(&self, word: WordNumber) -> u32 {
        self.newest.get(word as usize).map_or(0, |newest| newest.passages)
    }

    /// Where a word occurs, newest first.
    pub(super) fn of(&self, word: WordNumber) -> impl Iterator<Item = Posting> {
        let newest = self.newest.get(word as usize).map_or(NONE, |newest| newest.entry);
        let mut next = newest;
        std::iter::from_fn(move || {
            let noted = self.log.get(next as usize)?;
            next = noted.before;
            Some(noted.posting)
        })
    }

    pub(super) fn letters(&self, word: WordNumber) -> &str {
        let at = word as usize;
        let start = match at {
            0 => 0,
            _ => self.ends[at - 1] as usize,
        };
        &self.letters[start..self.ends[at] as usize]
    }

    /// All words that occur somewhere.
    pub(super) fn words(&self) -> impl Iterator<Item = (WordNumber, &str)> {
        let all = 0..WordNumber::try_from(self.ends.len()).unwrap_or(WordNumber::MAX);
        all.filter(move |word| self.passages_with(*word) > 0)
            .map(move |word| (word, self.letters(word)))
    }

    /// The words of these stems, for each of them.
    pub(super) fn of_stems(&self, stems: &[&str]) -> Vec<Vec<WordNumber>> {
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

    /// Forgets the occurrences of words from this passage on.
    pub(super) fn truncate(&mut self, passages: u32) {
        let kept = self.log.partition_point(|noted| noted.posting.passage < passages);
        for newest in &mut self.newest {
            while newest.entry != NONE && newest.entry as usize >= kept {
                newest.entry = self.log[newest.entry as usize].before;
                newest.passages -= 1;
            }
            let entry = self.log.get(newest.entry as usize);
            newest.passage = entry.map_or(NONE, |noted| noted.posting.passage);
        }
        self.log.truncate(kept);
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        /// A place in the table of hashes, with its byte of control.
        const PLACE: usize = size_of::<(u64, WordNumber)>() + 1;
        self.letters.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.newest.capacity() * size_of::<NewestPosting>()
            + self.by_hash.capacity() * PLACE * 8 / 7
            + self.log.capacity() * size_of::<PostingNode>()
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
        assert_eq!(
            all.of(expired).collect::<Vec<_>>(),
            [Posting { passage: 0, count: 2 }]
        );
        let of_stem = all.of_stems(&[stem("expire").as_str(), "por"]);
        let letters: Vec<_> = of_stem[0].iter().map(|word| all.letters(*word)).collect();
        assert_eq!(letters, ["expired", "expiry"]);
        assert!(of_stem[1].is_empty());
        all.add("expired", 3);
        assert_eq!(all.of(expired).map(|at| at.passage).collect::<Vec<_>>(), [3, 0]);
        all.truncate(1);
        assert_eq!(all.find("expiry"), None);
        assert_eq!(all.words().count(), 1);
        assert_eq!((all.passages_with(expired), all.of(expired).count()), (1, 1));
        // What is read again after that is noted again.
        all.add("expiry", 1);
        all.add("expired", 1);
        assert_eq!((all.passages_with(expired), all.words().count()), (2, 2));
    }
}
