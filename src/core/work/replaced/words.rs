//! Words of statements: `words.toml`, which explains each list.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::Phrases;
use crate::text::stem::stem;
use crate::text::{table, words};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct StatementWords {
    pub(super) corrects: Phrases,
    pub(super) adds: Phrases,
    states: Vec<&'static str>,
    forbids: Vec<&'static str>,
    pub(super) insists: Phrases,
    pub(super) owning: Vec<&'static str>,
    days: Vec<&'static str>,
    stop: Vec<&'static str>,
    alike: Vec<&'static str>,
    zones: Vec<&'static str>,
    languages: Vec<&'static str>,
    manners: Vec<&'static str>,
    measures: Vec<&'static str>,
    acronyms: Vec<&'static str>,
    pub(super) numbers: Vec<&'static str>,
    pub(super) tens: Vec<&'static str>,
    currencies: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<StatementWords> = LazyLock::new(|| table::read(include_str!("words.toml")));

/// A list of single words in the table.
#[derive(Debug, Clone, Copy)]
pub(super) enum WordList {
    States,
    Forbids,
    Owning,
    Day,
    Stop,
    Zone,
    Language,
    Manner,
    Measure,
    Currency,
    /// Words with synonyms, and acronyms. They are not names even if they are capitalized.
    Known,
}

/// The lists that have a word, found by one lookup.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WordLists(u16);

impl WordLists {
    /// The lists that have a lower-case word.
    pub(super) fn of(word: &str) -> Self {
        static LISTS: LazyLock<HashMap<&str, WordLists>> = LazyLock::new(|| {
            let known = WORDS.alike.iter().flat_map(|row| row.split(' '));
            let known: Vec<&str> = known.chain(WORDS.acronyms.iter().copied()).collect();
            let mut lists: HashMap<&str, WordLists> = HashMap::new();
            for (list, words) in [
                (WordList::States, &WORDS.states),
                (WordList::Forbids, &WORDS.forbids),
                (WordList::Owning, &WORDS.owning),
                (WordList::Day, &WORDS.days),
                (WordList::Stop, &WORDS.stop),
                (WordList::Zone, &WORDS.zones),
                (WordList::Language, &WORDS.languages),
                (WordList::Manner, &WORDS.manners),
                (WordList::Measure, &WORDS.measures),
                (WordList::Currency, &WORDS.currencies),
                (WordList::Known, &known),
            ] {
                words
                    .iter()
                    .for_each(|word| lists.entry(word).or_default().0 |= 1 << list as u16);
            }
            lists
        });
        LISTS.get(word).copied().unwrap_or_default()
    }

    pub(super) fn has(self, list: WordList) -> bool {
        self.0 & 1 << list as u16 != 0
    }
}

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
