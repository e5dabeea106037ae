//! Handoffs as YAML files on disk: `DIR/SESSION/NAME.yaml`.
//!
//! `baton_core::handoffs::yaml` parses and renders their content. This module handles directories, locks and times,
//! and queries git and beads. Users and agents read the files; no exchange depends on them.

mod directory;
mod error;
pub mod gather;
mod manage;
mod newest;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use directory::HandoffDirectory;
pub use error::{FileError, FileResult};
pub use read::{FileSearch, FileSummary, HandoffYaml, read_file};
pub use write::{FileNaming, WrittenFile, write_text, write_to};

use baton_core::handoffs::yaml::time::Time;

/// Returns the current time.
pub fn now() -> Time {
    newest::time_of(std::time::SystemTime::now())
}
