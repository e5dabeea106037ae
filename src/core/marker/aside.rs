//! The line that marks the place of a hidden pair without a visible sibling call.

use uuid::Uuid;

/// The aside's line.
pub fn line(id: Uuid) -> String {
    format!("[[handoff-aside:{id}]]")
}
