//! The agent's to-do list in the messages of an index.

use std::borrow::Cow;

use super::message::{IndexedItem, IndexedMessage};
use super::turns::IndexedTurn;
use crate::agents::todo::{TodoItem, TodoList};

/// The newest list, with the number of its turn.
pub(crate) fn newest<'i>(
    messages: &'i [IndexedMessage],
    turns: &[IndexedTurn<'_>],
) -> Option<(usize, Cow<'i, [TodoItem]>)> {
    let mut list = TodoList::default();
    for turn in turns {
        for item in messages[turn.messages.clone()].iter().flat_map(|m| &m.items) {
            match item {
                IndexedItem::Call(call) => list.write(turn.n, &call.todos),
                IndexedItem::Task(task) => {
                    list.update(turn.n, &task.number, task.text.as_deref(), task.state);
                }
                _ => {}
            }
        }
    }
    let (turn, todos) = list.newest()?;
    let items: Vec<TodoItem> = todos.into_iter().map(|todo| todo.item).collect();
    Some((turn, Cow::Owned(items)))
}
