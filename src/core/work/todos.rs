//! The agent's to-do list, in the messages of an index and in a transcript.

use std::borrow::Cow;

use super::message::{IndexedItem, IndexedMessage};
use super::turns::IndexedTurn;
use crate::agents::todo::{self, NumberedTodo, TodoItem, TodoList};
use crate::agents::tools::{self, ToolKind};
use crate::transcript::{ToolUse, Transcript};

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

/// The newest list that the calls of a transcript wrote from this turn on; empty if there is none.
pub fn todo_list(transcript: &Transcript<'_>, from: usize) -> Vec<NumberedTodo> {
    let mut list = TodoList::default();
    let uses = transcript.tool_uses().into_iter();
    for used in uses.filter(|used| used.turn >= from) {
        let name = used.call.named();
        // Most calls are of other tools, whose arguments may be long, so the name is checked first.
        if ToolKind::from_call(&name, &serde_json::Value::Null) != ToolKind::Todo
            && !tools::calls_through(&name)
        {
            continue;
        }
        let (name, arguments) = tools::called(name, &used.call.given());
        if ToolKind::from_call(&name, &arguments) != ToolKind::Todo {
            continue;
        }
        list.write(used.turn, &todo::list(&arguments));
        if let Some(result) = succeeded(&used)
            && let Some((number, text)) = todo::single_item(&result)
        {
            list.update(used.turn, number, text, todo::state_of_one(&arguments));
        }
    }
    list.newest().map_or_else(Vec::new, |(_, todos)| todos)
}

/// The text of a result that states no error.
fn succeeded(used: &ToolUse<'_>) -> Option<String> {
    let (_, part) = used.answer?;
    let result = used.result().filter(|result| result.error != Some(true));
    result.and(part.texts().first().map(|text| text.get().into_owned()))
}
