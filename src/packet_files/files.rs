//! The files of a packet: each is whole or not there.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::packet::fields::Packet;
use crate::store::{make_dir, private_file};

/// The document.
pub const JSON: &str = "handoff.json";

/// The same for people.
pub const MARKDOWN: &str = "handoff.md";

/// Writes both files into a folder, which is made as needed: only its owner can read what the agent saw.
pub(super) fn write(folder: &Path, packet: &Packet) -> io::Result<()> {
    make_dir(folder).map_err(|error| io::Error::other(error.message))?;
    replace(folder, JSON, packet.json().as_bytes())?;
    replace(folder, MARKDOWN, packet.markdown().as_bytes())?;
    sync(folder)?;
    folder.parent().map_or(Ok(()), sync)
}

/// Whether both files are there.
pub(super) fn are_there(folder: &Path) -> bool {
    folder.join(JSON).is_file() && folder.join(MARKDOWN).is_file()
}

/// Writes a file under a name of its own, flushes it, and gives it its name.
fn replace(folder: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let temp = folder.join(format!(".{name}.{}.tmp", uuid::Uuid::now_v7().simple()));
    let written = private_file().create_new(true).open(&temp).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&temp, folder.join(name)));
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
