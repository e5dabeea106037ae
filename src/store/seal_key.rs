//! The seal key. It has its own file, so that handoffs in transcripts stay valid when the database is lost.

use std::fs;
use std::io;
use std::path::Path;

use super::{StoreError, hex, make_dir, make_whole, random, sync_dir};

/// The file's name in the state directory.
pub const FILE: &str = "seal.key";

/// Length of a key in bytes: the output size of HMAC-SHA256; longer keys add nothing.
const KEY_BYTES: usize = 32;

/// The key in `dir`, generated there if missing. Processes that start at the same time agree on one key.
///
/// # Errors
/// The file cannot be read or created, or does not contain a key.
pub fn load_or_make(dir: &Path) -> Result<Vec<u8>, StoreError> {
    let path = dir.join(FILE);
    if let Some(key) = load(&path)? {
        return Ok(key);
    }
    make_dir(dir)?;
    make(dir, &path).map_err(|err| StoreError {
        message: format!("cannot make {}: {err}", path.display()),
    })?;
    // Read back: if another process was faster, its key counts.
    load(&path)?.ok_or_else(|| StoreError {
        message: format!("{} was removed while it was being made", path.display()),
    })
}

fn load(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => {
            return Err(StoreError {
                message: format!("cannot read {}: {err}", path.display()),
            });
        }
    };
    match unhex(text.trim()) {
        Some(key) => Ok(Some(key)),
        None => Err(StoreError {
            message: format!(
                "{} does not hold {KEY_BYTES} bytes in hexadecimal: restore it from a backup, or remove it \
                 for a new key (handoffs in the store stay valid, seals in old transcripts do not)",
                path.display()
            ),
        }),
    }
}

fn make(dir: &Path, path: &Path) -> io::Result<()> {
    let mut key = [0u8; KEY_BYTES];
    random(&mut key)?;
    let write = |temp: &Path| fs::write(temp, format!("{}\n", hex(&key)));
    make_whole(path, write, |err| err)?;
    sync_dir(dir)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != KEY_BYTES * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_then_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("deep/state");
        let key = load_or_make(&state).unwrap();
        assert_eq!(key.len(), KEY_BYTES);
        assert_eq!(load_or_make(&state).unwrap(), key);
        let names: Vec<_> = fs::read_dir(&state)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, [FILE], "no temporary file stays behind");
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
            assert!(keys.iter().all(|key| *key == keys[0]));
        }
    }

    #[test]
    fn damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "abc", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(31)] {
            fs::write(dir.path().join(FILE), bad).unwrap();
            let err = load_or_make(dir.path()).unwrap_err();
            assert!(err.message.contains(FILE), "{err}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        load_or_make(&state).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state), 0o700);
        assert_eq!(mode(&state.join(FILE)), 0o600);
    }
}
