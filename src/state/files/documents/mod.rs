//! Documents as files: `handoff.json` and `handoff.md` in a directory for each handoff, and a row in the store.
//!
//! ```text
//! handoff stored ─► queue (bounded; a full one drops) ─► read its transcript ─► document ─► row, superseding ─► files,
//!                                                                                     and a handoff file in YAML
//! ```
//! One task does it after the handoff, which never waits for it and which no failure touches. A process that is killed
//! before the row is written leaves a handoff without a document. One that is killed later leaves the row, and the next
//! start writes the files that are missing or out of date.
//!
//! Knows drafts, documents and the store. Must not know: exchanges, sockets.

mod make;
mod steps;
#[cfg(test)]
mod tests;
mod value;
mod writer;

pub use make::compose;
pub use steps::{
    JSON, MARKDOWN, StatusChange, archive_old, by_handoff, compare_with_repository, document_of, find,
    set_status, write,
};
pub use value::{DocumentError, DocumentSettings, StoredHandoff, TranscriptReader};
pub use writer::DocumentWriter;
