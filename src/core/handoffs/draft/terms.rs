//! Words of texts and their ranking (BM25). The library with both stores weights that contain the mean length of all
//! documents. They would be recomputed whenever a conversation grows; so this is our own.

use std::collections::HashMap;

use super::message::IndexedItem;
use crate::text::words::{self, WordKind};

/// The words of a text, each with how often it is there, by their hashes in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TermCounts {
    counts: Vec<(u64, u32)>,
    total: u32,
}

impl TermCounts {
    /// The words of what is kept of messages.
    pub(super) fn of_items<'a>(items: impl Iterator<Item = &'a IndexedItem>) -> Self {
        let texts = items.flat_map(|item| match item {
            IndexedItem::Text(words) => vec![words.text.as_str()],
            IndexedItem::Call(call) => {
                let paths = call.paths.iter().map(|(path, _)| path.as_str());
                [call.name.as_str(), call.about.as_str()]
                    .into_iter()
                    .chain(paths)
                    .collect()
            }
            IndexedItem::Result(outcome) => {
                let lines = outcome.lines.iter().map(String::as_str);
                lines.chain(outcome.detail.as_deref()).collect()
            }
            IndexedItem::Task(_) | IndexedItem::Gap => Vec::new(),
        });
        Self::of(texts)
    }

    /// The words of several texts.
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hashes = Vec::new();
        for text in texts {
            words::each(text, &mut |kind, word| {
                if kind != WordKind::Path {
                    hashes.push(words::hash(word));
                }
            });
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

/// How well each document answers a question, best is 1. `documents` are the terms of each one.
pub(super) fn ranked(question: &str, documents: &[TermCounts]) -> Vec<f32> {
    let question = TermCounts::of([question]);
    let count = documents.len() as f32;
    let lengths: Vec<f32> = documents.iter().map(|terms| terms.total as f32).collect();
    let mean = (lengths.iter().sum::<f32>() / count.max(1.0)).max(1.0);
    let mut scores = vec![0.0; documents.len()];
    let mut holding: HashMap<usize, f32> = HashMap::new();
    for (hash, _) in &question.counts {
        holding.clear();
        for (at, terms) in documents.iter().enumerate() {
            let found = terms.count(*hash);
            if found > 0 {
                holding.insert(at, found as f32);
            }
        }
        let containing = holding.len() as f32;
        let rare = words::rarity(count, containing);
        for (at, found) in &holding {
            scores[*at] += rare * words::weight(*found, lengths[*at], mean);
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
        let documents: Vec<TermCounts> = texts.iter().map(|text| TermCounts::of([*text])).collect();
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
