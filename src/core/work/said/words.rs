//! Words that make a user's sentence a rule: `rules.toml`, which explains each list.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Beginnings, Phrases, Wordings};
use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct RuleWords {
    pub(super) labels: Vec<&'static str>,
    pub(super) forbids: Phrases,
    pub(super) forbids_first: Beginnings,
    pub(super) denies_first: Beginnings,
    pub(super) stating: Beginnings,
    pub(super) states: Phrases,
    pub(super) at_hand: Phrases,
    pub(super) definite: Phrases,
    pub(super) general: Phrases,
    pub(super) muses: Phrases,
    pub(super) past: Vec<&'static str>,
    pub(super) holds: Phrases,
    pub(super) holds_first: Beginnings,
    pub(super) conditions: Beginnings,
    pub(super) verbs: Beginnings,
    pub(super) with_verb: Phrases,
    pub(super) acts: Beginnings,
    pub(super) before_clause: Vec<&'static str>,
    pub(super) scoped: Phrases,
    pub(super) idle: Phrases,
    pub(super) idle_then: Vec<&'static str>,
    pub(super) idle_within: Wordings,
    pub(super) leaves_first: Beginnings,
    pub(super) left_alone: Phrases,
    pub(super) retracts_first: Beginnings,
    pub(super) wishes_first: Beginnings,
    pub(super) permits: Phrases,
    pub(super) from_now: Phrases,
    pub(super) permits_within: Wordings,
    pub(super) forgets: Phrases,
    pub(super) lifts: Phrases,
    pub(super) not_first: Beginnings,
    pub(super) describes: Phrases,
    pub(super) faults: Phrases,
    pub(super) forbids_within: Wordings,
    pub(super) holds_within: Wordings,
    pub(super) polite: Phrases,
    pub(super) halves: Phrases,
    pub(super) ensures: Phrases,
    pub(super) standing: Phrases,
    pub(super) causes: Phrases,
    pub(super) standing_first: Vec<&'static str>,
    pub(super) refers: Vec<&'static str>,
    pub(crate) denies: Phrases,
    pub(super) announces: Wordings,
    pub(super) no_subject: Vec<&'static str>,
    pub(crate) open: Phrases,
    pub(crate) not_open: Phrases,
}

pub(crate) static WORDS: LazyLock<RuleWords> = LazyLock::new(|| table::read(include_str!("rules.toml")));

/// Whether a line begins with `RULE:`, `Hard constraint:`, `User preference:`.
pub(super) fn has_label(line: &str) -> bool {
    /// Maximum number of words in a label.
    const LABEL: usize = 3;
    let Some((label, rest)) = line.split_once(':') else {
        return false;
    };
    let small = label.to_lowercase();
    let words: Vec<&str> = small.split_whitespace().collect();
    words.len() <= LABEL
        && !rest.trim().is_empty()
        && words.last().is_some_and(|last| WORDS.labels.contains(last))
}

/// Whether a sentence begins with a word that refers to the one before it.
pub(super) fn refers_back(sentence: &str) -> bool {
    let first = sentence
        .split(|c: char| !c.is_alphanumeric())
        .find(|word| !word.is_empty());
    first.is_some_and(|first| WORDS.refers.contains(&&*first.to_lowercase()))
}
