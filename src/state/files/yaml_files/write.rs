//! Writes files atomically: under a temporary name in the same directory, flushed, and then renamed.
//!
//! If a session's directory is full, its oldest files of the same kind are moved to the archive.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::directory::{ARCHIVE, DirectoryLock, HandoffDirectory, absolute, files_in, make_dir, no_links};
use super::error::{FileError, FileResult};
use super::newest;
use crate::disk::{self, FileAccess};
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, ledger_entry, names};

/// Prefix and suffix of a temporary file's name.
const TEMP: (&str, &str) = (".handoff-", ".tmp");

/// Maximum number of files with the same name and different numbers.
const COPIES: usize = 100_000;

/// How a file is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileNaming {
    /// By minute and description.
    Manual(String),
    /// By second, without a description.
    Automatic,
}

/// A file that was written.
#[derive(Debug)]
pub struct WrittenFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Failures that do not affect the file: rotation, ledger.
    pub warnings: Vec<FileError>,
}

impl HandoffDirectory {
    /// Writes a file into its session's directory and appends to the ledger.
    ///
    /// Archives old files first if the directory is full. Sets `updated_at` and fills empty fields with their
    /// defaults.
    ///
    /// # Errors
    /// Returns an error if the file breaks a rule of the format, the directory may not be written, or writing
    /// failed. Then no file remains.
    pub fn write(&self, file: &mut HandoffFile, naming: &FileNaming, now: Time) -> FileResult<WrittenFile> {
        let text = ready(file, now)?;
        let dir = self.session_dir(&file.session)?;
        make_dir(&dir)?;
        let _lock = DirectoryLock::new(&dir)?;
        disk::reached("locked");
        disk::sweep(&dir, TEMP.0, TEMP.1);
        let automatic = *naming == FileNaming::Automatic;
        let mut warnings: Vec<_> = rotate(&dir, self.kept, automatic).err().into_iter().collect();
        disk::reached("rotated");
        let stem = match naming {
            FileNaming::Manual(description) => names::manual(now, &names::description(description)),
            FileNaming::Automatic => names::automatic(now),
        };
        let path = place(&dir, &stem, &text)?;
        disk::reached("named");
        warnings.extend(self.tell(file, &path, automatic, now).err());
        disk::reached("recorded");
        Ok(WrittenFile { path, warnings })
    }

    /// Appends an entry to the session's ledger. The caller has locked the session's directory.
    fn tell(&self, file: &HandoffFile, path: &Path, automatic: bool, now: Time) -> FileResult<()> {
        let ledger = self.ledger(&file.session);
        if let Some(dir) = ledger.parent() {
            make_dir(dir)?;
        }
        no_links(&ledger)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let entry = ledger_entry(file, &name, automatic, now);
        let mut options = disk::private_file();
        options.append(true).create(true);
        let mut ledger_file = options.open(&ledger).map_err(FileError::at(&ledger))?;
        // A single write, so that entries of two processes never mix.
        let written = ledger_file.write_all(entry.as_bytes());
        written.map_err(FileError::at(&ledger))
    }
}

/// Writes a file to any path, replacing an existing one. Neither rotates files nor appends to a ledger.
///
/// # Errors
/// Fails like [`HandoffDirectory::write`].
pub fn write_to(file: &mut HandoffFile, path: &Path, now: Time) -> FileResult<()> {
    let text = ready(file, now)?;
    put(path, &text)
}

/// Writes a rendering of a file to any path, if the file is valid.
///
/// # Errors
/// Fails like [`HandoffDirectory::write`].
pub fn write_text(file: &HandoffFile, text: &str, path: &Path) -> FileResult<()> {
    match file.errors() {
        errors if errors.is_empty() => put(path, text),
        errors => Err(FileError::Invalid(errors)),
    }
}

/// Replaces the file at a path atomically.
pub(super) fn put(path: &Path, text: &str) -> FileResult<()> {
    let path = absolute(path)?;
    no_links(&path)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    make_dir(dir)?;
    let temp = filled(dir, text)?;
    disk::put(temp, &path).map_err(FileError::at(&path))
}

/// Completes a file and renders it as YAML, if it is valid.
fn ready(file: &mut HandoffFile, now: Time) -> FileResult<String> {
    file.prepare(now);
    match file.errors() {
        errors if errors.is_empty() => Ok(file.to_yaml()),
        errors => Err(FileError::Invalid(errors)),
    }
}

/// Creates a temporary file that is complete and flushed.
fn filled(dir: &Path, text: &str) -> FileResult<NamedTempFile> {
    let mut named = tempfile::Builder::new();
    let named = named.prefix(TEMP.0).suffix(TEMP.1);
    disk::fill(named, dir, text.as_bytes(), FileAccess::Owner).map_err(FileError::at(dir))
}

/// Writes a file under the first name that is free in both the directory and its archive.
fn place(dir: &Path, stem: &str, text: &str) -> FileResult<PathBuf> {
    let mut temp = filled(dir, text)?;
    let archive = dir.join(ARCHIVE);
    for n in 1..COPIES {
        let name = names::numbered(stem, n);
        let path = dir.join(&name);
        if fs::symlink_metadata(&path).is_ok() || fs::symlink_metadata(archive.join(&name)).is_ok() {
            continue;
        }
        // Other programs write here as well and do not take the lock, so the name is claimed atomically.
        match disk::name_new(temp, &path).map_err(FileError::at(&path))? {
            Some(unnamed) => temp = unnamed,
            None => {
                // Some systems cannot flush a directory. The file is complete either way.
                let _ = disk::sync_dir(dir);
                return Ok(path);
            }
        }
    }
    Err(FileError::Refused(dir.join(stem), "too many files of this name"))
}

/// Archives the oldest files of the same kind until another one fits within `kept`.
///
/// Automatic files never displace a user's files. The caller holds the directory's lock.
fn rotate(dir: &Path, kept: usize, automatic: bool) -> FileResult<usize> {
    let mut files = files_in(dir)?;
    files.retain(|name| names::is_automatic(name) == automatic);
    // At least the new file must fit.
    let kept = kept.max(1);
    if files.len() < kept {
        return Ok(0);
    }
    let sorted = newest::sort(dir, files);
    let old = &sorted[kept - 1..];
    for name in old {
        archive_file(dir, name)?;
    }
    Ok(old.len())
}

/// Moves a file into its directory's archive, with a number appended if the name exists.
pub(super) fn archive_file(dir: &Path, name: &str) -> FileResult<PathBuf> {
    let archive = dir.join(ARCHIVE);
    make_dir(&archive)?;
    move_file(&dir.join(name), &archive, name)
}

/// Moves a file into another directory, with a number appended if the name exists.
///
/// The caller holds the lock of its session, so no other file can take the name in between.
pub(super) fn move_file(from: &Path, into: &Path, name: &str) -> FileResult<PathBuf> {
    let stem = name.strip_suffix(names::SUFFIX).unwrap_or(name);
    let mut places = (1..).map(|n| into.join(names::numbered(stem, n)));
    let free = places.find(|place| fs::symlink_metadata(place).is_err());
    let place = free.unwrap_or_else(|| into.join(name));
    fs::rename(from, &place).map_err(FileError::at(from))?;
    Ok(place)
}
