//! The seal keys of a running proxy. They follow the files: a rotated or retired key takes effect with the
//! next seal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::StoreResult;
use super::seal_key::{FILE, OLDER, load, load_or_make};
use crate::sync::locked;
use baton_core::marker::seal::{SealKey, SealKeys};

/// The keys that a proxy creates and verifies seals with.
pub struct Seals {
    /// The state directory. `None` if the keys are configured.
    dir: Option<PathBuf>,
    known: Mutex<KnownSeals>,
}

struct KnownSeals {
    keys: Arc<SealKeys>,
    stamps: Stamps,
}

/// Identity of each file: write time, length and inode. Files are only ever replaced, which changes it.
type Stamps = [Option<(Option<SystemTime>, u64, u64)>; 2];

impl From<SealKeys> for Seals {
    fn from(keys: SealKeys) -> Self {
        Self::with(None, keys, [None; 2])
    }
}

impl From<SealKey> for Seals {
    fn from(key: SealKey) -> Self {
        SealKeys::from(key).into()
    }
}

impl Seals {
    /// Loads the keys of a state directory, and generates the first one if there is none.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or created, or does not hold keys.
    pub fn of_dir(dir: &Path) -> StoreResult<Self> {
        // Taken before reading: a file that changes meanwhile is read again later.
        let stamps = stamps(dir);
        let keys = load_or_make(dir)?.into_keys();
        Ok(Self::with(Some(dir.to_owned()), keys, stamps))
    }

    fn with(dir: Option<PathBuf>, keys: SealKeys, stamps: Stamps) -> Self {
        let keys = Arc::new(keys);
        Self {
            dir,
            known: Mutex::new(KnownSeals { keys, stamps }),
        }
    }

    /// Returns the current keys.
    ///
    /// Costs two `stat` calls, a few microseconds, and only handoffs and sentinels unknown to the store need
    /// it. If the files cannot be read, the keys in memory stay in use.
    pub fn now(&self) -> Arc<SealKeys> {
        let mut known = locked(&self.known);
        if let Some(dir) = &self.dir {
            let stamps = stamps(dir);
            if stamps != known.stamps {
                // Set even if reading fails, so that a damaged file is logged once and not at every call.
                known.stamps = stamps;
                read_again(dir, &mut known.keys);
            }
        }
        Arc::clone(&known.keys)
    }
}

fn read_again(dir: &Path, keys: &mut Arc<SealKeys>) {
    match load(dir) {
        Ok(Some(found)) => {
            let found = found.into_keys();
            if found != **keys {
                let newest = found.all().next().map(SealKey::id);
                tracing::info!(target: "baton", newest, keys = found.count(), "reloaded the seal keys");
                *keys = Arc::new(found);
            }
        }
        Ok(None) => {
            tracing::warn!(target: "baton", "failed to find the seal key's file; using the known key until a restart")
        }
        Err(error) => {
            tracing::warn!(target: "baton", %error, "failed to reload the seal keys; using the known ones");
        }
    }
}

fn stamps(dir: &Path) -> Stamps {
    [FILE, OLDER].map(|name| {
        let found = fs::metadata(dir.join(name)).ok()?;
        Some((found.modified().ok(), found.len(), found.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::seal_key::{retire, rotate};

    #[test]
    fn running_proxies_follow_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let proxies = [
            Seals::of_dir(dir.path()).unwrap(),
            Seals::of_dir(dir.path()).unwrap(),
        ];
        let first = proxies[0].now();
        let mut expected = vec![first.all().next().unwrap().id()];
        for _ in 0..3 {
            let made = rotate(dir.path()).unwrap();
            expected.insert(0, made.newest.key.id());
            for proxy in &proxies {
                let ids: Vec<_> = proxy.now().all().map(SealKey::id).collect();
                assert_eq!(ids, expected);
            }
        }
        retire(dir.path(), &expected[1..3]).unwrap().unwrap();
        for proxy in &proxies {
            assert_eq!(proxy.now().count(), 2);
        }
        // Without a change the files are not read again.
        assert!(Arc::ptr_eq(&proxies[0].now(), &proxies[0].now()));
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let seals = Seals::of_dir(dir.path()).unwrap();
        let before = seals.now();
        fs::write(dir.path().join(FILE), "damaged").unwrap();
        assert_eq!(*seals.now(), *before);
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert_eq!(*seals.now(), *before);
    }
}
