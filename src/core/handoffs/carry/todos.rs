//! The to-do list of a whole transcript, because the agent keeps it across cuts.

use crate::agents::todo::{self, NumberedTodo, TodoList};
use crate::agents::tools::{self, ToolKind};
use crate::redact::Redactor;
use crate::transcript::{ToolUse, Transcript};

/// Returns the newest to-do list, redacted; empty if there is none.
pub fn todo_list(transcript: &Transcript<'_>, redactor: &Redactor) -> Vec<NumberedTodo> {
    let mut list = TodoList::default();
    for used in transcript.tool_uses() {
        let (name, arguments) = tools::called(used.call.named(), &used.call.given());
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
    let mut todos = list.newest().map_or_else(Vec::new, |(_, todos)| todos);
    for todo in &mut todos {
        todo.item.text = redactor.text(&todo.item.text).into_owned();
    }
    todos
}

/// The text of a result that states no error.
fn succeeded(used: &ToolUse<'_>) -> Option<String> {
    let (_, part) = used.answer?;
    let result = used.result().filter(|result| result.error != Some(true));
    result.and(part.texts().first().map(|text| text.get().into_owned()))
}
