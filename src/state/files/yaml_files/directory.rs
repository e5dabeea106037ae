//! The directory of all sessions: which paths may be touched, and the lock of each session.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::error::FileError;
use super::newest;
use crate::disk::{self, FileAccess};
use baton_core::handoffs::yaml::names;

/// Archived files, in the directory of their session.
pub(super) const ARCHIVE: &str = ".archive";

/// Files that a session's directory holds unless the config says otherwise.
const KEPT: usize = 50;

/// A directory of handoff files, one directory a session in it.
#[derive(Debug, Clone)]
pub struct HandoffDirectory {
    dir: PathBuf,
    pub(super) kept: usize,
}

impl HandoffDirectory {
    /// The files in this directory, which need not be there yet.
    ///
    /// # Errors
    /// The path is relative and the working directory is unknown.
    pub fn new(dir: &Path) -> Result<Self, FileError> {
        Ok(Self {
            dir: absolute(dir)?,
            kept: KEPT,
        })
    }

    /// With this many files in each session's directory; the oldest beyond them are archived (`handoff.keep_files`).
    #[must_use]
    pub fn keeping(self, kept: usize) -> Self {
        Self { kept, ..self }
    }

    /// The directory's path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of a session; empty for `general`.
    pub(super) fn session_dir(&self, session: &str) -> Result<PathBuf, FileError> {
        let name = names::session(session);
        let dir = self.dir.join(name);
        if !names::is_session(name) {
            return Err(FileError::Refused(
                dir,
                "not a valid session name: use letters, digits, `_` and `-`",
            ));
        }
        Ok(dir)
    }

    /// The sessions that have files, by name.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn sessions(&self) -> Result<Vec<String>, FileError> {
        let mut sessions = self.directories(has_files)?;
        sessions.sort();
        Ok(sessions)
    }

    /// The names of the sessions whose directory has something.
    pub(super) fn directories(&self, has_some: impl Fn(&Path) -> bool) -> Result<Vec<String>, FileError> {
        // Other programs may keep other things here.
        let directories = entries(&self.dir)?.into_iter().filter(|(name, kind)| {
            kind.is_dir() && names::is_session(name) && has_some(&self.dir.join(name))
        });
        Ok(directories.map(|(name, _)| name).collect())
    }

    /// Whether a session has files.
    pub fn has_session(&self, name: &str) -> bool {
        self.session_dir(name)
            .is_ok_and(|dir| no_links(&dir).is_ok() && has_files(&dir))
    }

    /// How many files there are, of all sessions.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn count(&self) -> Result<u64, FileError> {
        let mut count = 0;
        for session in self.sessions()? {
            count += self.files(&session)?.len() as u64;
        }
        Ok(count)
    }

    /// The files of a session, newest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn paths(&self, session: &str) -> Result<Vec<PathBuf>, FileError> {
        let dir = self.session_dir(session)?;
        let sorted = newest::sort(&dir, self.files(session)?);
        Ok(sorted.into_iter().map(|name| dir.join(name)).collect())
    }

    /// The files of a session, in no order.
    pub(super) fn files(&self, session: &str) -> Result<Vec<String>, FileError> {
        let dir = self.session_dir(session)?;
        no_links(&dir)?;
        files_in(&dir)
    }

    /// The ledger of a session, next to this directory.
    pub fn ledger(&self, session: &str) -> PathBuf {
        let beside = self.dir.parent().unwrap_or(&self.dir);
        let name = names::session(session);
        beside.join("ledgers").join(format!("CONTINUITY_{name}.md"))
    }
}

/// The files of ours in a directory.
pub(super) fn files_in(dir: &Path) -> Result<Vec<String>, FileError> {
    let all = entries(dir)?.into_iter();
    let ours = all.filter(|(name, kind)| kind.is_file() && names::is_file(name));
    Ok(ours.map(|(name, _)| name).collect())
}

fn has_files(dir: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(dir) else {
        return false;
    };
    entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(names::is_file)))
}

/// The entries of a directory with their kinds; none for a missing directory. Links are neither files nor directories here.
fn entries(dir: &Path) -> Result<Vec<(String, fs::FileType)>, FileError> {
    let read = match fs::read_dir(dir) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::Io(dir.to_owned(), error)),
    };
    let mut all = Vec::new();
    for entry in read {
        let entry = entry.map_err(FileError::at(dir))?;
        // A name that is not UTF-8 is none of ours.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if let Ok(kind) = entry.file_type() {
            all.push((name, kind));
        }
    }
    Ok(all)
}

/// The lock's file, which is empty and stays.
const LOCK: &str = ".lock";

/// How long a process may wait for others, each of which needs milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(3);

/// Locked while a directory is changed.
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    pub(super) fn new(dir: &Path) -> Result<Self, FileError> {
        let path = dir.join(LOCK);
        no_links(&path)?;
        let mut options = disk::private_file();
        let file = disk::open_regular(&path, options.create(true).truncate(false));
        let file = file.map_err(FileError::at(&path))?;
        match disk::lock_within(&file, LIMIT, PAUSE) {
            Ok(true) => Ok(Self { _file: file }),
            Ok(false) => Err(FileError::Busy(dir.to_owned())),
            Err(error) => Err(FileError::Io(path, error)),
        }
    }
}

/// Refuses a path with a symbolic link on the way: anybody who may write into a directory could lead a write anywhere.
///
/// A link directly below the root is followed, since only the system's administrator makes those (`/home` and `/var` on
/// some systems, `/tmp` and `/etc` on macOS).
pub(super) fn no_links(path: &Path) -> Result<(), FileError> {
    let path = absolute(path)?;
    let mut so_far = PathBuf::new();
    let mut names = 0;
    for component in path.components() {
        so_far.push(component);
        match component {
            Component::Normal(_) => names += 1,
            Component::ParentDir => return Err(FileError::Refused(path, "a path with `..` in it")),
            _ => continue,
        }
        match fs::symlink_metadata(&so_far) {
            Ok(found) if found.is_symlink() && names > 1 => {
                return Err(FileError::Refused(so_far, "a symbolic link"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::Io(so_far, error)),
        }
    }
    Ok(())
}

/// The path from the root on, without `.`.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    std::path::absolute(path).map_err(FileError::at(path))
}

/// Makes a directory with those above it, readable for everybody who may reach it.
pub(super) fn make_dir(path: &Path) -> Result<(), FileError> {
    no_links(path)?;
    disk::make_dir(path, FileAccess::Everybody)
        .map_err(|error| FileError::Directory(path.to_owned(), error))?;
    // Somebody may have been faster with something else.
    no_links(path)
}

/// Whether there is a regular file, and no link to one.
pub(super) fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
