//! Finds items that a carry-over prompt lists as open, although they were finished or dropped.

use super::prompt_index::PromptIndex;
use crate::text::prose::one_line;
use crate::text::prose::{list_item, sentences};
use crate::work::SeenFacts;
use crate::work::said::words::WORDS;

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
