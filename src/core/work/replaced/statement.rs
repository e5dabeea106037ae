//! A sentence as a subject and the values that it states. Pure.

use super::value::{Token, ValueKind, WORDS, WordList, WordLists, meaning, shape, tokens};

/// Maximum number of words read from a sentence.
const MOST_WORDS: usize = 64;

/// Number of words at the start of a sentence among which a prohibition has its `never` or `not`.
const MAX_WORDS_BEFORE_FORBIDDING: usize = 8;

/// Maximum number of words in a key, and in the value of a line like `region: eu-west-1`.
const KEY_WORDS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatedValue {
    pub(super) kind: ValueKind,
    /// The value in lower case.
    pub(super) text: String,
    /// Hash of the unit that a number counts.
    pub(super) unit: Option<u64>,
}

impl StatedValue {
    /// Whether one value can stand in for the other.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind && (self.unit == other.unit || self.unit.is_none() || other.unit.is_none())
    }
}

/// A sentence as a subject and a statement about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statement {
    /// Hashes of the meanings of the words that form the subject, sorted.
    pub(super) about: Vec<u64>,
    /// The hash of a word with that of the word before it, sorted.
    before: Vec<(u64, u64)>,
    pub(super) values: Vec<StatedValue>,
    /// Values that belong to the subject: the 3 of "the limit of queue 3 is 50".
    pub(super) of: Vec<StatedValue>,
    /// Whether the values are the subject: "the test parse_bom is red".
    pub(super) names: bool,
    /// Whether this is a key with its value: `REGION=eu-west-1`, `| region | eu-west-1 |`.
    pub(super) keyed: bool,
    /// Whether the statement can hold for one value only: "the port is 9001", "use 9001".
    pub(super) exclusive: bool,
    /// Whether the statement forbids something.
    pub(crate) forbids: bool,
    /// Whether the statement requires something at all times.
    insists: bool,
    /// Whether the statement reports a change.
    pub(super) corrects: bool,
    /// Whether it orders a change of a named thing, and so refers to nothing else: "change the port to 9002".
    pub(super) changes: bool,
    /// Whether the statement adds to earlier ones.
    pub(super) adds: bool,
    /// Whether this is a question, which states nothing.
    pub(super) asks: bool,
}

impl Statement {
    pub(crate) fn from_sentence(sentence: &str) -> Self {
        let small = sentence.to_lowercase();
        // "Left unresolved for now" corrects nothing.
        let corrects = match small.contains("for now") {
            true => small.replace("for now", ""),
            false => small.clone(),
        };
        let changes = orders_change(&small);
        let mut statement = Self {
            changes,
            corrects: changes || WORDS.corrects.occur_in(&corrects) || is_new_state(&corrects),
            adds: WORDS.adds.occur_in(&small),
            asks: sentence.trim_end().ends_with(['?', '？']),
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
        // If a word occurs twice, the last occurrence counts.
        statement.before.sort_by_key(|(noun, _)| *noun);
        statement.before.dedup_by_key(|(noun, _)| *noun);
        statement.about.sort_unstable();
        statement.about.dedup();
        statement
    }

    /// Whether a later statement may replace this one, because it states a value, forbids or insists.
    pub(super) fn can_change(&self) -> bool {
        !self.values.is_empty() || (self.forbids || self.insists) && !self.about.is_empty()
    }

    /// The number of this statement's words and values, and how many of them `other` shares.
    pub(crate) fn overlap(&self, other: &Self) -> (usize, usize) {
        let values = self.values.iter().filter(|value| other.states(value)).count();
        let all = self.about.len() + self.values.len();
        (all, self.shared(other) + values)
    }

    /// The number of words that both statements have.
    pub(super) fn shared(&self, other: &Self) -> usize {
        // Both lists are sorted, so one pass over the other list is enough.
        let mut others = other.about.iter().peekable();
        let has = |word: &&u64| {
            while others.next_if(|other| other < word).is_some() {}
            others.peek() == Some(word)
        };
        self.about.iter().filter(has).count()
    }

    /// Whether the statement has this very value.
    pub(super) fn states(&self, value: &StatedValue) -> bool {
        self.values.iter().any(|other| other.text == value.text)
    }

    /// Whether the two are about different things of one kind.
    ///
    /// Then a shared word follows different words, as in `project budget` and `travel budget`.
    pub(super) fn is_other_kind(&self, other: &Self) -> bool {
        let lacks = |statement: &Self, word: &u64| statement.about.binary_search(word).is_err();
        self.before.iter().any(|(noun, kind)| {
            let theirs = other.before.binary_search_by_key(noun, |(noun, _)| *noun);
            theirs.is_ok_and(|at| lacks(self, &other.before[at].1) && lacks(other, kind))
        })
    }

    fn key(&mut self, key: &str, value: &str) {
        // A key has one value, so another value under the same key replaces it.
        (self.keyed, self.exclusive) = (true, true);
        self.words(&key.to_lowercase());
        self.value(shape(value).unwrap_or(ValueKind::Words), value, None);
    }

    fn prose(&mut self, sentence: &str) {
        let words = tokens(sentence, MOST_WORDS);
        // A word at the start of a sentence is capitalized anyway: only a name after it shows that it is a name.
        let leads = |words: &[Token<'_>]| {
            matches!(words, [first, second, ..]
                if first.kind.is_none() && first.word.starts_with(char::is_uppercase)
                    && !first.lists.has(WordList::Stop) && second.is(ValueKind::Name))
        };
        let mut subject: Vec<StatedValue> = Vec::new();
        let (mut after_name, mut qualifies, mut stated) = (false, false, false);
        for (at, token) in words.iter().enumerate() {
            // "Without explicit approval" and "because it is smaller" are not part of the subject.
            qualifies |= matches!(&*token.small, "without" | "because");
            if self.assignment(token) {
                continue;
            }
            let states = token.lists.has(WordList::States) || token.raw.ends_with(':');
            if states && !stated && subject.is_empty() {
                // "The limit of queue 3 is": the values so far belong to the subject.
                subject = std::mem::take(&mut self.values);
            }
            if self.values.is_empty() {
                stated |= states;
                self.forbids |= forbids(&words, at);
                self.exclusive |= states || token.kind.is_some() && is_definite(&words[..at]);
            }
            let is_name = token.is(ValueKind::Name);
            match token.kind {
                // `Ada Lovelace` is one name.
                Some(_) if is_name && after_name => self.longer(&token.small),
                Some(kind) => self.value(kind, &token.small, words.get(at + 1)),
                None if at == 0 && leads(&words) => self.value(ValueKind::Name, &token.small, None),
                None if qualifies => {}
                None => self.word(&token.small, token.lists),
            }
            after_name = is_name || at == 0 && leads(&words);
        }
        // `Do not use port 9001` leaves room for other forbidden ports.
        self.exclusive &= !self.forbids;
        match self.values.is_empty() {
            // "The test parse_bom is red" names its subject: the same may hold for others.
            true => {
                (self.values, self.exclusive) = (subject, false);
                self.names = true;
                // In the middle of a sentence, the word describes: "the branch that is not merged".
                let mut first = (0..words.len()).take(MAX_WORDS_BEFORE_FORBIDDING);
                self.forbids |= first.any(|at| forbids(&words, at));
            }
            false => self.of = subject,
        }
        if self.values.is_empty() {
            self.predicate(without_lead(sentence));
        }
    }

    /// Reads a word like `port=9001`. Returns whether it is one.
    fn assignment(&mut self, token: &Token<'_>) -> bool {
        let pair = token.word.split_once('=');
        let Some((key, value)) = pair.filter(|(key, value)| !key.is_empty() && !value.is_empty()) else {
            return false;
        };
        self.exclusive |= self.values.is_empty();
        let key = key.to_lowercase();
        self.word(&key, WordLists::of(&key));
        self.value(shape(value).unwrap_or(ValueKind::Words), value, None);
        true
    }

    /// Reads the predicate of a sentence without a value.
    fn predicate(&mut self, sentence: &str) {
        let small = sentence.to_lowercase();
        let pair = small.split_once(" is ").or_else(|| small.split_once(": "));
        let Some((subject, says)) = pair else {
            return;
        };
        let mut words = subject.split(|c: char| !c.is_alphanumeric());
        let is_named = words.any(|word| WordLists::of(word).has(WordList::Owning));
        if !is_named || subject.split_whitespace().count() > KEY_WORDS {
            return;
        }
        // The words of the predicate are the value here, and must not count as the subject.
        self.about.clear();
        self.words(subject);
        let says = says.split(|c: char| !c.is_alphanumeric());
        let says: Vec<&str> = says
            .filter(|word| !word.is_empty() && !WordLists::of(word).has(WordList::Stop))
            .collect();
        if !self.about.is_empty() && !says.is_empty() {
            (self.exclusive, self.names) = (true, false);
            self.value(ValueKind::Words, &says.join(" "), None);
        }
    }

    /// Adds the words of a lower-case string to the subject.
    fn words(&mut self, small: &str) {
        let words = small.split(|c: char| !c.is_alphanumeric());
        words.for_each(|word| self.word(word, WordLists::of(word)));
    }

    /// Adds a lower-case word to the subject.
    fn word(&mut self, small: &str, lists: WordLists) {
        // Some hyphenated words, like "on-call", are words of their own.
        if small.contains('-') && !lists.has(WordList::Known) {
            small
                .split('-')
                .for_each(|part| self.word(part, WordLists::of(part)));
        } else if small.len() > 1 && !lists.has(WordList::Stop) {
            self.about.push(meaning(small));
        }
    }

    /// Adds a value. `next` is the word after it, which is the unit of a number.
    fn value(&mut self, kind: ValueKind, text: &str, next: Option<&Token<'_>>) {
        let is_unit = |next: &&Token<'_>| {
            kind == ValueKind::Number && next.kind.is_none() && !next.lists.has(WordList::Stop)
        };
        self.values.push(StatedValue {
            kind,
            // `src/` and `src` name the same directory.
            text: text.trim().trim_end_matches('/').to_lowercase(),
            unit: next.filter(is_unit).map(|next| meaning(&next.small)),
        });
    }

    /// Extends the last name by a word.
    fn longer(&mut self, word: &str) {
        if let Some(last) = self.values.last_mut() {
            last.text.push(' ');
            last.text.push_str(word);
        }
    }
}

/// Whether a sentence states a value that can hold for one thing only, and is not a question.
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

/// Whether a lower-case sentence states a new value: "the port is now 9002", "Ada now owns it", "use tabs now".
fn is_new_state(small: &str) -> bool {
    // Most sentences lack the word, and need not be divided.
    if !small.contains("now") {
        return false;
    }
    let words: Vec<&str> = small
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let states = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| WordLists::of(word).has(WordList::States))
    };
    let is_new = |at: usize| at + 1 == words.len() || states(at + 1) || at > 0 && states(at - 1);
    (0..words.len()).any(|at| words[at] == "now" && is_new(at))
}

/// Whether a lower-case sentence orders a new value: "change the port to 9002".
fn orders_change(small: &str) -> bool {
    let small = small.trim_start();
    WORDS.orders_change.begin(small) && small.contains(" to ")
}

/// Whether the words before a value show that it is the only one of its kind: "our working branch", "we are in phase".
fn is_definite(before: &[Token<'_>]) -> bool {
    let is_noun = |token: &&Token<'_>| token.kind.is_none() && !token.lists.has(WordList::Stop);
    let nouns = before.iter().rev().take_while(is_noun).count();
    let rest = &before[..before.len() - nouns];
    let is_owning = rest.last().is_some_and(|token| token.lists.has(WordList::Owning));
    let is_ours = before
        .first()
        .is_some_and(|token| ["we", "we're", "i'm"].contains(&&*token.small));
    nouns > 0 && (is_owning || is_ours)
}

/// A sentence without a leading phrase: "After this, the next step is …".
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
    let is_pair = is_key && is_value && !WordLists::of(&key.to_lowercase()).has(WordList::Stop);
    is_pair.then_some((key, value))
}

/// The effect of a later statement on an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// The later one has another value, but may be about something else.
    Perhaps,
    /// The later one repeats all of the earlier one, with another value.
    Surely,
}

/// A sentence that states a value.
#[derive(Debug)]
pub(crate) struct ValueStatement<'i> {
    pub(crate) turn: usize,
    pub(crate) by_user: bool,
    pub(crate) text: &'i str,
    pub(crate) statement: Statement,
    /// Whether the whole text consists of keys and values.
    pub(super) bare: bool,
    /// Whether the user orders something, which may lift a prohibition.
    pub(crate) orders: bool,
    /// How a later statement replaced this one, and the index of that statement.
    pub(crate) replaced: Option<(Relation, usize)>,
}

/// Whether a word forbids something. `no` before a verb of a report does not: `no se ve el texto`.
fn forbids(words: &[Token<'_>], at: usize) -> bool {
    let next = words.get(at + 1).map_or("", |token| token.small.as_str());
    let reports = words[at].small == "no" && WORDS.after_no.contains(&next);
    words[at].lists.has(WordList::Forbids) && !reports
}
