//! Words that tell requests, replies and closing words apart: `words.toml`.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Beginnings, Phrases, Wordings};
use crate::text::table;

/// The lists of `words.toml`, which explains each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct AskingWords {
    pub(super) replies: HashSet<&'static str>,
    pub(super) asks: Beginnings,
    pub(super) corrects: Beginnings,
    pub(super) contrasts: Phrases,
    pub(super) decides: Beginnings,
    pub(super) predicates: Vec<&'static str>,
    pub(super) fillers: HashSet<&'static str>,
    pub(super) before_noun: Vec<&'static str>,
    pub(super) agrees: HashSet<&'static str>,
    pub(super) asks_last: Vec<&'static str>,
    pub(super) asks_within: Wordings,
    pub(super) asks_anywhere: Wordings,
    pub(super) orders_within: Vec<&'static str>,
    pub(super) orders_first: Beginnings,
    pub(super) orders_after: Vec<&'static str>,
    pub(super) no_order: Vec<&'static str>,
    pub(super) states_before: Vec<&'static str>,
    pub(super) before_request: Vec<&'static str>,
    pub(super) yes_or_no: Vec<&'static str>,
    pub(super) go_on: Beginnings,
    pub(super) once_more: Beginnings,
    pub(super) go_on_with: Beginnings,
    pub(super) named_before: HashSet<&'static str>,
    pub(super) named_within: Vec<&'static str>,
    pub(super) politely: Beginnings,
    pub(super) next_thing: Beginnings,
    pub(super) no_name: HashSet<&'static str>,
    pub(super) postpones: Beginnings,
    pub(super) offers: Phrases,
    pub(super) praise: HashSet<&'static str>,
    pub(super) praised: HashSet<&'static str>,
    pub(super) informs: Beginnings,
    pub(super) left: Phrases,
    pub(super) left_within: Wordings,
    pub(super) left_first: Beginnings,
    pub(super) left_last: Vec<&'static str>,
    pub(super) nothing: Phrases,
    pub(super) unsolved: Phrases,
    pub(super) unsolved_within: Wordings,
    pub(super) next_step: Beginnings,
    pub(super) no_step: Beginnings,
    pub(super) personal: Phrases,
}

pub(super) static ASKING: LazyLock<AskingWords> = LazyLock::new(|| table::read(include_str!("words.toml")));

/// The words of a lower-case string.
pub(super) fn words_of(small: &str) -> Vec<&str> {
    words_in(small).collect()
}

pub(super) fn words_in(small: &str) -> impl Iterator<Item = &str> + Clone {
    let words = small.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    words.filter(|word| !word.is_empty())
}

/// Whether a string ends with one of these words.
pub(super) fn ends_with_any(text: &str, endings: &[&str]) -> bool {
    let last = text.bytes().next_back();
    let mut alike = endings.iter().filter(|ending| ending.bytes().next_back() == last);
    alike.any(|ending| text.ends_with(ending))
}

/// Whether lower-case words consist of praise.
pub(super) fn praise<'t>(mut words: impl Iterator<Item = &'t str> + Clone) -> bool {
    let praises = |word: &str| ASKING.praise.contains(word);
    words.clone().any(praises) && words.all(|word| praises(word) || ASKING.praised.contains(word))
}

/// Whether a word is the number or the letter of an item.
pub(super) fn is_choice(word: &str) -> bool {
    word.len() == 1 || word.len() == 2 && word.bytes().all(|b| b.is_ascii_digit())
}

/// The first word, if it is a reply or a filler, and the rest with the space or comma before it.
pub(super) fn after_reply(text: &str) -> Option<(&str, &str)> {
    let (first, after) = text.split_at(text.find([' ', ','])?);
    let first = first.trim_end_matches(['!', '.']);
    (ASKING.replies.contains(first) || ASKING.fillers.contains(first)).then_some((first, after))
}
