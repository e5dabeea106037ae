//! The model's closing words: its last question or offer, and whether they report the work as done or name a part that is left.

use super::words::{ASKING, ends_with_any, words_of};
use crate::text::prose::{ends_with_question, lower, sentences};
use crate::work::words::WORDS;

/// The last question in the model's output.
pub(crate) fn last_question(text: &str) -> Option<&str> {
    sentences(text)
        .filter(|sentence| ends_with_question(sentence))
        .last()
}

/// The last offer in the model's output.
pub(crate) fn last_offer(text: &str) -> Option<&str> {
    let offers = |sentence: &&str| ASKING.offers.occur_in(&lower(sentence));
    sentences(text).filter(offers).last()
}

/// Whether a sentence announces the next step.
pub(crate) fn names_next_step(sentence: &str) -> bool {
    let small = sentence.to_lowercase();
    // A sentence that ends with a colon announces the calls after it, which have already run.
    !small.trim_end().ends_with(':') && ASKING.next_step.begin(&small) && !ASKING.no_step.begin(&small)
}

/// Whether a model's last words state that the task is done.
pub(crate) fn claims_done(text: &str) -> bool {
    WORDS.done.occur_in(&text.to_lowercase()) && leaves_nothing(text)
}

/// Whether a model's last words report a change and nothing else: `I've written the page.` After a change of files, they report
/// the work as done.
pub(super) fn claims_change(text: &str) -> bool {
    /// Maximum size of such words in bytes. Longer ones may also name open work, in words that no list has.
    const MAX_REPORT_BYTES: usize = 240;
    let small = lower(text);
    text.len() <= MAX_REPORT_BYTES
        && WORDS.wrote.occur_in(&small)
        && !WORDS.in_part.occur_in(&small)
        && leaves_nothing(text)
}

/// Whether a model's last words name no work that is left.
fn leaves_nothing(text: &str) -> bool {
    let denies = |sentence: &str| WORDS.not_done.occur_in(&sentence.to_lowercase()) && !is_offer(sentence);
    !sentences(text).any(denies) && !names_rest(text)
}

/// Whether a sentence offers help. "Let me know" announces no more work, and neither do "remaining questions".
fn is_offer(sentence: &str) -> bool {
    let small = lower(sentence);
    small.trim_end().ends_with('?') || ASKING.offers.occur_in(&small) || small.starts_with("if ")
}

/// Whether a model's last words name a part of the request that is left.
pub(super) fn names_rest(text: &str) -> bool {
    let leaves = |sentence: &str| {
        let small = lower(sentence);
        let small = small.trim();
        let last = small.trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_left = ASKING.left.occur_in(small)
            || ASKING.left_within.occur_in(small)
            || ASKING.left_first.begin(small)
            || ends_with_any(last, &ASKING.left_last)
            || counts_part(small);
        is_left && !is_offer(sentence) && !ASKING.nothing.occur_in(small)
    };
    sentences(text).any(leaves)
}

/// Whether a lower-case sentence reports a part as done: `fixed two of the three tests`.
fn counts_part(small: &str) -> bool {
    const NUMBERS: [&str; 11] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    let number = |word: &str| {
        let named = NUMBERS.iter().position(|name| *name == word);
        named.or_else(|| word.parse().ok())
    };
    // Most sentences need no list of their words.
    if !small.contains("of") {
        return false;
    }
    let words: Vec<&str> = words_of(small)
        .into_iter()
        .filter(|word| *word != "the")
        .collect();
    let is_part = |of: &[&str]| match (of[1], number(of[0]), number(of[2])) {
        // "One of the two ways" is an idiom.
        ("of", Some(part), Some(whole)) => part > 1 && part < whole,
        _ => false,
    };
    (WORDS.done.occur_in(small) || WORDS.wrote.occur_in(small)) && words.windows(3).any(is_part)
}

/// Whether the last sentences of a model's text report remaining work. Earlier ones may announce steps that followed.
pub(super) fn says_left(text: &str) -> bool {
    const MAX_CLOSING_SENTENCES: usize = 3;
    let all: Vec<&str> = sentences(text).collect();
    let closing = &all[all.len().saturating_sub(MAX_CLOSING_SENTENCES)..];
    closing.iter().any(|sentence| names_rest(sentence)) && !claims_done(text)
}
