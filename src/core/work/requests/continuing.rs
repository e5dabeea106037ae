//! Messages that tell the model to continue, and the work that they name.

use super::words::{ASKING, after_reply, is_choice, words_of};
use crate::text::prose::lower;

/// Whether a message tells the model to continue the request before it, perhaps with a restriction: `Continue, but skip
/// the docs.` One that names other work is a request: `Go on with the lexer.` A message that is only an address belongs to the
/// request before it as well.
pub(crate) fn continues(text: &str) -> bool {
    /// Maximum size of such a message in bytes. A longer one makes a request of its own.
    const MAX_CONTINUING_BYTES: usize = 120;
    let small = lower(text);
    let mut words = small.split_whitespace().peekable();
    if words.peek().is_some() && words.all(|word| word.contains("://")) {
        return true;
    }
    small.trim().len() <= MAX_CONTINUING_BYTES && matches!(continuation(&small), Some(Continuation::Same))
}

/// Subject of a message that begins with `continue`.
pub(super) enum Continuation {
    /// The previous work: `continue with the next step`.
    Same,
    /// Other work: `continue with the lexer`.
    Other,
}

/// The subject of a lower-case message that begins with `continue`, perhaps after a reply or words of politeness.
pub(super) fn continuation(small: &str) -> Option<Continuation> {
    let ends = |after: &&str| !after.starts_with(|c: char| c.is_ascii_alphanumeric());
    let mut rest = small.trim();
    loop {
        if ASKING.once_more.rests(rest).any(|after| ends(&after)) {
            return Some(Continuation::Same);
        }
        if let Some(after) = ASKING.go_on.rests(rest).find(ends) {
            return Some(if names_work(after) {
                Continuation::Other
            } else {
                Continuation::Same
            });
        }
        let polite = ASKING.politely.rests(rest).find(ends);
        let after = polite.or_else(|| Some(after_reply(rest)?.1))?;
        rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
    }
}

/// Whether the words after `continue` name other work: `with the lexer, but without strings`.
fn names_work(after: &str) -> bool {
    let clause = after
        .split([',', '.', ';', '!', '?', '\n', '，', '、', '。', '！'])
        .next();
    let clause = clause.unwrap_or_default().trim();
    let is_outside = |rest: &&str| rest.starts_with(|c: char| !c.is_alphanumeric());
    if let Some(thing) = ASKING.go_on_with.rests(clause).find(is_outside) {
        let is_named = |word: &&str| ASKING.named_before.contains(word) || is_choice(word);
        return !words_of(thing).iter().all(is_named);
    }
    // Chinese names it right after these words, and Japanese and Korean mark it.
    let is_han = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    let is_marked = |word: &str| word.ends_with(['을', '를']);
    let thing = match clause.split_once('を') {
        Some((thing, _)) => thing,
        None => match clause.split(' ').find(|word| is_marked(word)) {
            Some(word) => word,
            None if clause.starts_with(is_han) => clause,
            None => return false,
        },
    };
    let known = ASKING.named_within.iter();
    known
        .fold(thing.to_owned(), |left, word| left.replace(word, ""))
        .contains(char::is_alphanumeric)
}
