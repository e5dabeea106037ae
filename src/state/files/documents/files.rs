//! The files of a document: each is complete or absent.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::value::DocumentStep;
use crate::state::disk::{self, FileAccess, FillStep};
use crate::state::store::make_dir;
use baton_core::handoffs::document::fields::HandoffDocument;

/// From this age on, a temporary file was left by a process that was killed: writing one takes milliseconds.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

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
    sweep(folder);
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

/// Deletes temporary files of killed processes.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_temp = name
            .to_str()
            .is_some_and(|name| name.starts_with(".handoff.") && name.ends_with(".tmp"));
        let age = || {
            let modified = entry.metadata().ok()?.modified().ok()?;
            SystemTime::now().duration_since(modified).ok()
        };
        if is_temp && age().is_some_and(|age| age > ABANDONED_AFTER) {
            // It disturbs nobody.
            let _ = fs::remove_file(entry.path());
        }
    }
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
