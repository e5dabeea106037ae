//! To-do lists of agents, as passed to their tools.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

named! {
    /// State of an item.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum TodoState {
        /// Finished.
        Done = "done",
        /// Under way.
        #[serde(rename = "in progress")]
        Active = "in progress",
        /// Not begun.
        Pending = "pending",
        /// Given up.
        Cancelled = "cancelled",
    }
}

impl TodoState {
    /// Whether the item is unfinished.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Active | Self::Pending)
    }

    fn of_status(name: &str) -> Self {
        match name {
            "completed" | "complete" | "done" | "finished" => Self::Done,
            "in_progress" | "in-progress" | "active" | "doing" => Self::Active,
            "cancelled" | "canceled" | "deleted" | "skipped" => Self::Cancelled,
            // An unknown status counts as open, so that the item stays visible.
            _ => Self::Pending,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// Description of the work.
    pub text: String,
    pub state: TodoState,
}

/// To-do item with its number in the agent's tools, if they number items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedTodo {
    pub number: Option<String>,
    pub item: TodoItem,
}

impl NumberedTodo {
    /// Text that names the item for the model.
    pub fn text(&self) -> String {
        match &self.number {
            Some(number) => format!("#{number} {}", self.item.text),
            None => self.item.text.clone(),
        }
    }
}

/// To-do list as the calls of a transcript wrote it, as a whole or item by item.
#[derive(Debug, Clone, Default)]
pub struct TodoList {
    whole: Option<(usize, Vec<TodoItem>)>,
    items: Vec<NumberedTodo>,
    positions: HashMap<String, usize>,
    /// Turn of the last change of one item.
    changed: usize,
}

impl TodoList {
    /// Adds a call that writes the whole list. An empty list is ignored.
    pub fn write(&mut self, turn: usize, items: &[TodoItem]) {
        if !items.is_empty() {
            self.whole = Some((turn, items.to_vec()));
        }
    }

    /// Adds a call that creates or changes one item.
    ///
    /// `text` is the text of a new item, and `None` for a change.
    pub fn update(&mut self, turn: usize, number: &str, text: Option<&str>, state: Option<TodoState>) {
        if let Some(text) = text {
            self.positions.insert(number.to_owned(), self.items.len());
            self.items.push(NumberedTodo {
                number: Some(number.to_owned()),
                item: TodoItem {
                    text: text.to_owned(),
                    state: TodoState::Pending,
                },
            });
        }
        // An item created before the transcript begins is known only by its number, so it is left out.
        if let Some(at) = self.positions.get(number) {
            let item = &mut self.items[*at].item;
            item.state = state.unwrap_or(item.state);
            self.changed = turn;
        }
    }

    /// Adds a call that shows the whole list. The text of a known item stays, because the tool adds its owner.
    pub fn show(&mut self, turn: usize, shown: &[NumberedTodo]) {
        let with_text = |shown: &NumberedTodo| {
            let number = shown.number.as_ref();
            let known = number.and_then(|number| self.positions.get(number));
            let text = known.map_or(&shown.item.text, |at| &self.items[*at].item.text);
            let item = TodoItem {
                text: text.clone(),
                ..shown.item.clone()
            };
            NumberedTodo {
                item,
                ..shown.clone()
            }
        };
        let shown: Vec<NumberedTodo> = shown.iter().map(with_text).collect();
        if !shown.is_empty() && shown != self.items {
            let numbers = shown.iter().map(|todo| todo.number.clone().unwrap_or_default());
            self.positions = numbers.zip(0..).collect();
            self.items = shown;
            self.changed = turn;
        }
    }

    /// Returns the list that was changed last, with the turn of that change.
    ///
    /// Cancelled items of a list that was written item by item are omitted.
    pub fn newest(mut self) -> Option<(usize, Vec<NumberedTodo>)> {
        self.items.retain(|todo| todo.item.state != TodoState::Cancelled);
        match self.whole {
            // An agent may change from one kind of tool to the other, and only the newer list is kept up to
            // date.
            Some((turn, items)) if turn > self.changed || self.items.is_empty() => {
                let items = items.into_iter();
                let unnumbered = items.map(|item| NumberedTodo { number: None, item });
                Some((turn, unnumbered.collect()))
            }
            _ => (!self.items.is_empty()).then_some((self.changed, self.items)),
        }
    }
}

/// Arguments that hold the list.
const LISTS: [&str; 5] = ["todos", "plan", "todoList", "items", "tasks"];
/// Members of an item that describe it.
const TEXTS: [&str; 6] = ["content", "step", "description", "title", "subject", "text"];
/// Members of an item that hold its state.
const STATES: [&str; 2] = ["status", "state"];
/// Arguments that hold the list as Markdown.
const MARKDOWN: [&str; 3] = ["content", "todos", "task_progress"];

/// New state of the one item that a call changes by its number (Claude Code's `TaskUpdate`).
pub fn state_of_one(arguments: &Value) -> Option<TodoState> {
    arguments.get("taskId")?;
    let state = STATES.iter().find_map(|key| arguments.get(key)?.as_str());
    state.map(TodoState::of_status)
}

/// Reads the number of the item that a call created or changed, and the text of a new item.
///
/// These are results of Claude Code's `TaskCreate` and `TaskUpdate`.
pub fn single_item(result: &str) -> Option<(&str, Option<&str>)> {
    let line = result.lines().next()?.trim_end();
    let (rest, is_new) = match line.strip_prefix("Task #") {
        Some(rest) => (rest, true),
        None => (line.strip_prefix("Updated task #")?, false),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    match is_new {
        _ if number.is_empty() => None,
        true => Some((number, Some(rest.strip_prefix(" created successfully: ")?.trim()))),
        false => Some((number, None)),
    }
}

/// Reads the list that Claude Code's `TaskList` shows. A line is `#2 [in_progress] Mend it [blocked by #1]`.
pub fn shown_list(result: &str) -> Vec<NumberedTodo> {
    let item = |line: &str| {
        let (number, rest) = line.strip_prefix('#')?.split_once(" [")?;
        let (status, text) = rest.split_once("] ")?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let text = text.split(" [blocked by #").next().unwrap_or_default();
        is_number.then(|| NumberedTodo {
            number: Some(number.to_owned()),
            item: TodoItem {
                text: text.trim().to_owned(),
                state: TodoState::of_status(status),
            },
        })
    };
    result.lines().map_while(item).collect()
}

/// Reads the list in a to-do tool's arguments; empty if there is none.
pub fn list(arguments: &Value) -> Vec<TodoItem> {
    let listed = LISTS.iter().find_map(|key| arguments.get(key)?.as_array());
    if let Some(items) = listed {
        return items.iter().filter_map(item).collect();
    }
    let text = MARKDOWN.iter().find_map(|key| arguments.get(key)?.as_str());
    text.map_or(Vec::new(), |text| text.lines().filter_map(line).collect())
}

fn item(item: &Value) -> Option<TodoItem> {
    let member = |keys: &[&str]| keys.iter().find_map(|key| item.get(key)?.as_str());
    Some(TodoItem {
        text: member(&TEXTS).or_else(|| item.as_str())?.trim().to_owned(),
        state: TodoState::of_status(member(&STATES).unwrap_or_default()),
    })
}

/// Parses `- [x] text`.
fn line(line: &str) -> Option<TodoItem> {
    let rest = line.trim().trim_start_matches(['-', '*']).trim_start();
    let (mark, text) = rest.strip_prefix('[')?.split_once(']')?;
    let state = match mark {
        "x" | "X" => TodoState::Done,
        "-" | "~" | "/" | ">" => TodoState::Active,
        " " | "" => TodoState::Pending,
        _ => return None,
    };
    Some(TodoItem {
        text: text.trim().to_owned(),
        state,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_all_agents_are_read() {
        let claude = json!({"todos": [{"content": "a", "status": "completed", "activeForm": "A"},
            {"content": "b", "status": "in_progress", "activeForm": "B"}, {"content": "c", "status": "pending"}]});
        let codex = json!({"explanation": "x", "plan": [{"step": "a", "status": "completed"},
            {"step": "b", "status": "in_progress"}, {"step": "c", "status": "pending"}]});
        let gemini = json!({"todos": [{"description": "a", "status": "completed"},
            {"description": "b", "status": "in_progress"}, {"description": "c", "status": "pending"}]});
        let goose = json!({"content": "# Plan\n- [x] a\n- [-] b\n- [ ] c\n"});
        for arguments in [claude, codex, gemini, goose] {
            let read: Vec<_> = list(&arguments)
                .into_iter()
                .map(|todo| (todo.text, todo.state.name()))
                .collect();
            let expected = [("a", "done"), ("b", "in progress"), ("c", "pending")];
            assert_eq!(
                read,
                expected.map(|(text, state)| (text.to_owned(), state)),
                "{arguments}"
            );
        }
        assert!(list(&json!({"merge": true})).is_empty());
    }

    #[test]
    fn a_shown_list_takes_the_place_of_the_known_one() {
        let mut list = TodoList::default();
        list.update(1, "1", Some("Mend the reader"), None);
        list.update(1, "2", Some("Mend the page"), None);
        let shown = "#2 [in_progress] Mend the page (ada)\n#3 [pending] Paint (it) [blocked by #2]\n\n<system-reminder>";
        list.show(2, &shown_list(shown));
        list.update(3, "3", None, Some(TodoState::Done));
        // Shown again as it is.
        list.show(
            4,
            &shown_list("#2 [in_progress] Mend the page (ada)\n#3 [completed] Paint (it)"),
        );
        let (turn, items) = list.newest().unwrap();
        let items: Vec<(String, &str)> = items
            .iter()
            .map(|todo| (todo.text(), todo.item.state.name()))
            .collect();
        let expected = [("#2 Mend the page", "in progress"), ("#3 Paint (it)", "done")];
        assert_eq!(
            (turn, items),
            (3, expected.map(|(text, state)| (text.to_owned(), state)).to_vec())
        );
        for other in ["No tasks found", "", "#a [pending] x", "# [pending] x"] {
            assert!(shown_list(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn single_items_are_read_from_results() {
        let new = "Task #12 created successfully: Mend: it\n\n<system-reminder>";
        assert_eq!(single_item(new), Some(("12", Some("Mend: it"))));
        assert_eq!(single_item("Updated task #3 status\n"), Some(("3", None)));
        assert_eq!(single_item("Updated task #3 "), Some(("3", None)));
        for other in [
            "",
            "Task #x",
            "Task #4 not found",
            "Task not found",
            "todos updated",
        ] {
            assert_eq!(single_item(other), None, "{other}");
        }
    }
}
