//! Documents as files: `handoff.json` and `handoff.md` in a directory for each handoff, and a row in the
//! store.
//!
//! ```text
//! handoff stored ─► queue (bounded; a full one drops) ─► read its transcript ─► document ─► row, superseding ─► files,
//!                                                                                     and a handoff file in YAML
//! ```
//! One task does this after the handoff. The handoff never waits for the task, and no failure of the task
//! affects it. A process killed before the row is written leaves a handoff without a document. One killed
//! later leaves the row, and the next start writes the files that are missing or outdated.
//!
//! Depends on drafts, documents and the store. Must not depend on exchanges or sockets.

mod forget;
mod make;
mod steps;
#[cfg(test)]
mod tests;
mod value;
mod writer;

pub use forget::{FiledHandoff, delete_files, filed, sweep_files};
pub use make::compose;
pub use steps::{
    JSON, MARKDOWN, StatusChange, archive_old, by_handoff, compare_with_repository, document_of, find,
    set_status, write,
};
pub use value::{DocumentError, DocumentSettings, StoredHandoff, TranscriptReader};
pub use writer::DocumentWriter;
