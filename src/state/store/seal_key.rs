//! The seal keys in the state directory.
//!
//! They have their own files, so that handoffs in transcripts stay valid if the database is lost.
//!
//! `seal.key` holds only the key that creates seals. Earlier keys are in `seal-older.keys`, one per line with
//! its creation time, and verify seals until they are retired. A rotation writes the second file first. At
//! any moment the two files together hold every key that has created a seal.

use std::path::Path;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use super::{StoreError, StoreResult, make_dir, random};
use crate::disk::{self, FileAccess, private_file};
use baton_core::marker::seal::{SealKey, SealKeys};
use baton_core::text::units::{hex, unhex};

/// Name of the file with the key that creates seals.
pub const FILE: &str = "seal.key";

/// Name of the file with the earlier keys.
pub const OLDER: &str = "seal-older.keys";

/// Name of the file that is locked while the others change.
const LOCK: &str = "seal.lock";

/// Length of a key in bytes: the output size of HMAC-SHA256. Longer keys add nothing.
const KEY_BYTES: usize = 32;

/// Maximum number of keys: a prompt under an unknown seal is hashed twice with each of them.
pub const MAX_KEYS: usize = 16;

/// A seal key with its creation time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub key: SealKey,
    /// Creation time in milliseconds since the Unix epoch, if its file shows it.
    pub made_ms: Option<u64>,
}

/// All keys of a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKeys {
    /// The key that creates seals.
    pub newest: StoredKey,
    /// Keys that still verify seals, newest first.
    pub older: Vec<StoredKey>,
}

impl StoredKeys {
    /// Returns all keys, beginning with the one that creates seals.
    pub fn all(&self) -> impl Iterator<Item = &StoredKey> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// Drops the creation times.
    pub fn into_keys(self) -> SealKeys {
        let older = self.older.into_iter().map(|stored| stored.key);
        SealKeys::new(self.newest.key, older.collect())
    }
}

/// Returns the keys in `dir`, and generates the first one if there is none.
///
/// Processes that start at the same time agree on one key.
///
/// # Errors
/// Returns an error if a file cannot be read or created, or does not hold keys.
pub fn load_or_make(dir: &Path) -> StoreResult<StoredKeys> {
    if let Some(keys) = load(dir)? {
        return Ok(keys);
    }
    make_dir(dir)?;
    let path = dir.join(FILE);
    make(dir, &path).map_err(|err| StoreError::new(format!("cannot make {}: {err}", path.display())))?;
    // Read back: if another process was faster, its key is in the file.
    load(dir)?
        .ok_or_else(|| StoreError::new(format!("{} was removed while it was being made", path.display())))
}

/// Returns the keys in `dir`, or `None` if none was ever generated.
///
/// # Errors
/// Returns an error if a file cannot be read, or does not hold keys.
pub fn load(dir: &Path) -> StoreResult<Option<StoredKeys>> {
    // Read in this order: a rotation adds a key to the second file before it replaces it in the first.
    let Some(newest) = newest(&dir.join(FILE))? else {
        return Ok(None);
    };
    let mut older: Vec<StoredKey> = Vec::new();
    for found in older_keys(&dir.join(OLDER))? {
        let known = found.key == newest.key || older.iter().any(|stored| stored.key == found.key);
        if !known {
            older.push(found);
        }
    }
    Ok(Some(StoredKeys { newest, older }))
}

/// Generates a new key, which creates seals from now on. The previous one verifies until it is retired.
///
/// Running proxies that use this directory follow.
///
/// # Errors
/// Returns an error if the files cannot be read or written, or if there are already [`MAX_KEYS`] keys.
/// Nothing changes then.
pub fn rotate(dir: &Path) -> StoreResult<StoredKeys> {
    let (_lock, keys) = locked(dir)?;
    if keys.all().count() >= MAX_KEYS {
        return Err(StoreError::new(format!(
            "there are {MAX_KEYS} seal keys already: retire those that are no longer needed"
        )));
    }
    let older: Vec<StoredKey> = keys.all().cloned().collect();
    let mut key = [0u8; KEY_BYTES];
    random(&mut key).map_err(|err| unwritten(dir, &err))?;
    // If the process ends after this line, the newest key is in both files and none is lost.
    replace_older(dir, &older)?;
    replace(dir, FILE, &format!("{}\n", hex(&key)))?;
    load_or_make(dir)
}

/// Removes keys from those that verify seals. Returns the remaining keys.
///
/// Returns `None`, and changes nothing, if an id does not belong to an earlier key.
///
/// # Errors
/// Returns an error if the files cannot be read or written.
pub fn retire(dir: &Path, ids: &[String]) -> StoreResult<Option<StoredKeys>> {
    let (_lock, mut keys) = locked(dir)?;
    let known = |id: &String| keys.older.iter().any(|stored| stored.key.id() == *id);
    // All or nothing: with a mistyped id no other key is retired either.
    if !ids.iter().all(known) {
        return Ok(None);
    }
    keys.older.retain(|stored| !ids.contains(&stored.key.id()));
    replace_older(dir, &keys.older)?;
    Ok(Some(keys))
}

fn newest(path: &Path) -> StoreResult<Option<StoredKey>> {
    let Some(text) = read(path)? else { return Ok(None) };
    let Some(key) = key(text.trim()) else {
        let message = format!(
            "{} does not hold {KEY_BYTES} bytes in hexadecimal",
            path.display()
        );
        return Err(StoreError::new(message).with_help(
            "restore it from a backup, or remove it for a new key (handoffs in the store stay valid, seals in old \
             transcripts do not)",
        ));
    };
    let made_ms = fs::metadata(path).ok().and_then(|meta| modified_ms(&meta));
    Ok(Some(StoredKey { key, made_ms }))
}

fn older_keys(path: &Path) -> StoreResult<Vec<StoredKey>> {
    let Some(text) = read(path)? else {
        return Ok(Vec::new());
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let keys: Option<Vec<StoredKey>> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let key = key(words.next()?)?;
            let made_ms = words.next().and_then(|made| made.parse().ok());
            Some(StoredKey { key, made_ms })
        })
        .collect();
    keys.ok_or_else(|| {
        let path = path.display();
        let message = format!("{path} does not hold a key of {KEY_BYTES} bytes in hexadecimal on each line");
        StoreError::new(message).with_help(
            "restore it from a backup, or remove it (handoffs in the store stay valid, seals of older keys do not)",
        )
    })
}

fn read(path: &Path) -> StoreResult<Option<String>> {
    match disk::read_named(path) {
        Ok(text) => Ok(Some(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(StoreError::new(format!("cannot read {}: {err}", path.display()))),
    }
}

fn make(dir: &Path, path: &Path) -> io::Result<()> {
    let mut key = [0u8; KEY_BYTES];
    random(&mut key)?;
    let text = format!("{}\n", hex(&key));
    let mut named = tempfile::Builder::new();
    let file = disk::fill(named.prefix(FILE), dir, text.as_bytes(), FileAccess::Owner)?;
    // An existing key stays: another process may have generated it meanwhile.
    disk::name_new(file, path)?;
    disk::sync_dir(dir)
}

/// Returns the keys, and a lock on them. No other process changes the keys while the file is open.
fn locked(dir: &Path) -> StoreResult<(fs::File, StoredKeys)> {
    // Creates the directory of the lock file.
    load_or_make(dir)?;
    let file = disk::open_regular(&dir.join(LOCK), private_file().create(true).truncate(false));
    let file = file.and_then(|file| file.lock().map(|()| file));
    let file = file.map_err(|err| unwritten(dir, &err))?;
    // Read again, because another process may have changed them before this one got the lock.
    Ok((file, load_or_make(dir)?))
}

fn replace_older(dir: &Path, older: &[StoredKey]) -> StoreResult<()> {
    let lines = older.iter().map(|stored| {
        let made = stored.made_ms.map_or(String::new(), |made| format!(" {made}"));
        format!("{}{made}\n", hex(stored.key.bytes()))
    });
    replace(dir, OLDER, &lines.collect::<String>())
}

fn replace(dir: &Path, name: &str, text: &str) -> StoreResult<()> {
    disk::replace_locked(&dir.join(name), text.as_bytes()).map_err(|err| unwritten(dir, &err))
}

fn unwritten(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::new(format!(
        "the seal keys in {} cannot be changed: {error}",
        dir.display()
    ))
}

fn modified_ms(meta: &fs::Metadata) -> Option<u64> {
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn key(text: &str) -> Option<SealKey> {
    let bytes = unhex(text).filter(|bytes| bytes.len() == KEY_BYTES)?;
    Some(SealKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(keys: &StoredKeys) -> Vec<String> {
        keys.all().map(|stored| stored.key.id()).collect()
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn made_once_then_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("deep/state");
        assert_eq!(load(&state).unwrap(), None);
        let keys = load_or_make(&state).unwrap();
        assert_eq!(keys.newest.key.bytes().len(), KEY_BYTES);
        assert!(keys.older.is_empty() && keys.newest.made_ms.is_some());
        assert_eq!(load_or_make(&state).unwrap(), keys);
        assert_eq!(names(&state), [FILE], "no temporary file is left");
    }

    #[test]
    fn starts_at_once_agree() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let gate = std::sync::Barrier::new(8);
            let keys: Vec<_> = std::thread::scope(|scope| {
                let start = || {
                    gate.wait();
                    load_or_make(dir.path()).unwrap()
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| key.newest.key == keys[0].newest.key));
        }
    }

    #[test]
    fn a_rotated_key_verifies_until_it_is_retired() {
        let dir = tempfile::tempdir().unwrap();
        let first = load_or_make(dir.path()).unwrap();
        let second = rotate(dir.path()).unwrap();
        assert_eq!(
            second.older,
            std::slice::from_ref(&first.newest),
            "with the time that it was made"
        );
        let third = rotate(dir.path()).unwrap();
        assert_eq!(ids(&third)[1..], ids(&second));
        assert_eq!(load_or_make(dir.path()).unwrap(), third);

        let unknown = retire(dir.path(), &["00000000".to_owned()]).unwrap();
        assert_eq!(unknown, None);
        assert_eq!(
            retire(dir.path(), &ids(&third)[..1]).unwrap(),
            None,
            "it makes seals"
        );
        let left = retire(dir.path(), &ids(&third)[2..]).unwrap().unwrap();
        assert_eq!(ids(&left), ids(&third)[..2]);
        assert_eq!(load_or_make(dir.path()).unwrap(), left);
        assert_eq!(names(dir.path()), [OLDER, FILE, LOCK]);
    }

    /// A process may be killed between writing the two files, or while writing one of them.
    #[test]
    fn a_rotation_broken_off_at_any_step_loses_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let first = load_or_make(dir.path()).unwrap();
        replace_older(dir.path(), std::slice::from_ref(&first.newest)).unwrap();
        fs::write(dir.path().join("seal.key.new"), "half").unwrap();
        assert_eq!(load_or_make(dir.path()).unwrap(), first, "the same key, and once");
        let second = rotate(dir.path()).unwrap();
        assert_eq!(ids(&second)[1..], ids(&first));
        assert_eq!(names(dir.path()), [OLDER, FILE, LOCK]);
    }

    #[test]
    fn rotations_at_once_lose_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let first = load_or_make(dir.path()).unwrap();
        let made: Vec<String> = std::thread::scope(|scope| {
            let start = || ids(&rotate(dir.path()).unwrap())[0].clone();
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let all = ids(&load_or_make(dir.path()).unwrap());
        assert_eq!(all.len(), 7);
        assert!(made.iter().chain(&ids(&first)).all(|id| all.contains(id)));
    }

    #[test]
    fn there_are_only_so_many() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 1..MAX_KEYS {
            rotate(dir.path()).unwrap();
        }
        let before = load_or_make(dir.path()).unwrap();
        let err = rotate(dir.path()).unwrap_err();
        assert!(err.message.contains("retire"), "{err}");
        assert_eq!(load_or_make(dir.path()).unwrap(), before);
    }

    #[test]
    fn damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "abc", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(31)] {
            fs::write(dir.path().join(FILE), bad).unwrap();
            let err = load_or_make(dir.path()).unwrap_err();
            assert!(err.message.contains(FILE), "{err}");
        }
        fs::write(dir.path().join(FILE), "ab".repeat(32)).unwrap();
        fs::write(dir.path().join(OLDER), "ab").unwrap();
        let err = load_or_make(dir.path()).unwrap_err();
        assert!(err.message.contains(OLDER), "{err}");
    }

    #[test]
    fn private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        rotate(&state).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state), 0o700);
        for file in names(&state) {
            assert_eq!(mode(&state.join(&file)), 0o600, "{file}");
        }
    }
}
