//! Handoffs as YAML files, version 1.0 of ntm's format.
//!
//! ntm's parser reads the files written here, and this module reads the files of ntm's writer (Go's yaml.v3).
//! `docs/handoff-files.md` describes the format.
//!
//! [`HandoffFile`] is the document. [`read`] and [`HandoffFile::to_yaml`] convert it. A file with valid YAML can always
//! be read; violations of the format are reported with it.
//!
//! `text_rules` fills a document from an agent's text, and `of_document` from a handoff's document. `session_file`
//! reads an agent's session file. `quality` rates a document, `recover` shortens it for the next session, `line` reads
//! goal and next step for a status line, and `names` has the names of files and directories.

mod drift;
mod fields;
mod last_words;
mod lenient;
mod line;
mod markdown;
mod model;
pub mod names;
mod of_document;
mod parse;
mod quality;
mod session_file;
mod text;
mod text_rules;
pub mod time;
mod value;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use drift::Drift;
pub use last_words::LastWords;
pub use line::{GoalAndNow, RecoveryPurpose, goal_and_now, ledger_entry, ledger_without, recover, value_of};
pub use model::{
    CompletedTask, Dimension, FileChanges, HandoffFile, QualityReport, ReservationSnapshot,
    ReservationTransfer,
};
pub use names::{GENERAL, VERSION};
pub use parse::{InvalidYaml, MAX_BYTES, ParsedFile, read};
pub use quality::score;
pub(crate) use session_file::{SessionMessage, messages, usage};
pub use session_file::{SessionReader, SessionUsage};
pub use text::cut;
pub use text_rules::{analyze, beads};
pub use value::YamlValue;
