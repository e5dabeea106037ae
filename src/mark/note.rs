//! The line of an answer that baton gave by itself: it and what it answers are never in the model's view.

use uuid::Uuid;

/// The note's line. That of an undo has the id of the handoff that is undone.
pub fn line(id: Uuid) -> String {
    format!("[[handoff-note:{id}]]")
}

/// What every answer begins with, at the start of a line: where it is glued to other text, it is known where it begins.
pub const BEGINS: &str = "baton: ";
