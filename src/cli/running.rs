//! Finds out whether a proxy serves from a state directory, and where. The proxy holds a file lock for its lifetime and
//! writes its addresses into a second file. The lock ends with the process in any case, so addresses without a lock
//! were left by a killed process, and a reused process id cannot be mistaken for it.

use std::fs::{self, TryLockError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::disk::{self, private_file};
use crate::state::store::make_dir;

/// The lock file, which is empty.
const LOCK: &str = "serving.lock";

/// The file with the addresses.
const FILE: &str = "serving.json";

/// Attempts to get the lock, and the pause between them: a status check holds it for a moment, too.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// A running proxy. The field names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// URL of the data listener.
    pub(super) data: String,
    /// URL of the admin listener.
    pub(super) admin: String,
    pub(super) version: String,
    /// Start time in milliseconds since the Unix epoch.
    pub(super) started_ms: u64,
    /// Whether `baton run` started it; it then stops with the last agent.
    pub(super) started_by_run: bool,
}

/// Locked while the process serves.
pub(super) struct StateDirLock {
    dir: PathBuf,
    _lock: fs::File,
}

impl StateDirLock {
    /// Registers this process in `dir`; `None` if another one is registered.
    pub(super) fn of(dir: &Path, process: &Process) -> io::Result<Option<Self>> {
        make_dir(dir).map_err(io::Error::other)?;
        let lock = private_file().create(true).truncate(false).open(dir.join(LOCK))?;
        if !disk::lock_within(&lock, PAUSE * TRIES, PAUSE)? {
            return Ok(None);
        }
        let text = serde_json::to_vec(process)?;
        disk::replace_locked(&dir.join(FILE), &text)?;
        Ok(Some(Self {
            dir: dir.to_owned(),
            _lock: lock,
        }))
    }
}

impl Drop for StateDirLock {
    fn drop(&mut self) {
        // The lock is released after this. Errors are ignored: with the directory, the file is gone, too.
        let _ = fs::remove_file(self.dir.join(FILE));
    }
}

/// State of a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunState {
    /// A proxy is running; `None` until it has written its addresses.
    Running(Option<Process>),
    /// None is running; this one was killed.
    Stale(Process),
    /// None is running.
    Nobody,
}

/// Checks a state directory without changing it.
pub(super) fn find(dir: &Path) -> RunState {
    let recorded = || {
        let text = fs::read(dir.join(FILE)).ok()?;
        serde_json::from_slice::<Process>(&text).ok()
    };
    let Ok(lock) = fs::File::open(dir.join(LOCK)) else {
        return recorded().map_or(RunState::Nobody, RunState::Stale);
    };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => RunState::Running(recorded()),
        // Without file locks no process can hold one.
        Ok(()) | Err(TryLockError::Error(_)) => recorded().map_or(RunState::Nobody, RunState::Stale),
    }
}

/// The proxy that serves from a state directory at this address.
pub(super) fn serving_at(dir: &Path, address: SocketAddr) -> Option<Process> {
    let RunState::Running(Some(process)) = find(dir) else {
        return None;
    };
    let address = address.to_string();
    let urls = [&process.data, &process.admin];
    urls.iter().any(|url| url.ends_with(&address)).then_some(process)
}

/// An address at which this machine reaches a listener.
pub(super) fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_is_distinguished_from_a_killed_one() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        assert_eq!(find(&dir), RunState::Nobody);
        let process = Process {
            pid: 7,
            data: "http://127.0.0.1:1".into(),
            admin: "http://127.0.0.1:2".into(),
            version: "0".into(),
            started_ms: 3,
            started_by_run: false,
        };
        let claim = StateDirLock::of(&dir, &process).unwrap().unwrap();
        assert_eq!(find(&dir), RunState::Running(Some(process.clone())));
        assert!(
            StateDirLock::of(&dir, &process).unwrap().is_none(),
            "one at a time"
        );
        drop(claim);
        assert_eq!(find(&dir), RunState::Nobody);
        // As a killed process leaves it.
        fs::write(dir.join(FILE), serde_json::to_vec(&process).unwrap()).unwrap();
        assert_eq!(find(&dir), RunState::Stale(process.clone()));
        let claim = StateDirLock::of(&dir, &process).unwrap();
        assert!(claim.is_some() && matches!(find(&dir), RunState::Running(_)));
    }
}
