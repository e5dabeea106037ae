//! The files of a document: each is complete or absent.

use std::fs;
use std::io;
use std::path::Path;

use super::value::DocumentStep;
use crate::state::disk::{self, FileAccess, FillStep};
use crate::state::store::make_dir;
use baton_core::handoffs::document::fields::HandoffDocument;

/// The document as JSON.
pub const JSON: &str = "handoff.json";

/// The document as Markdown.
pub const MARKDOWN: &str = "handoff.md";

/// Writes both files into a folder, which is made as needed: only its owner can read what the agent saw.
pub(super) fn write(
    folder: &Path,
    document: &HandoffDocument,
    step: &dyn Fn(DocumentStep),
) -> io::Result<()> {
    make_dir(folder).map_err(|error| io::Error::other(error.message))?;
    disk::sweep(folder, ".handoff.", ".tmp");
    replace(folder, JSON, document.json().as_bytes(), step)?;
    replace(folder, MARKDOWN, document.markdown().as_bytes(), step)?;
    folder.parent().map_or(Ok(()), disk::sync_dir)
}

/// Whether both files are there and say what the document says.
pub(super) fn are_current(folder: &Path, document: &HandoffDocument) -> bool {
    let says =
        |name: &str, text: String| fs::read(folder.join(name)).is_ok_and(|found| found == text.as_bytes());
    says(JSON, document.json()) && says(MARKDOWN, document.markdown())
}

/// Writes a file under a name of its own, flushes it, and gives it its name.
fn replace(folder: &Path, name: &str, contents: &[u8], step: &dyn Fn(DocumentStep)) -> io::Result<()> {
    let temp = folder.join(format!(".{name}.{}.tmp", uuid::Uuid::now_v7().simple()));
    disk::fill(&temp, contents, FileAccess::Owner, &mut |reached| match reached {
        FillStep::Opened => step(DocumentStep::Opened),
        FillStep::Filled => step(DocumentStep::Filled),
        FillStep::Flushed => {}
    })?;
    let named = disk::put(&temp, &folder.join(name));
    step(DocumentStep::Named);
    named
}
