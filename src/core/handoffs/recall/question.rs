//! A question: its words and their synonyms.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::text::stem::stem;
use crate::text::vocabulary::{Vocabulary, WordNumber};
use crate::text::words::{self, WordKind};

/// Number of excerpts in an answer: the maximum, and the default if the model gives none.
const MAX_EXCERPTS: usize = 8;
const DEFAULT_EXCERPTS: usize = 5;

/// Maximum size of a question in bytes; a longer one is refused.
const LONGEST: usize = 2000;

/// Maximum number of a question's words that are searched. At most 64, because the words that a passage has are bits of
/// a `u64`.
const MOST_WORDS: usize = 48;

/// Weights of matches with a word of the question.
///
/// In order: the word itself, another form, a synonym, a part of an identifier, two words joined.
const ITSELF: f32 = 1.0;
const FORM: f32 = 0.9;
const MEANING: f32 = 0.6;
const PART: f32 = 0.5;
const JOINED: f32 = 0.7;

/// Words without weight (stop words).
static EMPTY: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("empty_words.txt").split_whitespace().collect());

/// Whether a word in lower case is a stop word.
pub(in crate::handoffs) fn is_empty_word(word: &str) -> bool {
    EMPTY.contains(word)
}

/// The model's question to recall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The model's words.
    pub query: String,
    /// Maximum number of excerpts, 1 to 8.
    pub limit: usize,
}

impl Question {
    /// Reply to the model if a call has no valid question.
    pub const REFUSED: &'static str = "Not searched: the arguments were not a JSON object with a string `query` of 1 to 2,000 bytes. \
        Call session_recall again with the words to look for.";

    /// Reads the arguments of a call; `None` if they are not a JSON object with a valid `query`.
    pub fn read(arguments: &str) -> Option<Self> {
        let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
        let query = arguments.get("query")?.as_str()?.trim();
        if !(1..=LONGEST).contains(&query.len()) {
            return None;
        }
        let limit = match arguments.get("limit") {
            // Models sometimes write numbers as strings.
            Some(serde_json::Value::String(text)) => text.trim().parse().ok(),
            Some(number) => number.as_f64().filter(|n| n.is_finite()).map(|n| n as i64),
            None => None,
        };
        let limit = limit.map_or(DEFAULT_EXCERPTS, |n| {
            usize::try_from(n.clamp(1, MAX_EXCERPTS as i64)).unwrap_or(DEFAULT_EXCERPTS)
        });
        Some(Self {
            query: query.to_owned(),
            limit,
        })
    }

    /// Words of the question in lower case, each once, with their weights.
    ///
    /// This includes identifiers, parts of identifiers, and neighboring words joined: `log in` may be written `login`.
    pub(super) fn words(&self) -> Vec<(String, f32)> {
        let mut all: Vec<(String, f32)> = Vec::new();
        let mut before: Option<String> = None;
        let mut joined = Vec::new();
        words::each(&self.query, &mut |kind, word| {
            let counts = match kind {
                WordKind::Whole | WordKind::Path => ITSELF,
                WordKind::Part => PART,
            };
            let word = word.to_lowercase();
            // Only whole words are joined; parts of identifiers are neighbors by accident.
            if kind == WordKind::Whole {
                joined.extend(before.replace(word.clone()).map(|before| before + &word));
            }
            if all.len() < MOST_WORDS && all.iter().all(|(known, _)| *known != word) {
                all.push((word, counts));
            }
        });
        let has_weight = |(word, _): &(String, f32)| !EMPTY.contains(word.as_str());
        // In a question of nothing but stop words, they count.
        if all.iter().any(has_weight) {
            all.retain(has_weight);
        }
        joined.retain(|word| all.iter().all(|(known, _)| known != word));
        all.extend(joined.into_iter().map(|word| (word, JOINED)));
        all.truncate(MOST_WORDS);
        all
    }

    /// The number of the call that the question locates, as drafts do: `turn 2, call 31`.
    pub(super) fn call(&self) -> Option<usize> {
        let small = self.query.to_lowercase();
        let words: Vec<&str> = small
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        number("turn").and_then(|_: usize| number("call"))
    }

    /// For each word of the question, the words of a vocabulary that match it, with their weights.
    pub(super) fn groups(&self, vocabulary: &Vocabulary) -> Vec<Vec<(WordNumber, f32)>> {
        let words = self.words();
        let stems: Vec<String> = words.iter().map(|(word, _)| stem(word)).collect();
        let mut wanted: Vec<(usize, &str, f32)> = Vec::new();
        for (at, stem) in stems.iter().enumerate() {
            wanted.push((at, stem, FORM));
            wanted.extend(words_like(stem).map(|like| (at, like, MEANING)));
        }
        let mut looked_up: Vec<&str> = wanted.iter().map(|(_, stem, _)| *stem).collect();
        looked_up.sort_unstable();
        looked_up.dedup();
        let found = vocabulary.of_stems(&looked_up);
        let own = |(word, counts): &(String, f32)| vocabulary.find(word).map(|word| (word, *counts));
        let mut groups: Vec<Vec<(WordNumber, f32)>> =
            words.iter().map(|word| own(word).into_iter().collect()).collect();
        for (at, stem, counts) in wanted {
            let Ok(of_stem) = looked_up.binary_search(&stem) else {
                continue;
            };
            for word in &found[of_stem] {
                // The word itself comes first with its full weight, and must not count again as a form or synonym.
                if groups[at].iter().all(|(known, _)| known != word) {
                    groups[at].push((*word, counts * words[at].1));
                }
            }
        }
        groups
    }
}

/// Rows of words that different users choose for the same thing.
///
/// The words are general or belong to programming; none belongs to a single project.
const ALIKE: &str = include_str!("meanings.txt");

/// Stems of words that mean much the same as the word with this stem.
fn words_like(of: &str) -> impl Iterator<Item = &'static str> {
    static ROWS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
        let mut rows: HashMap<String, Vec<String>> = HashMap::new();
        for row in ALIKE.lines() {
            let stems: Vec<String> = row.split_whitespace().map(stem).collect();
            for stem in &stems {
                let others = rows.entry(stem.clone()).or_default();
                others.extend(stems.iter().filter(|other| *other != stem).cloned());
            }
        }
        rows.values_mut().for_each(|others| {
            // Sorted, so that the same question always gives the same order.
            others.sort();
            others.dedup();
        });
        rows
    });
    ROWS.get(of).into_iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_models_write_them() {
        let limit = |text: &str| Question::read(text).map(|question| question.limit);
        assert_eq!(limit(r#"{"query":"port"}"#), Some(5));
        assert_eq!(limit(r#"{"query":"port","limit":"3"}"#), Some(3));
        assert_eq!(limit(r#"{"query":"port","limit":2.0}"#), Some(2));
        assert_eq!(limit(r#"{"query":"port","limit":900}"#), Some(8));
        assert_eq!(limit(r#"{"query":"port","limit":-1}"#), Some(1));
        for bad in ["", "{", "[]", "{}", r#"{"query":7}"#, r#"{"query":" "}"#] {
            assert_eq!(limit(bad), None, "{bad}");
        }
        assert_eq!(limit(&format!(r#"{{"query":"{}"}}"#, "x".repeat(2001))), None);
    }

    #[test]
    fn empty_words_are_left_out_unless_there_are_no_others() {
        let words = |query: &str| -> Vec<String> {
            let question = Question::read(&format!(r#"{{"query":"{query}"}}"#)).unwrap();
            question.words().into_iter().map(|(word, _)| word).collect()
        };
        assert_eq!(
            words("What was the PORT"),
            ["port", "whatwas", "wasthe", "theport"]
        );
        assert_eq!(words("who did"), ["who", "did", "whodid"]);
    }
}

#[cfg(test)]
mod meanings_tests {
    use super::*;

    #[test]
    fn meanings_are_found_by_any_form_of_a_word() {
        let all: Vec<_> = words_like(&stem("expires")).collect();
        assert!(all.contains(&stem("timeout").as_str()), "{all:?}");
        assert_eq!(words_like("xyzzy").count(), 0);
    }
}
