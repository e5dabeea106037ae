//! Index of a carry-over prompt by the words of its sentences.

use std::collections::{HashMap, HashSet};

use crate::handoffs::recall::is_empty_word;
use crate::text::prose::sentences;
use crate::text::stem::stem;
use crate::work::said::words::WORDS;

/// The sentences of a prompt by their words.
pub(super) struct PromptIndex {
    /// The [`plain`] text of the prompt, with a space at either end.
    plain: String,
    /// For each word, the numbers of the sentences that have it, ascending.
    by_word: HashMap<String, Vec<u32>>,
    /// Whether each sentence negates something.
    denies: Vec<bool>,
}

impl PromptIndex {
    pub(super) fn from_prompt(prompt: &str) -> Self {
        let (mut by_word, mut denies): (HashMap<String, Vec<u32>>, _) = (HashMap::new(), Vec::new());
        for (at, sentence) in sentences(prompt).enumerate() {
            let small = sentence.to_lowercase();
            let n = u32::try_from(at).unwrap_or(u32::MAX);
            for word in weighty(&small) {
                let list = by_word.entry(word).or_default();
                if list.last() != Some(&n) {
                    list.push(n);
                }
            }
            denies.push(WORDS.denies.occur_in(&small));
        }
        Self {
            plain: format!(" {} ", plain(prompt)),
            by_word,
            denies,
        }
    }

    /// Whether the prompt covers `text`: verbatim, or with nearly all words of each sentence in one of its sentences.
    pub(super) fn has(&self, text: &str, forbids: bool) -> bool {
        // The ellipsis marks a shortened text, and is not among the user's words.
        let text = text.trim_end_matches('…');
        let own = plain(text);
        if own.is_empty() || self.plain.contains(&format!(" {own} ")) {
            return true;
        }
        let mut sentences = sentences(text).peekable();
        // Fragments that are too short for a sentence only match verbatim.
        sentences.peek().is_some() && sentences.all(|sentence| self.has_sentence(sentence, forbids))
    }

    fn has_sentence(&self, sentence: &str, forbids: bool) -> bool {
        /// Minimum share of a sentence's words, in tenths.
        const MIN_SHARED_TENTHS: usize = 8;
        let small = sentence.to_lowercase();
        let words: HashSet<String> = weighty(&small).collect();
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for at in words.iter().filter_map(|word| self.by_word.get(word)).flatten() {
            *counts.entry(*at).or_default() += 1;
        }
        // The lists ascend, because sentences are indexed in their order.
        let is_in = |word: &String, at: u32| {
            let places = self.by_word.get(word);
            places.is_some_and(|places| places.binary_search(&at).is_ok())
        };
        // Numbers must all match: `timeout 30` does not cover `timeout 60`, although most words are the same.
        let values = words
            .iter()
            .filter(|word| word.contains(|c: char| c.is_ascii_digit()));
        let has_values = |at: u32| values.clone().all(|word| is_in(word, at));
        let denies = |at: u32| self.denies.get(at as usize).copied().unwrap_or_default();
        !words.is_empty()
            // A prohibition needs a negation: `use tabs` has all words of `do not use tabs`.
            && counts.into_iter().any(|(at, there)| {
                there * 10 >= words.len() * MIN_SHARED_TENTHS && has_values(at) && (!forbids || denies(at))
            })
    }
}

/// Stems of the meaningful words in a lower-case string.
fn weighty(small: &str) -> impl Iterator<Item = String> {
    let words = tokens(small).filter(|word| !is_empty_word(word) && word.len() > 1);
    words.map(stem)
}

/// Letters and digits in lower case, with one space between words, so that equal wordings give equal strings.
pub(super) fn plain(text: &str) -> String {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The words of a string, including the characters that join paths, versions and times.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_inner =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '$' | '\'');
    let words = text.split(move |c: char| !is_inner(c));
    words
        .map(|word| word.trim_matches(['.', '-', ':', '\'']))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_what_it_says_in_other_words_and_not_what_it_merely_names() {
        let has = |prompt: &str, rule: &str| PromptIndex::from_prompt(prompt).has(rule, true);
        let rule = "Never push to main without my review.";
        assert!(has(
            "Goal: x.\n- **Never** push to `main` without my review",
            rule
        ));
        assert!(has("Do not push to main without a review of mine.", rule));
        assert!(!has("Pushed to main after the review.", rule));
        assert!(!has("Never push. The main part is under review.", rule));
        assert!(!has(
            "Keep it under 600 MB, never more.",
            "Keep it under 500 MB, never more."
        ));
    }
}
