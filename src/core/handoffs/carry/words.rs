//! Words by which a sentence of the user is a rule: `rules.toml`, which says what each list is.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::Phrases;
use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct RuleWords {
    pub(super) labels: Vec<&'static str>,
    pub(super) forbids: Phrases,
    pub(super) forbids_first: Vec<&'static str>,
    pub(super) holds: Phrases,
    pub(super) holds_first: Vec<&'static str>,
    pub(super) verbs: Vec<&'static str>,
    pub(super) with_verb: Phrases,
    pub(super) before_clause: Vec<&'static str>,
    pub(super) scoped: Phrases,
    pub(super) lifts: Vec<&'static str>,
    pub(super) not_first: Vec<&'static str>,
    pub(super) describes: Phrases,
    pub(super) forbids_within: Vec<&'static str>,
    pub(super) holds_within: Vec<&'static str>,
    pub(super) leans: Phrases,
    pub(super) replies: Vec<&'static str>,
    pub(super) refers: Vec<&'static str>,
    pub(super) asks: Vec<&'static str>,
    pub(super) corrects: Vec<&'static str>,
    pub(super) open: Phrases,
    pub(super) not_open: Phrases,
}

pub(super) static WORDS: LazyLock<RuleWords> = LazyLock::new(|| table::read(include_str!("rules.toml")));

/// Whether a line begins with `RULE:`, `Hard constraint:`, `User preference:`.
pub(super) fn has_label(line: &str) -> bool {
    /// Words of a label.
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

/// Whether a message only lets the model go on, asks it to try again, or chooses what it offered.
pub(super) fn is_reply(text: &str) -> bool {
    /// Words of such a message.
    const LONGEST: usize = 8;
    let small = text.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '\'';
    let words: Vec<&str> = small
        .split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    let is_choice = |word: &str| word.len() == 1 || word.bytes().all(|b| b.is_ascii_digit());
    words.len() <= LONGEST
        && words
            .iter()
            .all(|word| WORDS.replies.contains(word) || is_choice(word))
}

/// Whether a sentence asks for something to be done or answered, which is over once it was.
pub(super) fn asks(sentence: &str) -> bool {
    let small = sentence.to_lowercase();
    let mut rest = small.trim_start_matches(|c: char| !c.is_alphanumeric());
    while let Some((first, after)) = rest.split_once([' ', ','])
        && WORDS.replies.contains(&first)
    {
        rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
    }
    let begins = |words: &&str| {
        let after = rest.strip_prefix(words);
        after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    };
    // "I thought we wanted the other one?" corrects what was done.
    if WORDS.corrects.iter().any(&begins) {
        return false;
    }
    small.trim_end().ends_with(['?', '？']) || WORDS.asks.iter().any(begins)
}

/// Whether a sentence begins with a word that refers to the one before it.
pub(super) fn refers_back(sentence: &str) -> bool {
    let first = sentence
        .split(|c: char| !c.is_alphanumeric())
        .find(|word| !word.is_empty());
    first.is_some_and(|first| WORDS.refers.contains(&&*first.to_lowercase()))
}
