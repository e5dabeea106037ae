//! Marker for a hidden pair without a visible sibling call.

use uuid::Uuid;

/// Formats the line of an aside.
pub fn line(id: Uuid) -> String {
    format!("[[handoff-aside:{id}]]")
}
