//! The line that holds the place of a hidden pair which stands beside no visible call.

use uuid::Uuid;

/// The aside's line.
pub fn line(id: Uuid) -> String {
    format!("[[handoff-aside:{id}]]")
}
