//! A sentence as what it is about and the values that it states. Pure.

use std::collections::HashMap;

use super::words::{WORDS, has_word};
use crate::text::stem::stem;
use crate::text::words;

/// Words of a sentence that are read.
const MOST_WORDS: usize = 64;

/// Words of a key, and of the value of a line like `region: eu-west-1`.
const KEY_WORDS: usize = 4;

/// The sort of a value. Only a value of the same sort replaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ValueKind {
    Money,
    Date,
    Number,
    /// A path, an address, a host, a file.
    Place,
    /// Letters with digits, underscores, or between backticks.
    Code,
    Name,
    /// What a sentence without such a value says of its subject: "the next step is …".
    Words,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatedValue {
    pub(super) kind: ValueKind,
    /// In lower case.
    pub(super) text: String,
}

/// A sentence that states a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    /// Hashes of the stems of what it is about, sorted.
    pub(super) about: Vec<u64>,
    /// By the hash of a stem, that of the stem before it.
    before: HashMap<u64, u64>,
    pub(super) values: Vec<StatedValue>,
    /// Values that say what it is about: the 3 of "the limit of queue 3 is 50".
    pub(super) of: Vec<StatedValue>,
    /// It is a key and its value: `REGION=eu-west-1`, `| region | eu-west-1 |`.
    pub(super) keyed: bool,
    /// It can hold for one value only: "the port is 9001", "use 9001".
    pub(super) exclusive: bool,
    /// It forbids something.
    pub(super) forbids: bool,
    /// It says that something changed.
    pub(super) corrects: bool,
    /// It says that something is added to what was said.
    pub(super) adds: bool,
}

impl Statement {
    /// `None`: it states no value.
    pub(super) fn of(sentence: &str) -> Option<Self> {
        let small = sentence.to_lowercase();
        let has = |list: &[&str]| list.iter().any(|word| has_word(&small, word));
        let mut statement = Self {
            corrects: has(&WORDS.corrects),
            adds: has(&WORDS.adds),
            ..Self::default()
        };
        match keyed(sentence) {
            Some((key, value)) => statement.key(key, value),
            None => statement.prose(without_label(sentence)),
        }
        statement.before = statement
            .about
            .windows(2)
            .map(|pair| (pair[1], pair[0]))
            .collect();
        statement.about.sort_unstable();
        statement.about.dedup();
        (!statement.values.is_empty()).then_some(statement)
    }

    /// Whether it states this very value.
    pub(super) fn states(&self, value: &StatedValue) -> bool {
        self.values.iter().any(|other| other.text == value.text)
    }

    /// Whether the two are about different things of one kind: another word stands before a word that both have, as in
    /// `project budget` and `travel budget`.
    pub(super) fn is_other_kind(&self, other: &Self) -> bool {
        let lacks = |statement: &Self, word: &u64| statement.about.binary_search(word).is_err();
        self.before.iter().any(|(noun, kind)| {
            let theirs = other.before.get(noun);
            theirs.is_some_and(|theirs| lacks(self, theirs) && lacks(other, kind))
        })
    }

    fn key(&mut self, key: &str, value: &str) {
        (self.keyed, self.exclusive) = (true, true);
        let parts = key.split(|c: char| !c.is_alphanumeric());
        parts.for_each(|part| self.word(part));
        self.value(shape(value).unwrap_or(ValueKind::Words), value);
    }

    fn prose(&mut self, sentence: &str) {
        // A name at the sentence's start is known as one by the name behind it.
        let mut lead = None;
        let mut after_name = false;
        let mut subject: Vec<StatedValue> = Vec::new();
        for (at, raw) in sentence.split_whitespace().take(MOST_WORDS).enumerate() {
            let quoted = raw.contains('`');
            let word =
                raw.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '€' | '£' | '/'));
            let word = word
                .strip_suffix("'s")
                .or_else(|| word.strip_suffix("’s"))
                .unwrap_or(word);
            if word.is_empty() {
                continue;
            }
            if let Some((key, value)) = word
                .split_once('=')
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
            {
                self.exclusive |= self.values.is_empty();
                self.word(key);
                self.value(shape(value).unwrap_or(ValueKind::Words), value);
                continue;
            }
            let small = word.to_lowercase();
            let known = WORDS.stop.contains(&&*small);
            let kind = shape(word).or_else(|| quoted.then_some(ValueKind::Code));
            let capital = word.starts_with(char::is_uppercase) && !known;
            let kind = kind.or((capital && at > 0).then_some(ValueKind::Name));
            let states = WORDS.states.contains(&&*small) || raw.ends_with(':');
            if states && subject.is_empty() {
                // "The limit of queue 3 is": not the value, but what it is of.
                subject = std::mem::take(&mut self.values);
            }
            if self.values.is_empty() {
                self.forbids |= WORDS.forbids.contains(&&*small);
                self.exclusive |= states;
            }
            match kind {
                Some(ValueKind::Name) if after_name => self.longer(&small),
                Some(kind) => {
                    let first = lead.take().filter(|_| kind == ValueKind::Name && at == 1);
                    match first {
                        Some(first) => {
                            self.about.clear();
                            self.value(kind, &format!("{first} {word}"));
                        }
                        None => self.value(kind, word),
                    }
                }
                None => self.word(&small),
            }
            after_name = kind == Some(ValueKind::Name);
            lead = (at == 0 && capital).then_some(word);
        }
        self.exclusive &= !self.forbids;
        match self.values.is_empty() {
            // "The test parse_bom is red" names what it is about: others may be so, too.
            true => (self.values, self.exclusive) = (subject, false),
            false => self.of = subject,
        }
        if self.values.is_empty() {
            self.predicate(sentence);
        }
    }

    /// Of a sentence without a value: what it says that its subject is.
    fn predicate(&mut self, sentence: &str) {
        let small = sentence.to_lowercase();
        let Some((subject, says)) = small.split_once(" is ") else {
            return;
        };
        let named = WORDS.owning.iter().any(|word| has_word(subject, word));
        if !named || subject.split_whitespace().count() > KEY_WORDS {
            return;
        }
        self.about.clear();
        subject
            .split(|c: char| !c.is_alphanumeric())
            .for_each(|word| self.word(word));
        let says = says.split(|c: char| !c.is_alphanumeric());
        let says: Vec<&str> = says
            .filter(|word| !word.is_empty() && !WORDS.stop.contains(word))
            .collect();
        self.exclusive = true;
        if !self.about.is_empty() && !says.is_empty() {
            self.value(ValueKind::Words, &says.join(" "));
        }
    }

    fn word(&mut self, word: &str) {
        let small = word.to_lowercase();
        if small.len() > 1 && !WORDS.stop.contains(&&*small) {
            self.about.push(words::hash(&stem(&small)));
        }
    }

    fn value(&mut self, kind: ValueKind, text: &str) {
        let text = text.trim().to_lowercase();
        self.values.push(StatedValue { kind, text });
    }

    /// The last name has one more word.
    fn longer(&mut self, word: &str) {
        if let Some(last) = self.values.last_mut() {
            last.text.push(' ');
            last.text.push_str(word);
        }
    }
}

/// Whether a sentence gives a value that can hold for one thing only, and asks nothing.
pub(super) fn gives_value(sentence: &str) -> bool {
    let is_one = |statement: Statement| {
        statement.exclusive && statement.values.iter().any(|v| v.kind != ValueKind::Words)
    };
    !sentence.trim_end().ends_with('?') && Statement::of(sentence).is_some_and(is_one)
}

/// A sentence without a label in capitals: `FACT:`, `HARD CONSTRAINT:`.
fn without_label(sentence: &str) -> &str {
    match sentence.split_once(": ") {
        Some((label, rest)) => {
            let is_label = label.split_whitespace().count() <= KEY_WORDS
                && label.contains(char::is_alphabetic)
                && !label.contains(|c: char| c.is_lowercase() || c == '=');
            if is_label { rest } else { sentence }
        }
        None => sentence,
    }
}

/// The key and the value of a line that has nothing else.
fn keyed(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with('|') {
        let (key, value) = line.trim_matches('|').split_once('|')?;
        let is_row = value.contains(char::is_alphanumeric) && !key.trim().is_empty();
        return is_row.then_some((key, value.trim_matches(['|', ' '])));
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (key, value, is_set) = match line.split_once('=') {
        Some((key, value)) => (key, value, true),
        None => line.split_once(": ").map(|(key, value)| (key, value, false))?,
    };
    let (key, value) = (key.trim(), value.trim());
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    // "Note: …" is a sentence.
    let is_value = match is_set {
        true => !value.is_empty() && value.split_whitespace().count() <= KEY_WORDS,
        false => {
            !value.contains(char::is_whitespace) && shape(value).is_some_and(|kind| kind != ValueKind::Place)
        }
    };
    let is_pair = is_key && is_value && !WORDS.stop.contains(&&*key.to_lowercase());
    is_pair.then_some((key, value))
}

/// The sort of a word that is a value by its letters alone.
fn shape(word: &str) -> Option<ValueKind> {
    let word = word.trim_matches(['"', '\'', '`']);
    let inside = |c: char| word.trim_matches(c).contains(c);
    let digits = word.contains(|c: char| c.is_ascii_digit());
    let first = word.chars().next()?;
    if digits && matches!(first, '$' | '€' | '£') {
        return Some(ValueKind::Money);
    }
    if word.contains("://") || inside('/') && word.len() > 3 {
        let date = word.chars().all(|c| c.is_ascii_digit() || c == '/');
        return Some(if date { ValueKind::Date } else { ValueKind::Place });
    }
    if digits {
        let parts: Vec<&str> = word.split('-').collect();
        let date = parts.len() > 1 && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        let number = letters <= 3 && (first.is_ascii_digit() || first == 'v') && parts.len() == 1;
        return Some(match (date, number) {
            (true, _) => ValueKind::Date,
            (_, true) => ValueKind::Number,
            _ => ValueKind::Code,
        });
    }
    if inside('.') && word.len() > 4 && !word.contains("..") {
        return Some(ValueKind::Place);
    }
    if inside('_') {
        return Some(ValueKind::Code);
    }
    let small = word.to_lowercase();
    let is_day = first.is_uppercase() && WORDS.days.contains(&&*small);
    is_day.then_some(ValueKind::Date)
}
