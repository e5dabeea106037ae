//! The agent's to-do list, in the messages of an index and in a transcript.

use serde_json::Value;

use super::message::{IndexedItem, IndexedMessage};
use super::turns::IndexedTurn;
use crate::agents::todo::{self, NumberedTodo, TodoItem, TodoList, TodoState};
use crate::agents::tools::{self, ToolKind};
use crate::transcript::ToolUse;

/// The newest list, with the number of its turn.
pub(crate) fn newest(
    messages: &[IndexedMessage],
    turns: &[IndexedTurn<'_>],
) -> Option<(usize, Vec<TodoItem>)> {
    let mut list = TodoList::default();
    for turn in turns {
        for item in messages[turn.messages.clone()].iter().flat_map(|m| &m.items) {
            match item {
                IndexedItem::Call(call) => list.write(turn.n, &call.todos),
                IndexedItem::TaskList(shown) => list.show(turn.n, shown),
                IndexedItem::Task(task) => {
                    list.update(turn.n, &task.number, task.text.as_deref(), task.state);
                }
                _ => {}
            }
        }
    }
    let (turn, todos) = list.newest()?;
    Some((turn, todos.into_iter().map(|todo| todo.item).collect()))
}

/// The newest list that the calls of a transcript wrote from this turn on; empty if there is none.
pub fn todo_list(uses: &[ToolUse<'_>], from: usize) -> Vec<NumberedTodo> {
    let mut list = TodoList::default();
    for (used, arguments) in todo_uses(uses, from) {
        apply(&mut list, used, &arguments);
    }
    list.newest().map_or_else(Vec::new, |(_, todos)| todos)
}

/// Whether a call from the turn `newest` on finishes an item of the list that the calls since `from` wrote.
pub fn finishes_item(uses: &[ToolUse<'_>], from: usize, newest: usize) -> bool {
    let is_done = |state: TodoState| state == TodoState::Done;
    let count = |list: TodoList| {
        let todos = list.newest().map_or_else(Vec::new, |(_, todos)| todos);
        todos.iter().filter(|todo| is_done(todo.item.state)).count()
    };
    let (mut list, mut before) = (TodoList::default(), None);
    for (used, arguments) in todo_uses(uses, from) {
        if used.turn >= newest {
            before.get_or_insert_with(|| count(list.clone()));
            // The item may be of a list that was cut.
            if todo::state_of_one(&arguments).is_some_and(is_done) {
                return true;
            }
        }
        apply(&mut list, used, &arguments);
    }
    before.is_some_and(|before| count(list) > before)
}

/// The calls of a to-do tool from this turn on, with their arguments.
fn todo_uses<'u, 'a>(uses: &'u [ToolUse<'a>], from: usize) -> impl Iterator<Item = (&'u ToolUse<'a>, Value)> {
    let is_todo = |name: &str, arguments: &Value| ToolKind::from_call(name, arguments) == ToolKind::Todo;
    let uses = uses.iter().filter(move |used| used.turn >= from);
    uses.filter_map(move |used| {
        let name = used.call.named();
        // Most calls are of other tools, whose arguments may be long, so the name is checked first.
        if !is_todo(&name, &Value::Null) && !tools::calls_through(&name) {
            return None;
        }
        let (name, arguments) = tools::called(name, &used.call.given());
        is_todo(&name, &arguments).then_some((used, arguments))
    })
}

fn apply(list: &mut TodoList, used: &ToolUse<'_>, arguments: &Value) {
    list.write(used.turn, &todo::list(arguments));
    let Some(result) = succeeded(used) else { return };
    list.show(used.turn, &todo::shown_list(&result));
    if let Some((number, text)) = todo::single_item(&result) {
        list.update(used.turn, number, text, todo::state_of_one(arguments));
    }
}

/// The text of a result that states no error.
fn succeeded(used: &ToolUse<'_>) -> Option<String> {
    let (_, part) = used.answer?;
    let result = used.result().filter(|result| result.error != Some(true));
    result.and(part.texts().first().map(|text| text.get().into_owned()))
}
