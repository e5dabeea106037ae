//! The files of a document: each is whole or not there.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::value::DocumentStep;
use crate::state::store::{make_dir, private_file};
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
    sync(folder)?;
    folder.parent().map_or(Ok(()), sync)
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
            // It is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file under a name of its own, flushes it, and gives it its name.
fn replace(folder: &Path, name: &str, contents: &[u8], step: &dyn Fn(DocumentStep)) -> io::Result<()> {
    let temp = folder.join(format!(".{name}.{}.tmp", uuid::Uuid::now_v7().simple()));
    let written = private_file().create_new(true).open(&temp).and_then(|mut file| {
        step(DocumentStep::Opened);
        file.write_all(contents)?;
        step(DocumentStep::Filled);
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&temp, folder.join(name)));
    step(DocumentStep::Named);
    if placed.is_err() {
        let _ = fs::remove_file(&temp);
    }
    placed
}

/// Flushes a folder, so that its files' names survive a power loss.
fn sync(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => fs::File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}
