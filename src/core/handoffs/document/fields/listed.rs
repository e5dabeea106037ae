//! Lists under headings of a carry-over prompt, merged with observed statements.

use std::collections::HashSet;

use super::prompt::PromptSection;
use crate::handoffs::draft::one_line;
use crate::handoffs::draft::seen::SeenStatement;

/// Bytes of a sentence or an item.
pub(super) const SENTENCE: usize = 400;

/// Items below headings with one of these words.
pub(super) fn listed(sections: &[PromptSection<'_>], words: &[&str]) -> Vec<String> {
    let about = sections.iter().filter(|section| section.is_about(words));
    let items = about
        .flat_map(PromptSection::items)
        .map(|item| one_line(item, SENTENCE));
    items
        .filter(|item| item.chars().any(char::is_alphanumeric) && !is_none(item))
        .collect()
}

/// Spellings of an empty list.
fn is_none(item: &str) -> bool {
    let word = item.trim_end_matches('.').to_lowercase();
    matches!(
        word.as_str(),
        "none" | "n/a" | "nothing" | "no" | "none known" | "none yet" | "-"
    )
}

/// Observed statements and items of the prompt, each once.
pub(super) fn merged(statements: &[SeenStatement], prompt: Vec<String>) -> Vec<SeenStatement> {
    let prompt = prompt.into_iter().map(statement);
    let mut known = HashSet::new();
    let all = statements.iter().cloned().chain(prompt);
    all.filter(|stated| known.insert(stated.text.to_lowercase()))
        .collect()
}

/// An item of a prompt. Drafts without a model name its turn at its end.
fn statement(item: String) -> SeenStatement {
    let turn = || {
        let (text, turn) = item.strip_suffix(')')?.rsplit_once(" (turn ")?;
        Some((text, turn.parse().ok()?))
    };
    match turn() {
        Some((text, turn)) => SeenStatement {
            text: text.to_owned(),
            turn,
        },
        None => SeenStatement { text: item, turn: 0 },
    }
}
