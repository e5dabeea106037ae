//! The user's sentences that only repeat earlier words of the model or of a tool.

use std::collections::HashSet;

use super::parts;
use crate::text::Span;
use crate::text::prose::sentences;
use crate::transcript::Transcript;

/// Minimum number of quoted sentences in a message that is a copy, including its short sentences.
const MIN_COPIED: usize = 3;

/// Minimum size in bytes of a sentence that cannot occur twice by chance.
const MIN_QUOTED_BYTES: usize = 40;

/// The typed lines of a message.
pub(crate) struct TypedMessage<'t> {
    /// Index of its turn.
    pub(crate) turn: usize,
    pub(crate) typed: &'t str,
}

/// The quoted sentences of a message.
#[derive(Debug, Default)]
pub(crate) struct QuotedSentences {
    pub(crate) sentences: HashSet<String>,
    /// Whether the message repeats more than it says.
    pub(crate) is_copy: bool,
}

/// Finds the sentences that the user copied from the model or from a result.
///
/// `others` has the words of the model and of tools, by their turns. `is_own` tells sentences that count as the user's
/// although the model said them.
pub(crate) fn quoted(
    transcript: &Transcript<'_>,
    others: &[(usize, Span)],
    messages: &[TypedMessage<'_>],
    is_own: impl Fn(usize, &str) -> bool,
) -> Vec<QuotedSentences> {
    let is_own = &is_own;
    let long = messages.iter().enumerate().flat_map(|(n, message)| {
        let sentences = message.typed.lines().flat_map(sentences);
        let sentences = sentences.filter(move |one| one.len() >= MIN_QUOTED_BYTES && !is_own(n, one));
        sentences.map(move |sentence| (n, message.turn, sentence))
    });
    let long: Vec<(usize, usize, &str)> = long.collect();
    let said: Vec<(usize, &str)> = long
        .iter()
        .map(|(_, turn, sentence)| (*turn, *sentence))
        .collect();
    let before = transcript.said_before(&said, others);
    let mut own = vec![0; messages.len()];
    let mut own_words: HashSet<&str> = HashSet::new();
    let mut found: Vec<QuotedSentences> = messages.iter().map(|_| QuotedSentences::default()).collect();
    for ((n, _, sentence), is_quoted) in long.into_iter().zip(before) {
        // The model may have repeated the user.
        if !is_quoted || own_words.contains(sentence) {
            own[n] += 1;
            own_words.insert(sentence);
            continue;
        }
        // A user who pastes the model's `never do this` states no rule.
        let parts = parts(sentence).into_iter();
        found[n]
            .sentences
            .extend(parts.map(|part| part.trim().to_owned()));
    }
    for (found, own) in found.iter_mut().zip(own) {
        let count = found.sentences.len();
        found.is_copy = count >= MIN_COPIED && count >= own;
    }
    found
}
