//! Scores a user's sentence by its features: `score.toml`, which explains each.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::Deserialize;

use crate::text::prose::list_item;
use crate::text::table;
use crate::work::requests;

/// Scores of a sentence, in hundredths of the logarithm of the odds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Score {
    /// The sentence is a rule or a decision, and holds beyond its request.
    pub(crate) holds: i32,
    /// The sentence is worth carrying.
    pub(crate) keeps: i32,
    /// Whether the sentence is over with its request: it only asks, reports or thanks.
    #[serde(skip)]
    pub(crate) is_over: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Features {
    base: Score,
    asks: Score,
    lasting: Score,
    question: Score,
    item: Score,
    numbered: Score,
    headed: Score,
    first: Score,
    single: Score,
    many: Score,
    tiny: Score,
    number: Score,
    colon: Score,
    words: Vec<WordFeature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct WordFeature {
    adds: Score,
    /// Whether a request with these words lasts.
    #[serde(default)]
    lasts: bool,
    #[serde(default)]
    words: Vec<&'static str>,
    #[serde(default)]
    first: Vec<&'static str>,
    #[serde(default)]
    within: Vec<&'static str>,
}

/// The table, with all its words in one automaton.
struct FeatureTable {
    features: Features,
    words: Option<AhoCorasick>,
    /// For each word of the automaton, the index of its feature, and whether it counts only where a clause begins.
    feature_of: Vec<(usize, bool)>,
}

static TABLE: LazyLock<FeatureTable> = LazyLock::new(|| {
    let features: Features = table::read(include_str!("score.toml"));
    let (mut words, mut feature_of) = (Vec::new(), Vec::new());
    for (at, feature) in features.words.iter().enumerate() {
        words.extend(feature.words.iter().map(|word| spaced(word)));
        words.extend(feature.within.iter().map(|word| (*word).to_owned()));
        feature_of.resize(words.len(), (at, false));
        words.extend(feature.first.iter().map(|word| spaced(word)));
        feature_of.resize(words.len(), (at, true));
    }
    FeatureTable {
        features,
        words: AhoCorasick::builder().prefilter(false).build(words).ok(),
        feature_of,
    }
});

/// The words of a lower-case string, each between two spaces, so that a search finds whole words only.
///
/// A bar stands for the punctuation between clauses.
fn spaced(small: &str) -> String {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'');
    let mut out = String::with_capacity(small.len() * 2);
    let mut is_word = false;
    for c in small.chars() {
        if is_inner(c) {
            if !is_word {
                out.push(' ');
            }
            out.push(c);
        } else if c == '-' && out.ends_with(" non") {
            // `non-destructive` denies nothing.
            out.push('_');
            is_word = true;
            continue;
        } else if is_joint(c) {
            out.push_str(" |");
        }
        is_word = is_inner(c);
    }
    out + " "
}

/// Whether a character is punctuation between clauses.
fn is_joint(c: char) -> bool {
    matches!(
        c,
        ',' | ';' | ':' | '.' | '!' | '?' | '(' | ')' | '*' | '"' | '—' | '–' | '→' | '•' | '“' | '”'
    ) || matches!(c, '（' | '）' | '：' | '，' | '。' | '；' | '！' | '？')
}

/// Words between clauses, and words that may precede the beginning of a clause.
const JOINTS: [&str; 6] = ["|", "and", "but", "then", "so", "or"];
const FILLERS: [&str; 6] = ["please", "also", "just", "we", "you", "ever"];

/// Whether a clause begins after these words.
fn ends_clause(before: &str) -> bool {
    let last = before
        .rsplit(' ')
        .find(|word| !word.is_empty() && !FILLERS.contains(word));
    last.is_none_or(|last| JOINTS.contains(&last))
}

/// The role of a sentence in its message.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentenceRole {
    /// Whether the sentence asks for something.
    pub(super) asks: bool,
    /// Whether its words forbid something.
    pub(super) forbids: bool,
    /// Whether the sentence is an item of a list.
    pub(super) is_item: bool,
    /// Whether the list has a heading like `Requirements:`.
    pub(super) is_headed: bool,
    /// Index of the sentence, and the number of sentences.
    pub(super) at: usize,
    pub(super) count: usize,
}

impl Score {
    /// Scores a sentence by its words and its role. `small` is its text in lower case.
    pub(super) fn new(text: &str, small: &str, role: SentenceRole) -> Self {
        let table = &TABLE.features;
        let words = word_features(small);
        let lasts = role.asks && (words.iter().any(|feature| feature.lasts) || has_setting(text));
        let features = [
            (true, table.base),
            (role.asks, table.asks),
            (lasts, table.lasting),
            (requests::is_question(small), table.question),
            (role.is_item, table.item),
            (list_item(text).is_some(), table.numbered),
            (role.is_headed, table.headed),
            (role.at == 0, table.first),
            (role.count == 1, table.single),
            (role.count > MANY, table.many),
            // `Never push.` needs no more letters.
            (!role.forbids && !is_larger(small, TINY), table.tiny),
            (has_number(small), table.number),
            (has_colon(small), table.colon),
        ];
        let has = features.into_iter().filter(|(has, _)| *has).map(|(_, adds)| adds);
        let mut score = Self::default();
        for adds in has.chain(words.iter().map(|feature| feature.adds)) {
            score.holds += adds.holds;
            score.keeps += adds.keeps;
        }
        let least = if role.asks { OVER_ASKING } else { OVER_STATING };
        score.is_over = !lasts && score.worth() < least;
        score
    }

    /// How much the sentence is worth a place in a limited budget.
    pub(crate) fn worth(self) -> i32 {
        self.holds + self.keeps
    }
}

/// Worth below which a request, and another sentence, is over with its request.
const OVER_ASKING: i32 = -100;
const OVER_STATING: i32 = -500;

/// The features of words that a lower-case sentence has.
fn word_features(small: &str) -> Vec<&'static WordFeature> {
    let mut has = vec![false; TABLE.features.words.len()];
    let text = spaced(small);
    let words = TABLE.words.iter();
    for word in words.flat_map(|words| words.find_overlapping_iter(&text)) {
        let (feature, is_first) = TABLE.feature_of[word.pattern().as_usize()];
        has[feature] |= !is_first || ends_clause(&text[..word.start()]);
    }
    let all = TABLE.features.words.iter().zip(has);
    all.filter(|(_, has)| *has).map(|(feature, _)| feature).collect()
}

/// Number of sentences above which a message has many, and number of letters of a tiny sentence.
const MANY: usize = 25;
const TINY: usize = 10;

/// Whether a string has more letters. A character of Chinese or Japanese counts as much as four others.
pub(super) fn is_larger(text: &str, most: usize) -> bool {
    let letters = text.chars().filter(|c| !c.is_whitespace());
    let mut sizes = letters.scan(0, |size, c| {
        *size += if c > '\u{2e80}' { 4 } else { 1 };
        Some(*size)
    });
    sizes.any(|size| size > most)
}

/// Whether a sentence has a number that is not a mere count: a port, a version, an address.
fn has_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | ':');
    let words = text.split(|c: char| !is_part(c));
    let mut numbers = words.filter(|word| word.bytes().any(|b| b.is_ascii_digit()));
    numbers.any(|word| word.trim_matches(['.', ':']).len() > 2)
}

/// Whether a sentence has a colon before its end.
fn has_colon(small: &str) -> bool {
    let small = small.trim_end_matches([':', '：']);
    small.contains(':') || small.contains('：')
}

/// Whether a sentence names a setting: `DATABASE_NAME`.
fn has_setting(text: &str) -> bool {
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !text.contains('_') {
        return false;
    }
    // `PLAN_A.md` is a file.
    let mut words = text
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/')))
        .map(|word| word.trim_end_matches('.'));
    words.any(|word| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.contains('_')
            && word.chars().all(is_capital)
    })
}
