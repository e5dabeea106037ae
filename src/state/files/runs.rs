//! Directories where each `baton run` was started, by run id.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::disk;

/// Directory of the runs' files, within the state directory. The last run to end removes its contents.
pub const STARTED: &str = "started-runs";

/// Maximum bytes of a path that is read.
const MAX_PATH_BYTES: u64 = 64 * 1024;

/// Records where a run was started. The directory of the runs must exist.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn note(state_dir: &Path, run: Uuid, dir: &Path) -> io::Result<()> {
    let path = file_of(state_dir, run);
    let mut file = disk::private_file().create_new(true).open(path)?;
    file.write_all(dir.as_os_str().as_bytes())
}

/// Returns where a run was started, or `None` if that is unknown.
pub fn directory(state_dir: &Path, run: &str) -> Option<PathBuf> {
    let run = Uuid::parse_str(run).ok()?;
    let file = disk::open_regular(&file_of(state_dir, run), fs::OpenOptions::new().read(true)).ok()?;
    let mut path = Vec::new();
    file.take(MAX_PATH_BYTES).read_to_end(&mut path).ok()?;
    // A relative path would depend on the proxy's working directory.
    Some(PathBuf::from(OsString::from_vec(path))).filter(|path| path.is_absolute())
}

/// Whether a file of [`STARTED`] has this name.
pub fn is_note(name: &str) -> bool {
    name.strip_suffix(".directory")
        .is_some_and(|run| Uuid::parse_str(run).is_ok())
}

fn file_of(state_dir: &Path, run: Uuid) -> PathBuf {
    state_dir.join(STARTED).join(format!("{run}.directory"))
}
