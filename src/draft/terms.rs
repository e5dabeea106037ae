//! Words of texts and their ranking (BM25). The library that has both ranks by weights that hold the mean length of
//! all documents, which would have to be computed anew whenever a conversation grows; so this is our own.

use std::collections::HashMap;

/// What a word says less the more often it stands there, and what length takes from it: the usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Words longer than this are no words (base64).
const LONGEST: usize = 64;

/// The words of a text, each with how often it stands there, by their hashes in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Terms {
    counts: Vec<(u64, u32)>,
    total: u32,
}

impl Terms {
    /// The words of several texts.
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hashes = Vec::new();
        for text in texts {
            words(text, &mut hashes);
        }
        let total = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
        hashes.sort_unstable();
        let mut counts: Vec<(u64, u32)> = Vec::new();
        for hash in hashes {
            match counts.last_mut() {
                Some((last, count)) if *last == hash => *count += 1,
                _ => counts.push((hash, 1)),
            }
        }
        Self { counts, total }
    }

    fn count(&self, hash: u64) -> u32 {
        let found = self.counts.binary_search_by_key(&hash, |(hash, _)| *hash);
        found.map_or(0, |at| self.counts[at].1)
    }
}

/// Words and the parts of identifiers: `StreamMerge_two` is itself, `stream`, `merge` and `two`.
fn words(text: &str, out: &mut Vec<u64>) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for word in text.split(|c: char| !is_word(c)) {
        if word.len() < 2 || word.len() > LONGEST {
            continue;
        }
        out.push(hash(word));
        let bytes = word.as_bytes();
        let mut start = 0;
        for at in 1..=bytes.len() {
            let ends = at == bytes.len()
                || bytes[at] == b'_'
                || bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase();
            if ends {
                let part = word.get(start..at).unwrap_or_default().trim_matches('_');
                if part.len() > 1 && part.len() < word.len() {
                    out.push(hash(part));
                }
                start = at;
            }
        }
    }
}

/// FNV-1a of the word in small letters.
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    })
}

/// How well each document answers a question, best is 1. `documents` are the terms of each one's parts.
pub(super) fn ranked(question: &str, documents: &[Vec<&Terms>]) -> Vec<f32> {
    let question = Terms::of([question]);
    let count = documents.len() as f32;
    let lengths: Vec<f32> = documents
        .iter()
        .map(|parts| parts.iter().map(|terms| terms.total as f32).sum())
        .collect();
    let mean = (lengths.iter().sum::<f32>() / count.max(1.0)).max(1.0);
    let mut scores = vec![0.0; documents.len()];
    let mut holding: HashMap<usize, f32> = HashMap::new();
    for (hash, _) in &question.counts {
        holding.clear();
        for (at, parts) in documents.iter().enumerate() {
            let found: u32 = parts.iter().map(|terms| terms.count(*hash)).sum();
            if found > 0 {
                holding.insert(at, found as f32);
            }
        }
        let held = holding.len() as f32;
        let rare = ((count - held + 0.5) / (held + 0.5) + 1.0).ln();
        for (at, found) in &holding {
            let norm = K1 * (1.0 - B + B * lengths[*at] / mean);
            scores[*at] += rare * found * (K1 + 1.0) / (found + norm);
        }
    }
    let best = scores.iter().copied().fold(0.0, f32::max);
    if best > 0.0 {
        scores.iter_mut().for_each(|score| *score /= best);
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_and_parts_of_identifiers_rank() {
        let texts = [
            "the importer reads csv",
            "StreamMerge joins the legs",
            "the the the legs",
        ];
        let terms: Vec<Terms> = texts.iter().map(|text| Terms::of([*text])).collect();
        let documents: Vec<Vec<&Terms>> = terms.iter().map(|terms| vec![terms]).collect();
        let best = |question: &str| {
            let scores = ranked(question, &documents);
            (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
        };
        assert_eq!(best("merge"), 1);
        assert_eq!(best("the CSV importer"), 0);
        assert!(
            ranked("nothing of it", &documents)
                .iter()
                .all(|score| *score == 0.0)
        );
        assert!(ranked("x", &[]).is_empty());
    }
}
