//! Ranks documents by a question's words (BM25).

use std::collections::BTreeMap;

use crate::text::words::{self, WordKind};
use crate::work::message::IndexedItem;

/// The searchable strings of an item.
pub(super) fn of_item(item: &IndexedItem) -> Vec<&str> {
    match item {
        IndexedItem::Text(words) => vec![&words.text],
        IndexedItem::Call(call) => {
            let paths = call.paths.iter().map(|(path, _)| path.as_str());
            [&*call.name, &call.about].into_iter().chain(paths).collect()
        }
        IndexedItem::Result(outcome) => {
            let lines = outcome.lines.iter().map(String::as_str);
            lines.chain(outcome.detail.as_deref()).collect()
        }
        IndexedItem::Task(_) | IndexedItem::TaskList(_) | IndexedItem::Gap => Vec::new(),
    }
}

/// How well each document matches a question, scaled so that the best has 1. `documents` has the strings of each.
pub(super) fn ranked<'a>(question: &str, documents: impl Iterator<Item = Vec<&'a str>>) -> Vec<f32> {
    // A map, so that a repeated word of the question counts once. Each word has its documents, with its number in each.
    let mut asked: BTreeMap<u64, Vec<(usize, f32)>> = BTreeMap::new();
    each([question], &mut |word| {
        asked.entry(words::hash(word)).or_default();
    });
    let mut lengths: Vec<f32> = Vec::new();
    for (at, texts) in documents.enumerate() {
        let mut length = 0.0;
        each(texts, &mut |word| {
            length += 1.0;
            let Some(found) = asked.get_mut(&words::hash(word)) else {
                return;
            };
            match found.last_mut() {
                Some((last, number)) if *last == at => *number += 1.0,
                _ => found.push((at, 1.0)),
            }
        });
        lengths.push(length);
    }
    let count = lengths.len() as f32;
    let mean = (lengths.iter().sum::<f32>() / count.max(1.0)).max(1.0);
    let mut scores = vec![0.0; lengths.len()];
    for found in asked.values() {
        let rare = words::rarity(count, found.len() as f32);
        for (at, number) in found {
            scores[*at] += rare * words::weight(*number, lengths[*at], mean);
        }
    }
    let best = scores.iter().copied().fold(0.0, f32::max);
    if best > 0.0 {
        scores.iter_mut().for_each(|score| *score /= best);
    }
    scores
}

fn each<'a>(texts: impl IntoIterator<Item = &'a str>, found: &mut impl FnMut(&'a str)) {
    for text in texts {
        words::each(text, &mut |kind, word| {
            // The parts of a path are found as well, so counting the path itself would weigh them twice.
            if kind != WordKind::Path {
                found(word);
            }
        });
    }
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
        let ranked = |question: &str| ranked(question, texts.iter().map(|text| vec![*text]));
        let best = |question: &str| {
            let scores = ranked(question);
            (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
        };
        assert_eq!(best("merge"), 1);
        assert_eq!(best("the CSV importer"), 0);
        assert!(ranked("nothing of it").iter().all(|score| *score == 0.0));
        assert!(super::ranked("x", std::iter::empty()).is_empty());
    }
}
