//! The directory of all sessions: which paths may be touched, and the lock of each session.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::error::{FileError, FileResult};
use super::newest;
use crate::disk::{self, FileAccess};
use baton_core::handoffs::yaml::names;

/// Directory of archived files, within the directory of their session.
pub(super) const ARCHIVE: &str = ".archive";

/// Default number of files in a session's directory.
const KEPT: usize = 50;

/// A directory of handoff files, with one directory for each session.
#[derive(Debug, Clone)]
pub struct HandoffDirectory {
    dir: PathBuf,
    pub(super) kept: usize,
}

impl HandoffDirectory {
    /// Opens the handoff files in this directory, which need not exist yet.
    ///
    /// # Errors
    /// Returns an error if the path is relative and the working directory is unknown.
    pub fn new(dir: &Path) -> FileResult<Self> {
        Ok(Self {
            dir: absolute(dir)?,
            kept: KEPT,
        })
    }

    /// Limits each session's directory to this many files (`handoff.keep_files`). The oldest ones beyond it
    /// are archived.
    #[must_use]
    pub fn keeping(self, kept: usize) -> Self {
        Self { kept, ..self }
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory of a session. An empty name means `general`.
    pub(super) fn session_dir(&self, session: &str) -> FileResult<PathBuf> {
        let name = names::session(session);
        let dir = self.dir.join(name);
        if !names::is_session(name) {
            let why = "not a valid session name: use letters, digits, `_` and `-`";
            return Err(FileError::Refused(dir, why));
        }
        Ok(dir)
    }

    /// Returns the sessions that have files, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn sessions(&self) -> FileResult<Vec<String>> {
        let mut sessions = self.directories(has_files)?;
        sessions.sort();
        Ok(sessions)
    }

    /// Returns the names of the sessions whose directory satisfies `has_some`.
    pub(super) fn directories(&self, has_some: impl Fn(&Path) -> bool) -> FileResult<Vec<String>> {
        // Other programs may keep other entries here.
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

    /// Counts the files of all sessions.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read.
    pub fn count(&self) -> FileResult<u64> {
        let mut count = 0;
        for session in self.sessions()? {
            count += self.files(&session)?.len() as u64;
        }
        Ok(count)
    }

    /// Returns the files of a session, newest first.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn paths(&self, session: &str) -> FileResult<Vec<PathBuf>> {
        let dir = self.session_dir(session)?;
        let sorted = newest::sort(&dir, self.files(session)?);
        Ok(sorted.into_iter().map(|name| dir.join(name)).collect())
    }

    /// Returns the names of a session's files, unordered.
    pub(super) fn files(&self, session: &str) -> FileResult<Vec<String>> {
        let dir = self.session_dir(session)?;
        no_links(&dir)?;
        files_in(&dir)
    }

    /// Returns the path of a session's ledger, in a sibling of this directory.
    pub fn ledger(&self, session: &str) -> PathBuf {
        let beside = self.dir.parent().unwrap_or(&self.dir);
        let name = names::session(session);
        beside.join("ledgers").join(format!("CONTINUITY_{name}.md"))
    }
}

/// Returns the names of the handoff files in a directory.
pub(super) fn files_in(dir: &Path) -> FileResult<Vec<String>> {
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

/// Returns the entries of a directory with their kinds. A missing directory has none.
///
/// Links count as neither files nor directories.
fn entries(dir: &Path) -> FileResult<Vec<(String, fs::FileType)>> {
    let read = match fs::read_dir(dir) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::Io(dir.to_owned(), error)),
    };
    let mut all = Vec::new();
    for entry in read {
        let entry = entry.map_err(FileError::at(dir))?;
        // Handoff files have ASCII names, so a name that is not UTF-8 belongs to another program.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // An entry that disappeared meanwhile is skipped.
        if let Ok(kind) = entry.file_type() {
            all.push((name, kind));
        }
    }
    Ok(all)
}

/// Name of the lock file, which is empty and never deleted.
pub(super) const LOCK: &str = ".lock";

/// How long a process may wait for others. Each of them needs milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval between two attempts to take the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// Guard held while a session's directory changes.
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    pub(super) fn new(dir: &Path) -> FileResult<Self> {
        let path = dir.join(LOCK);
        no_links(&path)?;
        let mut options = disk::private_file();
        let file = disk::open_regular(&path, options.create(true).truncate(false));
        let file = file.map_err(FileError::at(&path))?;
        // The system releases the lock if this process dies.
        match disk::lock_within(&file, LOCK_TIMEOUT, LOCK_RETRY_INTERVAL) {
            Ok(true) => Ok(Self { _file: file }),
            Ok(false) => Err(FileError::Busy(dir.to_owned())),
            Err(error) => Err(FileError::Io(path, error)),
        }
    }
}

/// Refuses a path that contains a symbolic link: anybody who may write into a directory could redirect a
/// write.
///
/// A link directly below the root is allowed, since only the system's administrator makes those (`/home` and
/// `/var` on some systems, `/tmp` and `/etc` on macOS).
pub(super) fn no_links(path: &Path) -> FileResult<()> {
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
            // Nothing exists below a missing component, so no link can.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::Io(so_far, error)),
        }
    }
    Ok(())
}

/// Returns the path as absolute, without `.` components.
pub(super) fn absolute(path: &Path) -> FileResult<PathBuf> {
    // Does not resolve links, unlike `canonicalize`: `no_links` must see them.
    std::path::absolute(path).map_err(FileError::at(path))
}

/// Creates a directory and its parents, accessible only to their owner.
pub(super) fn make_dir(path: &Path) -> FileResult<()> {
    no_links(path)?;
    disk::make_dir(path, FileAccess::Owner).map_err(|error| FileError::Directory(path.to_owned(), error))?;
    // Checked again: somebody may have created a link in the meantime.
    no_links(path)
}

/// Whether the path is a regular file. A link to one does not count.
pub(super) fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
