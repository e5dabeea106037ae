//! Scores a user's sentence by its features: `score.toml`, which explains each.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Phrases, Wordings};
use crate::text::prose::{list_item, lower};
use crate::text::table;
use crate::work::requests;

/// Scores of a sentence, in hundredths of the logarithm of the odds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Score {
    /// The sentence holds beyond its request.
    pub(crate) holds: i32,
    /// The sentence is worth carrying.
    pub(crate) keeps: i32,
    /// The sentence only asks for something, and is over with its request.
    pub(crate) asks: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Features {
    base: Score,
    item: Score,
    numbered: Score,
    asks: Score,
    question: Score,
    path: Score,
    code: Score,
    gerund: Score,
    short: Score,
    long: Score,
    first: Score,
    few: Score,
    single: Score,
    words: Vec<WordFeature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct WordFeature {
    adds: Score,
    words: Phrases,
    within: Wordings,
}

static FEATURES: LazyLock<Features> = LazyLock::new(|| table::read(include_str!("score.toml")));

impl Score {
    /// Scores a sentence by its words and by its place in the message: the sentence `at` of `count`.
    pub(crate) fn new(text: &str, is_item: bool, at: usize, count: usize) -> Self {
        let all = features(text, is_item, at, count).into_iter();
        all.filter(|(has, _)| *has)
            .fold(Self::default(), |sum, (_, adds)| Self {
                holds: sum.holds + adds.holds,
                keeps: sum.keeps + adds.keeps,
                asks: sum.asks + adds.asks,
            })
    }
}

/// The features of a sentence, each with whether the sentence has it.
fn features(text: &str, is_item: bool, at: usize, count: usize) -> Vec<(bool, Score)> {
    let small = lower(text);
    let table = &*FEATURES;
    let [short, long] = [size(&small) < SHORT, size(&small) > LONG];
    let is_code = |c: char| "{}=<>;".contains(c);
    let is_gerund = |word: &str| word.len() > 5 && word.ends_with("ing");
    let mut letters = small.split(|c: char| !c.is_alphabetic());
    let features = [
        (true, table.base),
        (is_item, table.item),
        (list_item(text).is_some(), table.numbered),
        (requests::asks(text), table.asks),
        (requests::is_question(&small), table.question),
        (small.split_whitespace().any(is_path), table.path),
        (small.contains(is_code) || small.contains("()"), table.code),
        (letters.any(is_gerund), table.gerund),
        (short, table.short),
        (long, table.long),
        (at == 0, table.first),
        (count <= FEW, table.few),
        (count == 1, table.single),
    ];
    let of_words = table.words.iter().map(|row| {
        let occurs = row.words.occur_in(&small) || row.within.occur_in(&small);
        (occurs, row.adds)
    });
    features.into_iter().chain(of_words).collect()
}

/// Sizes of short and long sentences in letters, and the number of sentences in a short message.
const SHORT: usize = 20;
const LONG: usize = 90;
const FEW: usize = 4;

/// Number of letters. A character of Chinese or Japanese counts as much as four others.
fn size(text: &str) -> usize {
    let letters = text.chars().filter(|c| !c.is_whitespace());
    letters.map(|c| if c > '\u{2e80}' { 4 } else { 1 }).sum()
}

/// Whether a word names a file or an address: `src/main.rs`, `@page`, `https://…`.
fn is_path(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '@' | '/'));
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    word.starts_with('@')
        || word.trim_matches('/').contains('/')
        || (2..=4).contains(&ending.len()) && ending.bytes().all(|b| b.is_ascii_lowercase())
}
