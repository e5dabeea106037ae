//! A sentence as what it is about and the values that it states. Pure.

use super::value::{Token, ValueKind, shape, tokens};
use super::words::{WORDS, is_known, meaning};
use crate::text::prose::has_word;

/// Words of a sentence that are read.
const MOST_WORDS: usize = 64;

/// Words of a key, and of the value of a line like `region: eu-west-1`.
const KEY_WORDS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatedValue {
    pub(super) kind: ValueKind,
    /// In lower case.
    pub(super) text: String,
    /// What a number counts.
    unit: Option<u64>,
}

impl StatedValue {
    /// Whether one can be in the other's place.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind && (self.unit == other.unit || self.unit.is_none() || other.unit.is_none())
    }
}

/// A sentence as what it is about and what it says of that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statement {
    /// Hashes of what the words mean that say what it is about, sorted.
    pub(super) about: Vec<u64>,
    /// The hash of a word with that of the word before it, sorted.
    before: Vec<(u64, u64)>,
    pub(super) values: Vec<StatedValue>,
    /// Values that say what it is about: the 3 of "the limit of queue 3 is 50".
    pub(super) of: Vec<StatedValue>,
    /// Its values are what it is about: "the test parse_bom is red".
    pub(super) names: bool,
    /// It is a key and its value: `REGION=eu-west-1`, `| region | eu-west-1 |`.
    pub(super) keyed: bool,
    /// It can hold for one value only: "the port is 9001", "use 9001".
    pub(super) exclusive: bool,
    /// It forbids something.
    pub(crate) forbids: bool,
    /// It asks for something at all times.
    insists: bool,
    /// It says that something changed.
    pub(super) corrects: bool,
    /// It says that something is added to what was said.
    pub(super) adds: bool,
}

impl Statement {
    pub(crate) fn from_sentence(sentence: &str) -> Self {
        let small = sentence.to_lowercase();
        // "Left unresolved for now" corrects nothing.
        let corrects = match small.contains("for now") {
            true => small.replace("for now", ""),
            false => small.clone(),
        };
        let mut statement = Self {
            corrects: WORDS.corrects.occur_in(&corrects),
            adds: WORDS.adds.occur_in(&small),
            insists: WORDS.insists.occur_in(&small),
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
            .rev()
            .collect();
        // Of a word that is there twice the last one counts.
        statement.before.sort_by_key(|(noun, _)| *noun);
        statement.before.dedup_by_key(|(noun, _)| *noun);
        statement.about.sort_unstable();
        statement.about.dedup();
        statement
    }

    /// Whether a later one may replace it: it states a value, forbids or insists.
    pub(super) fn can_change(&self) -> bool {
        !self.values.is_empty() || (self.forbids || self.insists) && !self.about.is_empty()
    }

    /// How many words and values it has, and how many of them another one has, too.
    pub(crate) fn overlap(&self, other: &Self) -> (usize, usize) {
        let values = self.values.iter().filter(|value| other.states(value)).count();
        let all = self.about.len() + self.values.len();
        (all, self.shared(other) + values)
    }

    /// How many words the two have.
    pub(super) fn shared(&self, other: &Self) -> usize {
        let has = |word: &&u64| other.about.binary_search(word).is_ok();
        self.about.iter().filter(has).count()
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
            let theirs = other.before.binary_search_by_key(noun, |(noun, _)| *noun);
            theirs.is_ok_and(|at| lacks(self, &other.before[at].1) && lacks(other, kind))
        })
    }

    fn key(&mut self, key: &str, value: &str) {
        (self.keyed, self.exclusive) = (true, true);
        let parts = key.split(|c: char| !c.is_alphanumeric());
        parts.for_each(|part| self.word(part));
        self.value(shape(value).unwrap_or(ValueKind::Words), value, None);
    }

    fn prose(&mut self, sentence: &str) {
        let words = tokens(sentence, MOST_WORDS);
        // A name at the sentence's start is known as one by the name behind it.
        let leads = |words: &[Token<'_>]| {
            matches!(words, [first, second, ..]
                if first.kind.is_none() && first.word.starts_with(char::is_uppercase)
                    && !WORDS.stop.contains(&*first.small) && second.is(ValueKind::Name))
        };
        let mut subject: Vec<StatedValue> = Vec::new();
        let (mut after_name, mut qualifies, mut stated) = (false, false, false);
        for (at, token) in words.iter().enumerate() {
            // "Without explicit approval" and "because it is smaller" are not what it is about.
            qualifies |= matches!(&*token.small, "without" | "because");
            if self.assignment(token) {
                continue;
            }
            let states = WORDS.states.contains(&*token.small) || token.raw.ends_with(':');
            if states && !stated && subject.is_empty() {
                // "The limit of queue 3 is": not the value, but what it is of.
                subject = std::mem::take(&mut self.values);
            }
            if self.values.is_empty() {
                stated |= states;
                self.forbids |= WORDS.forbids.contains(&*token.small);
                self.exclusive |= states || token.kind.is_some() && is_definite(&words[..at]);
            }
            let is_name = token.is(ValueKind::Name);
            match token.kind {
                Some(_) if is_name && after_name => self.longer(&token.small),
                Some(kind) => self.value(kind, &token.small, words.get(at + 1)),
                None if at == 0 && leads(&words) => self.value(ValueKind::Name, &token.small, None),
                None if qualifies => {}
                None => self.word(&token.small),
            }
            after_name = is_name || at == 0 && leads(&words);
        }
        self.exclusive &= !self.forbids;
        match self.values.is_empty() {
            // "The test parse_bom is red" names what it is about: others may be so, too.
            true => {
                (self.values, self.exclusive) = (subject, false);
                self.names = true;
                self.forbids |= words.iter().any(|token| WORDS.forbids.contains(&*token.small));
            }
            false => self.of = subject,
        }
        if self.values.is_empty() {
            self.predicate(without_lead(sentence));
        }
    }

    /// Reads a word like `port=9001`; whether it is one.
    fn assignment(&mut self, token: &Token<'_>) -> bool {
        let pair = token.word.split_once('=');
        let Some((key, value)) = pair.filter(|(key, value)| !key.is_empty() && !value.is_empty()) else {
            return false;
        };
        self.exclusive |= self.values.is_empty();
        self.word(key);
        self.value(shape(value).unwrap_or(ValueKind::Words), value, None);
        true
    }

    /// Of a sentence without a value: what it says that its subject is.
    fn predicate(&mut self, sentence: &str) {
        let small = sentence.to_lowercase();
        let pair = small.split_once(" is ").or_else(|| small.split_once(": "));
        let Some((subject, says)) = pair else {
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
        if !self.about.is_empty() && !says.is_empty() {
            (self.exclusive, self.names) = (true, false);
            self.value(ValueKind::Words, &says.join(" "), None);
        }
    }

    fn word(&mut self, word: &str) {
        let small = word.to_lowercase();
        // "On-call" is a word of its own.
        if small.contains('-') && !is_known(&small) {
            small.split('-').for_each(|part| self.word(part));
        } else if small.len() > 1 && !WORDS.stop.contains(&*small) {
            self.about.push(meaning(&small));
        }
    }

    /// `next`: the word behind it, of a number its unit.
    fn value(&mut self, kind: ValueKind, text: &str, next: Option<&Token<'_>>) {
        let is_unit = |next: &&Token<'_>| {
            kind == ValueKind::Number && next.kind.is_none() && !WORDS.stop.contains(&*next.small)
        };
        self.values.push(StatedValue {
            kind,
            text: text.trim().trim_end_matches('/').to_lowercase(),
            unit: next.filter(is_unit).map(|next| meaning(&next.small)),
        });
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
pub(crate) fn gives_value(sentence: &str) -> bool {
    let is_one = |statement: Statement| {
        let of_fact = |value: &StatedValue| {
            !matches!(
                value.kind,
                ValueKind::Words | ValueKind::Manner | ValueKind::Measures
            )
        };
        statement.exclusive && statement.values.iter().any(of_fact)
    };
    !sentence.trim_end().ends_with('?') && is_one(Statement::from_sentence(sentence))
}

/// Whether the words before a value say that there is one of its kind: "our working branch", "we are in phase".
fn is_definite(before: &[Token<'_>]) -> bool {
    let is_noun = |token: &&Token<'_>| token.kind.is_none() && !WORDS.stop.contains(&*token.small);
    let nouns = before.iter().rev().take_while(is_noun).count();
    let rest = &before[..before.len() - nouns];
    let is_owning = rest
        .last()
        .is_some_and(|token| WORDS.owning.contains(&*token.small));
    let is_ours = before
        .first()
        .is_some_and(|token| ["we", "we're", "i'm"].contains(&&*token.small));
    nouns > 0 && (is_owning || is_ours)
}

/// A sentence without what leads to it: "After this, the next step is …".
fn without_lead(sentence: &str) -> &str {
    let lead = sentence.split_once(", ");
    let is_short = |lead: &str| lead.split_whitespace().count() < KEY_WORDS;
    lead.filter(|(lead, _)| is_short(lead))
        .map_or(sentence, |(_, rest)| rest)
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
    let is_pair = is_key && is_value && !WORDS.stop.contains(&*key.to_lowercase());
    is_pair.then_some((key, value))
}

/// What a later statement does to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// It has another value for what may be something else.
    Perhaps,
    /// It says all of it, with another value.
    Surely,
}

/// A sentence that states a value.
#[derive(Debug)]
pub(crate) struct ValueStatement<'i> {
    pub(crate) turn: usize,
    pub(crate) by_user: bool,
    pub(crate) text: &'i str,
    pub(crate) statement: Statement,
    /// Its whole text is keys and values.
    pub(super) bare: bool,
    pub(crate) replaced: Option<(Relation, usize)>,
}
