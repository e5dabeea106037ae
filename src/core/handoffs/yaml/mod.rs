//! Handoffs as YAML files, version 1.0 of ntm's format: ntm's parser reads what is written here, and the files of its
//! writer (Go's yaml.v3) are read. `docs/handoff-files.md` describes the format.
//!
//! [`HandoffFile`] is the document. [`read`] and [`HandoffFile::to_yaml`] convert it; a file whose YAML is sound is
//! always read, and whatever breaks a rule of the format is reported with it. `text_rules` fills a document from an
//! agent's text, `of_document` from a handoff's document; `session_file` reads an agent's own session file. `quality` rates it, `recover` shortens it for the
//! next session. `line` reads the two values of a status line, `names` has the names of files and directories.

mod beads;
mod drift;
mod emit;
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
mod recover;
mod session_file;
mod session_usage;
mod text;
mod text_rules;
pub mod time;
mod validate;
mod value;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use beads::beads;
pub use drift::Drift;
pub use last_words::LastWords;
pub use line::{GoalAndNow, goal_and_now, ledger_entry, value_of};
pub use model::{
    CompletedTask, Dimension, FileChanges, HandoffFile, QualityReport, ReservationSnapshot,
    ReservationTransfer,
};
pub use names::{GENERAL, VERSION};
pub use parse::{InvalidYaml, MAX_BYTES, ParsedFile, read};
pub use quality::score;
pub use recover::{RecoveryPurpose, recover};
pub use session_file::SessionReader;
pub(crate) use session_file::{SessionMessage, messages, usage};
pub use session_usage::SessionUsage;
pub use text::cut;
pub use text_rules::analyze;
pub use value::YamlValue;
