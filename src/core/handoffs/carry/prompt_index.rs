//! Index of a carry-over prompt by the words of its sentences, and items that it lists as open although they are not.

use std::collections::{HashMap, HashSet};

use crate::handoffs::recall::is_empty_word;
use crate::text::prose::{list_item, one_line, sentences};
use crate::text::stem::stem;
use crate::work::SeenFacts;
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

/// Maximum size of a listed item in bytes.
const LINE: usize = 120;

/// Maximum number of items of a to-do list and of a prompt: each pair is compared.
const MAX_ITEMS: usize = 200;

/// A line for each item that a prompt wrongly lists as open.
pub(super) fn stale_open_items(seen: &SeenFacts, prompt: &str) -> Vec<String> {
    let open = seen
        .todos
        .iter()
        .filter(|todo| todo.state.is_open())
        .take(MAX_ITEMS);
    let open: Vec<PromptIndex> = open.map(|todo| PromptIndex::from_prompt(&todo.text)).collect();
    let ended = seen.todos.iter().rev().filter(|todo| !todo.state.is_open());
    let todos = ended.take(MAX_ITEMS).map(|todo| {
        let how = format!("the to-do list has it as {}", todo.state.name());
        (&*todo.text, how)
    });
    let finished = |turn: usize| format!("it was finished in turn {turn}");
    let requests = seen
        .finished
        .iter()
        .filter(|request| !seen.due_again.contains(&request.turn))
        .map(|request| (&*request.text, finished(request.turn)));
    let ended = todos.chain(requests);
    let ended: Vec<_> = ended
        .map(|(text, how)| (text, PromptIndex::from_prompt(text), how))
        .collect();
    let wrong = listed(prompt).into_iter().take(MAX_ITEMS).filter_map(|item| {
        let own = PromptIndex::from_prompt(item);
        // In both directions: an item that merely contains the words of a finished one is another item.
        let is_it = |text: &str, index: &PromptIndex| own.has(text, false) && index.has(item, false);
        let (_, _, how) = ended.iter().find(|(text, index, _)| is_it(text, index))?;
        // A list may have the same item twice, finished and open.
        let is_open = open.iter().any(|index| index.has(item, false));
        (!is_open).then(|| format!("lists \"{}\" as open; {how}", one_line(item, LINE)))
    });
    wrong.collect()
}

/// The items that a prompt lists as open: with an empty checkbox, below such a heading, or after such a label.
fn listed(prompt: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut is_open = false;
    for line in prompt.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let item = list_item(line);
        let (boxed, text) = unboxed(item.unwrap_or(line));
        match (boxed, item) {
            // A checkbox takes precedence over the heading above it.
            (Some(true), _) => items.push(text),
            (Some(false), _) => {}
            (None, Some(_)) if is_open => items.push(text),
            (None, Some(_)) => items.extend(behind_label(text)),
            (None, None) => {
                items.extend(sentences(line).flat_map(behind_label));
                // Any other line ends the list below a heading.
                is_open = is_heading(line) && says_open(line);
            }
        }
    }
    items
}

/// Whether the checkbox before an item is empty, and the item without it.
fn unboxed(item: &str) -> (Option<bool>, &str) {
    let Some((mark, rest)) = item.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return (None, item);
    };
    let open = match mark.trim().to_lowercase().as_str() {
        "" | "pending" | "in progress" | "in_progress" | "todo" | "open" => Some(true),
        "x" | "done" | "completed" | "cancelled" => Some(false),
        _ => None,
    };
    (open, if open.is_some() { rest.trim() } else { item })
}

/// The items after a label like `Next:` or `Still open:`.
fn behind_label(sentence: &str) -> Vec<&str> {
    let label = sentence.split_once(": ").filter(|(label, _)| says_open(label));
    let items = label
        .into_iter()
        .flat_map(|(_, rest)| rest.split([';', ',']).flat_map(sentences));
    items.map(|item| item.trim_end_matches('.')).collect()
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#') || line.ends_with(':') || line.starts_with("**") && line.ends_with("**")
}

/// Whether a heading or a label announces open work.
fn says_open(label: &str) -> bool {
    /// Maximum number of words in a label.
    const LABEL: usize = 5;
    let small = label.to_lowercase();
    label.split_whitespace().count() <= LABEL
        && WORDS.open.occur_in(&small)
        && !WORDS.not_open.occur_in(&small)
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

#[cfg(test)]
mod open_tests {
    use super::*;

    #[test]
    fn what_is_open_has_an_empty_box_a_heading_or_a_label() {
        let prompt = "# Work\nPort it.\n- [ ] Boxed\n- [x] Ticked\n- plain\n## Next steps\n1. Numbered\n- Bulleted\n\n- [done] Ended\n\
                      ## Done\n- Listed\nNext: port the exporter. It is hard.\nNothing is open: all went well\n- Remaining: the docs, the page\nNext: reader.rs.";
        assert_eq!(
            listed(prompt),
            [
                "Boxed",
                "Numbered",
                "Bulleted",
                "port the exporter",
                "the docs",
                "the page",
                "reader.rs"
            ]
        );
    }
}
