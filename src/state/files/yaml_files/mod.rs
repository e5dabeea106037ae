//! Handoffs as YAML files on disk: `DIR/SESSION/NAME.yaml`. `baton_core::handoffs::yaml` parses and writes their
//! content; this module has the folders, the lock, the clock, and the queried tools: git, beads.
//!
//! Everything here is for people and agents; no exchange depends on it.

mod error;
mod folder;
pub mod gather;
mod manage;
mod newest;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use error::FileError;
pub use folder::HandoffFolder;
pub use read::{FileSearch, FileSummary, HandoffYaml, read_file};
pub use write::{FileNaming, WrittenFile, write_text, write_to};

use baton_core::handoffs::yaml::time::Time;

/// The time now.
pub fn now() -> Time {
    use std::time::{SystemTime, UNIX_EPOCH};
    // A clock before 1970 makes everything new.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}
