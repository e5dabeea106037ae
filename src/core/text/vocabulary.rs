//! The words of texts: each once, in lower case, with the texts that it is in.

use std::collections::HashMap;

use super::stem::stem;
use super::words;

/// A text in which a word occurs, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    pub text: u32,
    pub count: u32,
}

pub type WordNumber = usize;

#[derive(Debug, Default)]
pub struct Vocabulary {
    by_hash: HashMap<u64, WordNumber>,
    /// Each word with its postings, by text.
    all: Vec<(String, Vec<Posting>)>,
}

impl Vocabulary {
    /// Notes that a word is in a text: the one that was noted last, or a later one.
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

    /// The word of this spelling, where it is anywhere.
    pub fn find(&self, word: &str) -> Option<WordNumber> {
        self.by_hash.get(&words::hash(word)).copied()
    }

    /// Where a word occurs, in order.
    pub fn of(&self, word: WordNumber) -> &[Posting] {
        &self.all[word].1
    }

    pub fn letters(&self, word: WordNumber) -> &str {
        &self.all[word].0
    }

    /// All words.
    pub fn words(&self) -> impl Iterator<Item = (WordNumber, &str)> {
        let words = self.all.iter().map(|(letters, _)| letters.as_str());
        words.enumerate()
    }

    /// The words of these stems, for each of them.
    pub fn of_stems(&self, stems: &[&str]) -> Vec<Vec<WordNumber>> {
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
