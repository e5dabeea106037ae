//! Values that sentences state, recognized by the form of their words, and the lists of words in `words.toml`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::{Beginnings, Phrases};
use crate::text::stem::stem;
use crate::text::{table, words};

/// The kind of a value. A value is only replaced by one of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ValueKind {
    Money,
    Date,
    Number,
    /// A path, an address, a host, a file.
    Place,
    /// Letters with digits or underscores, or text between backticks.
    Code,
    Name,
    Zone,
    /// A natural or a programming language.
    Language,
    /// A manner of wording.
    Manner,
    /// A system of units.
    Measures,
    /// The predicate of a sentence without any other value: "the next step is …".
    Words,
}

impl ValueKind {
    /// Whether the kind determines the subject of a sentence without further words.
    pub(super) fn is_topic(self) -> bool {
        matches!(self, Self::Zone | Self::Language | Self::Manner | Self::Measures)
    }
}

/// A word of a sentence, or several words that form one amount.
#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    /// The word with the punctuation around it.
    pub(super) raw: &'s str,
    pub(super) word: &'s str,
    /// The word in lower case; for an amount of money, its value.
    pub(super) small: String,
    pub(super) lists: WordLists,
    pub(super) kind: Option<ValueKind>,
}

impl<'s> Token<'s> {
    fn parse(raw: &'s str, at: usize) -> Option<Self> {
        let word = raw.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '€' | '£' | '/'));
        let word = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("’s"))
            .unwrap_or(word);
        let small = word.to_lowercase();
        let lists = WordLists::of(&small);
        let is_capital = word.starts_with(char::is_uppercase);
        let is_name = is_capital && at > 0 && !lists.has(WordList::Stop) && !lists.has(WordList::Known);
        // From the surest evidence to the weakest: a list, the form of the word, backticks, a capital letter.
        let kind = listed(lists, is_capital)
            .or_else(|| shape(word))
            .or_else(|| raw.contains('`').then_some(ValueKind::Code))
            .or_else(|| is_name.then_some(ValueKind::Name));
        (!word.is_empty()).then_some(Self {
            raw,
            word,
            small,
            lists,
            kind,
        })
    }

    pub(super) fn is(&self, kind: ValueKind) -> bool {
        self.kind == Some(kind)
    }
}

/// The words of a sentence, at most `most`. `3 of 5` and `three hundred dollars` are one token each.
pub(super) fn tokens(sentence: &str, most: usize) -> Vec<Token<'_>> {
    let words = sentence.split_whitespace().take(most).enumerate();
    let mut all: Vec<Token<'_>> = Vec::new();
    for token in words.filter_map(|(at, raw)| Token::parse(raw, at)) {
        let count = all.len();
        if let [.., first, of] = &mut all[..]
            && of.small == "of"
            && first.is(ValueKind::Number)
            && token.is(ValueKind::Number)
        {
            first.small = format!("{} of {}", first.small, token.small);
            first.raw = token.raw;
            all.truncate(count - 1);
            continue;
        }
        if token.lists.has(WordList::Currencies)
            && let Some((from, amount)) = amount(&all)
        {
            all.truncate(from);
            all.push(Token {
                kind: Some(ValueKind::Money),
                small: format!("${amount}"),
                ..token
            });
            continue;
        }
        all.push(token);
    }
    all
}

/// The amount at the end of these words, and the index of its first word.
fn amount(words: &[Token<'_>]) -> Option<(usize, u64)> {
    let last = words.last()?;
    if last.is(ValueKind::Number) {
        let digits = last.small.replace([',', '.'], "");
        return Some((words.len() - 1, digits.parse().ok()?));
    }
    let is_part = |token: &&Token<'_>| token.small == "and" || part(&token.small).is_some();
    let from = words.len() - words.iter().rev().take_while(is_part).count();
    let (mut total, mut current) = (0_u64, 0_u64);
    for word in words[from..].iter().filter_map(|token| part(&token.small)) {
        match word {
            // `hundred` multiplies only the number before it, while `thousand` and `million` close a group.
            (100, true) => current = current.max(1).saturating_mul(100),
            (scale, true) => {
                total = total.saturating_add(current.max(1).saturating_mul(scale));
                current = 0;
            }
            (number, false) => current = current.saturating_add(number),
        }
    }
    (from < words.len()).then_some((from, total.saturating_add(current)))
}

/// The value of a word in an amount, and whether it multiplies.
fn part(word: &str) -> Option<(u64, bool)> {
    let place = |list: &[&str]| list.iter().position(|other| *other == word);
    let number = |at: usize| u64::try_from(at).ok();
    match word {
        "hundred" => Some((100, true)),
        "thousand" => Some((1000, true)),
        "million" => Some((1_000_000, true)),
        _ => match place(&WORDS.numbers) {
            Some(at) => Some((number(at)?, false)),
            None => Some((number(place(&WORDS.tens)? + 2)? * 10, false)),
        },
    }
}

/// The kind of a word that is in one of the lists.
fn listed(lists: WordLists, is_capital: bool) -> Option<ValueKind> {
    match () {
        () if is_capital && lists.has(WordList::Zones) => Some(ValueKind::Zone),
        () if is_capital && lists.has(WordList::Languages) => Some(ValueKind::Language),
        () if lists.has(WordList::Manners) => Some(ValueKind::Manner),
        () if lists.has(WordList::Measures) => Some(ValueKind::Measures),
        () => None,
    }
}

/// The kind of a word that is a value by its form.
pub(super) fn shape(word: &str) -> Option<ValueKind> {
    let word = word.trim_matches(['"', '\'', '`']);
    let first = word.chars().next()?;
    let digits = word.bytes().any(|b| b.is_ascii_digit());
    // Most words have nothing but letters.
    if !digits && !word.bytes().any(|b| matches!(b, b'/' | b'.' | b'_')) {
        let is_day = first.is_uppercase() && WordLists::of(&word.to_lowercase()).has(WordList::Days);
        return is_day.then_some(ValueKind::Date);
    }
    let inside = |c: char| word.trim_matches(c).contains(c);
    if digits && matches!(first, '$' | '€' | '£') {
        return Some(ValueKind::Money);
    }
    if word.contains("://") || inside('/') && word.len() > 3 {
        let date = word.chars().all(|c| c.is_ascii_digit() || c == '/');
        return Some(match (date, is_zone(word)) {
            (true, _) => ValueKind::Date,
            (_, true) => ValueKind::Zone,
            _ => ValueKind::Place,
        });
    }
    if digits {
        return Some(with_digits(word, first));
    }
    let has_dot = inside('.') && word.len() > 4 && !word.contains("..");
    // A trailing slash marks a directory.
    if has_dot || word.len() > 2 && word.ends_with('/') {
        return Some(ValueKind::Place);
    }
    inside('_').then_some(ValueKind::Code)
}

fn with_digits(word: &str, first: char) -> ValueKind {
    /// Minimum length of a commit's hash.
    const HASH: usize = 7;
    let parts: Vec<&str> = word.split('-').collect();
    let date = parts.len() > 1 && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    // Letters are required, because seven digits are a number.
    let hash = word.len() >= HASH && letters > 0 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let number = letters <= 3 && (first.is_ascii_digit() || first == 'v') && parts.len() == 1 && !hash;
    match (date, number) {
        (true, _) => ValueKind::Date,
        (_, true) => ValueKind::Number,
        _ => ValueKind::Code,
    }
}

/// Whether a word has the form of a time zone like `Europe/Berlin`.
fn is_zone(word: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && part.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
    };
    word.split_once('/')
        .is_some_and(|(area, place)| part(area) && part(place))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct StatementWords {
    pub(super) corrects: Phrases,
    pub(super) orders_change: Beginnings,
    pub(super) adds: Phrases,
    pub(super) insists: Phrases,
    pub(super) before_action: Vec<&'static str>,
    pub(super) after_action: Vec<&'static str>,
    pub(super) after_no: Vec<&'static str>,
    pub(super) vague: Vec<&'static str>,
    pub(super) temporary: Vec<&'static str>,
    pub(super) limits: Vec<&'static str>,
    alike: Vec<&'static str>,
    lists: HashMap<WordList, Vec<&'static str>>,
    pub(super) numbers: Vec<&'static str>,
    pub(super) tens: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<StatementWords> = LazyLock::new(|| table::read(include_str!("words.toml")));

/// A list of single words in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WordList {
    States,
    Forbids,
    Owning,
    Days,
    Stop,
    Zones,
    Languages,
    Manners,
    Measures,
    Currencies,
    Known,
}

/// The lists that have a word, found by one lookup.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WordLists(u16);

impl WordLists {
    /// The lists that have a lower-case word.
    pub(super) fn of(word: &str) -> Self {
        static LISTS: LazyLock<HashMap<&str, WordLists>> = LazyLock::new(|| {
            let mut lists: HashMap<&str, WordLists> = HashMap::new();
            let synonyms = WORDS.alike.iter().flat_map(|row| row.split(' '));
            let synonyms = synonyms.map(|word| (WordList::Known, word));
            let listed = WORDS.lists.iter();
            let listed = listed.flat_map(|(list, words)| words.iter().map(|word| (*list, *word)));
            for (list, word) in listed.chain(synonyms) {
                lists.entry(word).or_default().0 |= 1 << list as u16;
            }
            lists
        });
        LISTS.get(word).copied().unwrap_or_default()
    }

    pub(super) fn has(self, list: WordList) -> bool {
        self.0 & (1 << list as u16) != 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_known_by_their_letters() {
        let kinds = |sentence: &str| -> Vec<(ValueKind, String)> {
            let values = tokens(sentence, 64).into_iter();
            values
                .filter_map(|token| Some((token.kind?, token.small)))
                .collect()
        };
        for (sentence, kind, value) in [
            ("below five hundred dollars", ValueKind::Money, "$500"),
            ("two thousand and twenty-one", ValueKind::Words, ""),
            ("of 1,200 USD", ValueKind::Money, "$1200"),
            ("one thousand two hundred fifty euros", ValueKind::Money, "$1250"),
            ("phase 3 of 5.", ValueKind::Number, "3 of 5"),
            ("in Europe/Berlin", ValueKind::Zone, "europe/berlin"),
            ("at Pacific Time", ValueKind::Zone, "pacific"),
            ("in Python", ValueKind::Language, "python"),
            ("commit 77e90d3", ValueKind::Code, "77e90d3"),
            ("see src/a.rs", ValueKind::Place, "src/a.rs"),
            ("the API", ValueKind::Words, ""),
        ] {
            let expected: Vec<_> = (kind != ValueKind::Words)
                .then(|| (kind, value.to_owned()))
                .into_iter()
                .collect();
            assert_eq!(kinds(sentence), expected, "{sentence}");
        }
    }
}
