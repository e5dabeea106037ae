//! The agent's to-do list: as a call wrote it whole, or of items that calls updated one by one.

use std::borrow::Cow;
use std::collections::HashMap;

use super::message::{IndexedItem, IndexedMessage, IndexedTodo};
use super::turns::IndexedTurn;
use crate::agents::todo::{TodoItem, TodoState};

/// The newest list, with its turn's number.
pub(crate) fn newest<'i>(
    messages: &'i [IndexedMessage],
    turns: &[IndexedTurn<'_>],
) -> Option<(usize, Cow<'i, [TodoItem]>)> {
    let mut whole = None;
    let mut updated = UpdatedItems::default();
    for turn in turns {
        for item in messages[turn.messages.clone()].iter().flat_map(|m| &m.items) {
            match item {
                IndexedItem::Call(call) if !call.todos.is_empty() => whole = Some((turn.n, &call.todos)),
                IndexedItem::Task(task) => updated.update(turn.n, task),
                _ => {}
            }
        }
    }
    updated.items.retain(|item| item.state != TodoState::Cancelled);
    match whole {
        Some((turn, items)) if turn > updated.turn || updated.items.is_empty() => {
            Some((turn, Cow::Borrowed(items)))
        }
        _ => (!updated.items.is_empty()).then_some((updated.turn, Cow::Owned(updated.items))),
    }
}

/// Items by their numbers, and the last turn that changed one.
#[derive(Default)]
struct UpdatedItems<'i> {
    items: Vec<TodoItem>,
    numbers: HashMap<&'i str, usize>,
    turn: usize,
}

impl<'i> UpdatedItems<'i> {
    fn update(&mut self, turn: usize, task: &'i IndexedTodo) {
        if let Some(text) = &task.text {
            self.numbers.insert(&task.number, self.items.len());
            self.items.push(TodoItem {
                text: text.clone(),
                state: TodoState::Pending,
            });
        }
        // For an item that was made before the transcript begins, only the number is known.
        if let Some(at) = self.numbers.get(&*task.number) {
            let item = &mut self.items[*at];
            item.state = task.state.unwrap_or(item.state);
            self.turn = turn;
        }
    }
}
