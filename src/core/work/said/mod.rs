//! Finds the sentences that the user typed, and classifies them by the words in `rules.toml`.

mod clause;
mod error;
mod lines;
mod pasted;
mod quoted;
mod rule;
pub(crate) mod score;
mod typed;
pub(crate) mod words;

pub(crate) use error::PastedError;
pub(crate) use lines::{TypedSentence, in_lines};
pub(crate) use quoted::{TypedMessage, quoted};
pub(crate) use rule::{RuleStatement, describes, parts, retracts};
pub(crate) use typed::{is_plan, typed};

use std::collections::HashSet;

use super::excerpt::{one_line, pieces};
use super::markers::{self, AnchoredSentence, SentenceClass};
use super::replaced::{Statement, gives_value};
use super::requests;
use crate::text::prose::{has_word, lower};
use words::WORDS;

/// Maximum size of a user's text whose values are kept, in bytes; a longer one is a file or a log.
const TOLD: usize = 1200;

/// Maximum size of a kept sentence of the user in bytes.
pub(crate) const MAX_SENTENCE_BYTES: usize = 400;

/// The sentences that the user typed, without mere replies.
///
/// `constraints` are configured words in lower case.
pub(super) fn anchors(text: &str, constraints: &[String]) -> Vec<AnchoredSentence> {
    let has_values = text.len() <= TOLD;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut add = |class: SentenceClass, sentence: &str| {
        let (by_user, text) = (true, one_line(sentence, MAX_SENTENCE_BYTES));
        if !is_stub(&text) && !requests::is_reply(&text) && seen.insert(text.clone()) {
            found.push(AnchoredSentence { class, by_user, text });
        }
    };
    for one in in_lines(typed(text), constraints) {
        let class = class(&one, has_values);
        match !one.context.is_empty() && requests::asks(&one.context) {
            // The request ends with its turn, and the rule holds beyond it.
            true => {
                add(SentenceClass::Asked, &one.context);
                add(class, &one.text);
            }
            false => add(class, &one.whole()),
        }
    }
    for piece in pieces(text).filter(|piece| has_values && piece.code && gives_value(piece.text)) {
        add(SentenceClass::Fact, piece.text);
    }
    found
}

fn class(one: &TypedSentence, has_values: bool) -> SentenceClass {
    // The state that a report describes is mended.
    let fact = || has_values && gives_value(&one.text) && !WORDS.faults.occur_in(&lower(&one.text));
    match one.saying {
        Some(RuleStatement::Forbids | RuleStatement::Holds) => SentenceClass::Constraint,
        Some(RuleStatement::Lifts) => SentenceClass::Lift,
        None if one.score.is_over && (one.asks || !fact()) => SentenceClass::Asked,
        None | Some(RuleStatement::Seems) => {
            markers::users_class(&one.text).unwrap_or_else(|| match fact() {
                true => SentenceClass::Fact,
                false => SentenceClass::Said,
            })
        }
    }
}

/// Words between a sentence and those of the model that it answers.
const IN_ANSWER: &str = " (in answer to: ";

/// The user's sentence with the words of the model that it answers.
pub(crate) fn in_answer(text: &str, asked: &str) -> String {
    const MAX_ASKED_BYTES: usize = 100;
    format!("{text}{IN_ANSWER}{})", one_line(asked, MAX_ASKED_BYTES))
}

/// Whether a sentence has the words of the model that it answers.
pub(crate) fn is_in_answer(text: &str) -> bool {
    text.contains(IN_ANSWER) && text.ends_with(')')
}

/// Whether a sentence means nothing by itself: it only announces other lines, refers to files, or asks about another
/// sentence.
pub(crate) fn is_stub(text: &str) -> bool {
    /// Maximum number of words of a heading. `Keep the door, but paint the hall like this:` says more.
    const MAX_WORDS: usize = 6;
    let is_reference =
        |word: &str| word.starts_with('@') && !word.contains("://") || word.starts_with("#file:");
    let is_heading = || {
        text.trim_end().ends_with([':', '：'])
            && text.split_whitespace().nth(MAX_WORDS).is_none()
            && !requests::reports_unsolved(text)
    };
    is_heading() || text.split_whitespace().all(is_reference) || is_bare_question(text)
}

/// Whether a question has too few words to name its subject: `Why?`, `Do I read this correctly?`
fn is_bare_question(sentence: &str) -> bool {
    const LETTERS_OF_WORD: usize = 7;
    const MAX_WORDS: usize = 3;
    const MAX_REFERRING_WORDS: usize = 6;
    let small = lower(sentence);
    let is_within = |most: usize| {
        small.split_whitespace().nth(most).is_none() && !score::is_larger(&small, most * LETTERS_OF_WORD)
    };
    let refers = || WORDS.refers.iter().any(|word| has_word(&small, word));
    let is_short = is_within(MAX_WORDS) || is_within(MAX_REFERRING_WORDS) && refers();
    let has_name = || {
        let mut words = sentence.split_whitespace().skip(1);
        words.any(|word| word.chars().filter(char::is_ascii_uppercase).count() > 1)
    };
    is_short && requests::is_question(small.trim()) && !has_name()
}

/// The matter of a sentence that lifts a rule.
pub(crate) fn lifting(sentence: &str) -> Statement {
    Statement::from_sentence(rule::lifted_matter(sentence))
}

/// Whether a later sentence lifts an earlier rule: at least two thirds of its words are in the rule.
pub(crate) fn lifts(later: &Statement, earlier: &Statement) -> bool {
    let (all, shared) = later.overlap(earlier);
    shared > 0 && shared * 3 >= all * 2
}
