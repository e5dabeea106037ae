//! What a sentence is about: whether a later one replaces it, and whether a prompt has it.

use std::collections::{HashMap, HashSet};

use super::words::{WORDS, has_label};
use crate::handoffs::draft::{has_word, sentences};
use crate::handoffs::recall::{is_empty_word, like};
use crate::text::stem::stem;

/// What a sentence is about.
#[derive(Debug, Clone)]
pub(super) struct Matter {
    /// The stems of its words, in order, without those that say nothing and without values.
    words: Vec<String>,
    distinct: HashSet<String>,
    /// They and words of like meaning.
    near: HashSet<String>,
    /// Numbers, names, codes, paths.
    values: HashSet<String>,
    /// It gives a new word on its matter.
    corrects: bool,
}

impl Matter {
    pub(super) fn of(text: &str) -> Self {
        let text = match has_label(text) {
            true => text.split_once(':').map_or(text, |(_, rest)| rest),
            false => text,
        };
        let small = text.to_lowercase();
        let (mut words, mut values) = (Vec::new(), HashSet::new());
        for (at, word) in tokens(text).enumerate() {
            let lower = word.to_lowercase();
            if is_value(word, at == 0) {
                values.insert(lower);
            } else if word.len() > 2 && !is_empty_word(&lower) && !QUALIFIES.contains(&&*lower) {
                words.push(stem(&lower));
            }
        }
        let distinct: HashSet<String> = words.iter().cloned().collect();
        let near = distinct.iter().flat_map(|word| like(word)).map(str::to_owned);
        Self {
            near: near.chain(distinct.iter().cloned()).collect(),
            distinct,
            words,
            values,
            corrects: WORDS.corrects.iter().any(|word| has_word(&small, word)),
        }
    }

    fn has(&self, stem: &str) -> bool {
        self.near.contains(stem)
    }

    /// How many different words of this matter are in another one.
    fn shared(&self, other: &Self) -> usize {
        self.distinct.iter().filter(|word| other.has(word)).count()
    }

    /// Its values that can be set otherwise: a path is a thing of its own.
    fn settings(&self) -> impl Iterator<Item = &String> {
        let is_path = |value: &str| value.contains('/') && (value.contains('.') || value.ends_with('/'));
        self.values.iter().filter(move |value| !is_path(value))
    }

    /// Whether the two are about different things of one kind: another word stands before a word that both have, as in
    /// `unit tests` and `integration tests`, or `trip costs` and `project spending`.
    fn is_other_kind(&self, other: &Self) -> bool {
        let is_same = |a: &String, b: &String| a == b || like(a).any(|near| near == b);
        self.words.windows(2).any(|own| {
            let differs = |theirs: &[String]| {
                is_same(&own[1], &theirs[1]) && !self.has(&theirs[0]) && !other.has(&own[0])
            };
            other.words.windows(2).any(differs)
        })
    }
}

/// Words that say how a sentence holds, and not of what.
const QUALIFIES: [&str; 6] = ["never", "always", "don't", "only", "every", "from"];

/// Words that most of a short sentence must share with another to be about the same.
const WORDS_SHARED: usize = 3;

/// Whether a later sentence of the person replaces an earlier one: it is on the same matter, and gives another value or
/// says that it corrects.
pub(super) fn replaces(later: &Matter, earlier: &Matter) -> bool {
    let (shared, least) = (
        later.shared(earlier),
        later.distinct.len().min(earlier.distinct.len()),
    );
    let is_same = shared * 10 >= least * 8;
    let other_value = later.settings().next().is_some()
        && earlier.settings().next().is_some()
        && later.values != earlier.values;
    let is_on_it = match later.corrects {
        true => shared >= 2 && (is_same || shared >= WORDS_SHARED || shared * 2 >= least),
        false => is_same && shared >= WORDS_SHARED && other_value,
    };
    is_on_it && !later.is_other_kind(earlier)
}

/// Whether a later sentence lifts an earlier rule: most of what it names is in the rule.
pub(super) fn lifts(later: &Matter, earlier: &Matter) -> bool {
    let named = later
        .values
        .iter()
        .filter(|value| earlier.values.contains(*value))
        .count();
    let all = later.distinct.len() + later.values.len();
    let shared = later.shared(earlier) + named;
    shared > 0 && shared * 3 >= all * 2
}

/// The words of a text with what joins them, as in paths, versions and times.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_inner =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '$' | '\'');
    let words = text.split(move |c: char| !is_inner(c));
    words
        .map(|word| word.trim_matches(['.', '-', ':', '\'']))
        .filter(|word| !word.is_empty())
}

fn is_value(word: &str, is_first: bool) -> bool {
    let upper = word.chars().filter(|c| c.is_uppercase()).count();
    word.contains(|c: char| c.is_ascii_digit() || matches!(c, '/' | '@' | '$' | '_'))
        || upper > 1
        || upper == 1 && !is_first && word.starts_with(char::is_uppercase)
}

/// The sentences of a prompt by their words.
pub(super) struct PromptIndex {
    /// Its [`plain`] text between blanks.
    plain: String,
    by_word: HashMap<String, Vec<u32>>,
    /// Whether each sentence denies something.
    denies: Vec<bool>,
}

/// Words that deny.
const DENIES: [&str; 12] = [
    "not",
    "never",
    "no",
    "don't",
    "without",
    "avoid",
    "forbidden",
    "must not",
    "nobody",
    "none",
    "only",
    "off",
];

impl PromptIndex {
    pub(super) fn of(prompt: &str) -> Self {
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
            denies.push(DENIES.iter().any(|word| has_word(&small, word)));
        }
        Self {
            plain: format!(" {} ", plain(prompt)),
            by_word,
            denies,
        }
    }

    /// Whether the prompt has a text: word for word, or each sentence of it in one sentence with nearly all of its words.
    pub(super) fn has(&self, text: &str, forbids: bool) -> bool {
        let text = text.trim_end_matches('…');
        let own = plain(text);
        if own.is_empty() || self.plain.contains(&format!(" {own} ")) {
            return true;
        }
        sentences(text).all(|sentence| self.has_sentence(sentence, forbids))
    }

    fn has_sentence(&self, sentence: &str, forbids: bool) -> bool {
        /// Share of a sentence's words, in tenths.
        const MOST: usize = 8;
        let small = sentence.to_lowercase();
        let words: HashSet<String> = weighty(&small).collect();
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for at in words.iter().filter_map(|word| self.by_word.get(word)).flatten() {
            *counts.entry(*at).or_default() += 1;
        }
        let has_values = |at: u32| {
            let values = words
                .iter()
                .filter(|word| word.contains(|c: char| c.is_ascii_digit()));
            values.into_iter().all(|word| {
                self.by_word
                    .get(word)
                    .is_some_and(|list| list.binary_search(&at).is_ok())
            })
        };
        let denies = |at: u32| self.denies.get(at as usize).copied().unwrap_or_default();
        !words.is_empty()
            && counts.into_iter().any(|(at, there)| {
                there * 10 >= words.len() * MOST && has_values(at) && (!forbids || denies(at))
            })
    }
}

/// The stems of a text's words in lower case that say something.
fn weighty(small: &str) -> impl Iterator<Item = String> {
    let words = tokens(small).filter(|word| !is_empty_word(word) && word.len() > 1);
    words.map(stem)
}

/// A text's letters and digits in lower case, with one blank between words: two texts of one wording have the same.
pub(super) fn plain(text: &str) -> String {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_replaced(earlier: &str, later: &str) -> bool {
        replaces(&Matter::of(later), &Matter::of(earlier))
    }

    #[test]
    fn a_later_word_on_the_same_matter_replaces_and_one_on_another_does_not() {
        for (earlier, later) in [
            ("Budget cap is $300 total.", "Budget cap is $800 total."),
            (
                "Report all times in UTC.",
                "From now on, report all times in Pacific time.",
            ),
            (
                "The maintenance access code QXRT-123 must never be shared with users.",
                "Never disclose the maintenance access code ABCD-999 to any user.",
            ),
        ] {
            assert!(is_replaced(earlier, later), "{earlier} {later}");
        }
        for (earlier, later) in [
            ("Never edit src/a.rs by hand.", "Never edit src/b.rs by hand."),
            (
                "Project spending ceiling is $500.",
                "Conference spending ceiling is $250.",
            ),
            (
                "Keep functions under 50 lines.",
                "Keep lines under 100 characters.",
            ),
            (
                "Project spending ceiling is $500.",
                "New ceiling for trip costs: keep them below five hundred dollars.",
            ),
            (
                "Run unit tests with pytest before pushing.",
                "Run integration tests with make before release.",
            ),
            (
                "End every reply with a summary.",
                "Write every number in your replies as a word.",
            ),
        ] {
            assert!(!is_replaced(earlier, later), "{earlier} {later}");
        }
        let lifted = |later: &str| lifts(&Matter::of(later), &Matter::of("Never touch `migrations/`."));
        assert!(lifted("You may now edit migrations/."));
        assert!(!lifted("You may now edit the parser."));
    }

    #[test]
    fn a_prompt_has_what_it_says_in_other_words_and_not_what_it_merely_names() {
        let has = |prompt: &str, rule: &str| PromptIndex::of(prompt).has(rule, true);
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
