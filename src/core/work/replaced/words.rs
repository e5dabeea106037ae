//! Words of statements: `words.toml`, which explains each list.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::Phrases;
use crate::text::stem::stem;
use crate::text::{table, words};

type Words = HashSet<&'static str>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct StatementWords {
    pub(super) corrects: Phrases,
    pub(super) adds: Phrases,
    pub(super) states: Words,
    pub(super) forbids: Words,
    pub(super) insists: Phrases,
    pub(super) owning: Words,
    pub(super) days: Words,
    pub(super) stop: Words,
    alike: Vec<&'static str>,
    pub(super) zones: Words,
    pub(super) languages: Words,
    pub(super) manners: Words,
    pub(super) measures: Words,
    pub(super) acronyms: Words,
    pub(super) numbers: Vec<&'static str>,
    pub(super) tens: Vec<&'static str>,
    pub(super) currencies: Words,
}

pub(super) static WORDS: LazyLock<StatementWords> = LazyLock::new(|| table::read(include_str!("words.toml")));

/// Hash of the meaning of a lower-case word: that of its stem, or of the first word in its row of synonyms.
pub(super) fn meaning(word: &str) -> u64 {
    static ALIKE: LazyLock<HashMap<String, u64>> = LazyLock::new(|| {
        let mut meanings = HashMap::new();
        for row in &WORDS.alike {
            let stems: Vec<String> = row.split(' ').map(stem).collect();
            let first = words::hash(&stems[0]);
            meanings.extend(stems.into_iter().map(|stem| (stem, first)));
        }
        meanings
    });
    let stem = stem(word);
    ALIKE.get(&stem).copied().unwrap_or_else(|| words::hash(&stem))
}

/// Whether a word has synonyms or is an acronym, and so is not a name even if it is capitalized.
pub(super) fn is_known(word: &str) -> bool {
    static KNOWN: LazyLock<Words> =
        LazyLock::new(|| WORDS.alike.iter().flat_map(|row| row.split(' ')).collect());
    KNOWN.contains(word) || WORDS.acronyms.contains(word)
}
