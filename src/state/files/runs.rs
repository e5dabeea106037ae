//! Directories in which `baton run` was started, by the ids of the runs.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::disk;

/// The directory of the runs' files, in the state directory. Runs empty it when none is left.
pub const STARTED: &str = "started-runs";

/// Bytes of the longest path that is read.
const MAX_PATH_BYTES: u64 = 64 * 1024;

/// Notes where a run was started. The directory of the runs must exist.
///
/// # Errors
/// It cannot be written.
pub fn note(state_dir: &Path, run: Uuid, dir: &Path) -> io::Result<()> {
    let file = disk::private_file()
        .create_new(true)
        .open(file_of(state_dir, run));
    file?.write_all(dir.as_os_str().as_bytes())
}

/// Where a run was started; `None` if that is unknown.
pub fn directory(state_dir: &Path, run: &str) -> Option<PathBuf> {
    let run = Uuid::parse_str(run).ok()?;
    let file = disk::open_regular(&file_of(state_dir, run), fs::OpenOptions::new().read(true)).ok()?;
    let mut path = Vec::new();
    file.take(MAX_PATH_BYTES).read_to_end(&mut path).ok()?;
    Some(PathBuf::from(OsString::from_vec(path))).filter(|path| path.is_absolute())
}

fn file_of(state_dir: &Path, run: Uuid) -> PathBuf {
    state_dir.join(STARTED).join(format!("{run}.directory"))
}
