//! Scores a user's sentence by its features: `score.toml`, which explains each.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::Deserialize;

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
    words: Vec<&'static str>,
    within: Vec<&'static str>,
}

/// The table, with all its words in one automaton.
struct FeatureTable {
    features: Features,
    words: Option<AhoCorasick>,
    /// The index of the feature that each word of the automaton belongs to.
    feature_of: Vec<usize>,
}

static TABLE: LazyLock<FeatureTable> = LazyLock::new(|| {
    let features: Features = table::read(include_str!("score.toml"));
    let (mut words, mut feature_of) = (Vec::new(), Vec::new());
    for (at, feature) in features.words.iter().enumerate() {
        words.extend(feature.words.iter().map(|word| spaced(word)));
        words.extend(feature.within.iter().map(|word| (*word).to_owned()));
        feature_of.resize(words.len(), at);
    }
    FeatureTable {
        features,
        words: AhoCorasick::builder().prefilter(false).build(words).ok(),
        feature_of,
    }
});

/// The words of a lower-case string, each between two spaces, so that a search finds whole words only.
fn spaced(small: &str) -> String {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'');
    let mut out = String::with_capacity(small.len() + 2);
    for word in small
        .split(|c: char| !is_inner(c))
        .filter(|word| !word.is_empty())
    {
        out.extend([" ", word]);
    }
    out + " "
}

/// What a sentence is in its message.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentenceRole {
    /// Whether the sentence asks for something.
    pub(super) asks: bool,
    /// Whether the sentence is an item of a list.
    pub(super) is_item: bool,
    /// Index of the sentence, and the number of sentences.
    pub(super) at: usize,
    pub(super) count: usize,
}

impl Score {
    /// Scores a sentence by its words and its role.
    pub(super) fn new(text: &str, role: SentenceRole) -> Self {
        let table = &TABLE.features;
        let small = lower(text);
        let size = size(&small);
        let is_code = |c: char| "{}=<>;".contains(c);
        let is_gerund = |word: &str| word.len() > 5 && word.ends_with("ing");
        let mut letters = small.split(|c: char| !c.is_alphabetic());
        let features = [
            (true, table.base),
            (role.is_item, table.item),
            (list_item(text).is_some(), table.numbered),
            (role.asks, table.asks),
            (requests::is_question(&small), table.question),
            (small.split_whitespace().any(is_path), table.path),
            (small.contains(is_code) || small.contains("()"), table.code),
            (letters.any(is_gerund), table.gerund),
            (size < SHORT, table.short),
            (size > LONG, table.long),
            (role.at == 0, table.first),
            (role.count <= FEW, table.few),
            (role.count == 1, table.single),
        ];
        let has = features.into_iter().filter(|(has, _)| *has).map(|(_, adds)| adds);
        has.chain(word_features(&small))
            .fold(Self::default(), |sum, adds| Self {
                holds: sum.holds + adds.holds,
                keeps: sum.keeps + adds.keeps,
                asks: sum.asks + adds.asks,
            })
    }
}

/// The scores of the words that occur in a lower-case sentence, each feature once.
fn word_features(small: &str) -> impl Iterator<Item = Score> {
    let mut has = vec![false; TABLE.features.words.len()];
    let spaced = spaced(small);
    for word in TABLE
        .words
        .iter()
        .flat_map(|words| words.find_overlapping_iter(&spaced))
    {
        has[TABLE.feature_of[word.pattern().as_usize()]] = true;
    }
    let all = TABLE.features.words.iter().zip(has);
    all.filter(|(_, has)| *has).map(|(feature, _)| feature.adds)
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
