//! A lock for each folder of a session, across processes. The kernel releases it when its process ends, however that
//! happens.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use super::error::FileError;
use super::paths::no_links;
use crate::state::disk;

/// The lock's file, which is empty and stays.
const LOCK: &str = ".lock";

/// How long a process may wait for others, each of which needs milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(3);

/// Locked while a folder is changed.
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(super) fn of(dir: &Path) -> Result<Self, FileError> {
        let path = dir.join(LOCK);
        no_links(&path)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(FileError::at(&path))?;
        match disk::lock_within(&file, LIMIT, PAUSE) {
            Ok(true) => Ok(Self { _file: file }),
            Ok(false) => Err(FileError::Busy(dir.to_owned())),
            Err(error) => Err(FileError::Io(path, error)),
        }
    }
}
