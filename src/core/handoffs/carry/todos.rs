//! The to-do list of a whole transcript, because the agent keeps it across cuts.

use crate::agents::todo::NumberedTodo;
use crate::redact::Redactor;
use crate::transcript::Transcript;
use crate::work;

/// Returns the newest to-do list, redacted; empty if there is none.
pub fn todo_list(transcript: &Transcript<'_>, redactor: &Redactor) -> Vec<NumberedTodo> {
    let mut todos = work::todo_list(transcript, 0);
    for todo in &mut todos {
        todo.item.text = redactor.text(&todo.item.text).into_owned();
    }
    todos
}
