//! A lock for each folder of a session, across processes. The kernel releases it when its process ends, however that
//! happens.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::error::FileError;
use super::paths::no_links;

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
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if began.elapsed() < LIMIT => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(FileError::Busy(dir.to_owned())),
                Err(TryLockError::Error(error)) => return Err(FileError::Io(path, error)),
            }
        }
    }
}
