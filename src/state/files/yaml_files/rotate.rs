//! Makes room: where a folder is full, its oldest files go into its archive.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::FileError;
use super::folder::{ARCHIVE, files_in};
use super::newest;
use super::paths::make_dir;
use baton_core::handoffs::yaml::names;

/// Archives the oldest files of a folder that holds at most `kept`, until one more fits. The caller holds its lock.
pub(super) fn rotate(dir: &Path, kept: usize) -> Result<usize, FileError> {
    let files = files_in(dir)?;
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

/// Moves a file into the archive of its folder, under its name or, where that is taken, with a number.
pub(super) fn archive_file(dir: &Path, name: &str) -> Result<PathBuf, FileError> {
    let archive = dir.join(ARCHIVE);
    make_dir(&archive)?;
    move_file(&dir.join(name), &archive, name)
}

/// Moves a file into another folder, under this name or, where that is taken, with a number. The caller holds the lock
/// of its session.
pub(super) fn move_file(from: &Path, into: &Path, name: &str) -> Result<PathBuf, FileError> {
    let stem = name.strip_suffix(names::SUFFIX).unwrap_or(name);
    let place = (1..)
        .map(|n| into.join(names::numbered(stem, n)))
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| into.join(name));
    fs::rename(from, &place).map_err(FileError::at(from))?;
    Ok(place)
}
