//! Context windows of models as data: `config/models.json`, which `.ci/models` writes from a public package.

use std::sync::LazyLock;

use serde::Deserialize;

const FILE: &str = include_str!("models.json");

/// Rows of the file. A file that cannot be parsed has none; a test ensures that it can.
static TABLE: LazyLock<ModelTable> = LazyLock::new(|| serde_json::from_str(FILE).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
struct ModelTable {
    windows: Vec<WindowRule>,
    agents: Vec<AgentWindow>,
}

/// Window of a generation of models, and of later generations that no rule before it matches.
#[derive(Debug, Deserialize)]
struct WindowRule {
    /// Beginning of the models' names.
    models: String,
    /// Word that the models' names contain.
    word: Option<String>,
    /// First generation of the models, such as `5` or `4.6`.
    since: Option<String>,
    tokens: u64,
}

/// Window that an agent assumes, smaller than its model's. The agent compacts at that size.
#[derive(Debug, Deserialize)]
struct AgentWindow {
    /// Beginning of the agent's `user-agent`.
    agent: String,
    /// Beginning of the names of its models.
    models: String,
    tokens: u64,
}

/// Number of a generation: `4-6` and `4.6` are (4, 6).
type Generation = (u32, u32);

/// Window of a model by the first rule that matches its name.
///
/// `name` is in lower case and without a gateway's prefix.
pub(super) fn window(name: &str) -> Option<u64> {
    let rule = TABLE.windows.iter().find(|rule| rule.matches(name));
    rule.map(|rule| rule.tokens)
}

/// Window that an agent assumes for a model, by the first row that matches.
pub(super) fn assumed(user_agent: &str, name: &str) -> Option<u64> {
    let row = TABLE
        .agents
        .iter()
        .find(|row| user_agent.starts_with(&row.agent) && name.starts_with(&row.models));
    row.map(|row| row.tokens)
}

impl WindowRule {
    fn matches(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.models.as_str()) else {
            return false;
        };
        let has_word = |word: &String| words(rest).any(|w| w == word);
        // A name without a generation stands for the newest one.
        let reached = |since: &String| generation(rest).is_none_or(|here| Some(here) >= generation(since));
        self.word.as_ref().is_none_or(has_word) && self.since.as_ref().is_none_or(reached)
    }
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['-', '.', '_', '@', ':'])
}

/// Parses the generation of a name: its first number and the one directly after it, as in
/// `opus-4-6-20260101`, `k2.5` or `v4-pro`.
///
/// A date does not count, because it has more digits.
fn generation(name: &str) -> Option<Generation> {
    let mut words = words(name).skip_while(|word| major(word).is_none());
    let major = words.next().and_then(major)?;
    let minor = words.next().and_then(|word| number(word).map(|(minor, _)| minor));
    Some((major, minor.unwrap_or(0)))
}

/// Parses a number after at most one letter, with only letters after it.
fn major(word: &str) -> Option<u32> {
    let digits = word.strip_prefix(|c: char| c.is_ascii_lowercase());
    let digits = digits.unwrap_or(word);
    let (number, rest) = number(digits)?;
    rest.bytes().all(|b| b.is_ascii_lowercase()).then_some(number)
}

/// Splits a leading number of one or two digits from the rest of a word.
fn number(word: &str) -> Option<(u32, &str)> {
    let end = word.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = word.split_at(end);
    let number = (1..=2).contains(&end).then(|| digits.parse().ok())??;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_file_is_read_and_can_be_reached() {
        let table: ModelTable = serde_json::from_str(FILE).unwrap();
        assert!(table.windows.len() > 40 && table.agents.len() > 4);
        for row in &table.windows {
            assert!((8_000..=2_000_000).contains(&row.tokens), "{row:?}");
            assert!(
                row.since.as_ref().is_none_or(|since| generation(since).is_some()),
                "{row:?}"
            );
            // A name made only of the rule's words matches this rule and no earlier one.
            let mut name = format!(
                "{}-{}",
                row.models.trim_end_matches('-'),
                row.since.as_deref().unwrap_or("0")
            );
            name.extend(row.word.iter().flat_map(|word| ["-", word]));
            let first = table.windows.iter().find(|rule| rule.matches(&name)).unwrap();
            assert!(std::ptr::eq(first, row), "{name}: {first:?} before {row:?}");
        }
        for row in &table.agents {
            assert!(window(&row.models).is_none_or(|all| all >= row.tokens), "{row:?}");
        }
        let file: serde_json::Value = serde_json::from_str(FILE).unwrap();
        for key in ["source", "licence", "made_by", "date"] {
            assert!(file[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
        }
    }

    #[test]
    fn a_generation_is_the_first_number_of_a_name() {
        for (name, expected) in [
            ("opus-4-6-20260101", Some((4, 6))),
            ("opus-4-20250514", Some((4, 0))),
            ("3-7-sonnet-latest", Some((3, 7))),
            ("opus-4-6-v1:0", Some((4, 6))),
            ("sonnet-5-v1:0", Some((5, 0))),
            ("4o-mini", Some((4, 0))),
            ("4-0709", Some((4, 0))),
            ("v4-pro", Some((4, 0))),
            ("k2.5", Some((2, 5))),
            ("4.6v", Some((4, 6))),
            ("99-999", Some((99, 0))),
            ("opus-latest", None),
            ("20250514", None),
            ("120b", None),
            ("", None),
            ("-é4-..", None),
        ] {
            assert_eq!(generation(name), expected, "{name}");
        }
    }
}
