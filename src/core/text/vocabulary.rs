//! Index of words over numbered documents. Each word is stored once, in lower case, with the documents that
//! contain it.

use std::collections::HashMap;

use super::stem::stem;
use super::words;

/// Occurrences of a word in one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    pub text: u32,
    pub count: u32,
}

pub type WordNumber = usize;

/// Words of numbered documents, with the documents that have each.
#[derive(Debug, Default)]
pub struct Vocabulary {
    by_hash: HashMap<u64, WordNumber>,
    /// Words with their postings, ordered by document.
    all: Vec<(String, Vec<Posting>)>,
}

impl Vocabulary {
    /// Records a word of document `text`. Documents must be added in ascending order.
    pub fn add(&mut self, word: &str, text: u32) {
        let known = self.by_hash.entry(words::hash(word)).or_insert(self.all.len());
        if *known == self.all.len() {
            self.all.push((word.to_lowercase(), Vec::new()));
        }
        let (_, postings) = &mut self.all[*known];
        match postings.last_mut() {
            Some(last) if last.text == text => last.count += 1,
            _ => postings.push(Posting { text, count: 1 }),
        }
    }

    /// Finds a word by its spelling.
    pub fn find(&self, word: &str) -> Option<WordNumber> {
        self.by_hash.get(&words::hash(word)).copied()
    }

    /// Postings of a word, in order.
    pub fn of(&self, word: WordNumber) -> &[Posting] {
        &self.all[word].1
    }

    /// The word in lower case.
    pub fn letters(&self, word: WordNumber) -> &str {
        &self.all[word].0
    }

    /// All words.
    pub fn words(&self) -> impl Iterator<Item = (WordNumber, &str)> {
        let words = self.all.iter().map(|(letters, _)| letters.as_str());
        words.enumerate()
    }

    /// For each stem, the words that have it.
    pub fn of_stems(&self, stems: &[&str]) -> Vec<Vec<WordNumber>> {
        // Words with the same stem share their first letters, so only few words have to be stemmed.
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
}

/// First three bytes of a word. A stem is shorter only if its word is.
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
        for (word, text) in [("Expired", 0), ("expired", 0), ("expiry", 1), ("port", 2)] {
            all.add(word, text);
        }
        let expired = all.find("EXPIRED").unwrap();
        assert_eq!(all.of(expired), [Posting { text: 0, count: 2 }]);
        let of_stem = all.of_stems(&[stem("expire").as_str(), "por"]);
        let letters: Vec<_> = of_stem[0].iter().map(|word| all.letters(*word)).collect();
        assert_eq!(letters, ["expired", "expiry"]);
        assert!(of_stem[1].is_empty());
        all.add("expired", 3);
        assert_eq!(all.of(expired).len(), 2);
        assert_eq!(all.find("expires"), None);
    }
}
