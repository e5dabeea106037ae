//! Files of ours on disk: written under a temporary name and then renamed, so that a reader finds the old or the new
//! one whole. Locks are released by the kernel when their process ends.

use std::fs::{self, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// From this age on, a temporary file was left by a process that was killed: writing one takes milliseconds.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// Who may read a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// Its owner alone.
    Owner,
    /// Everybody; only the owner may write.
    Everybody,
}

/// A stage of writing a file, for tests that stop at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillStep {
    /// The temporary file exists.
    Opened,
    /// It has its contents.
    Filled,
    /// They are on disk.
    Flushed,
}

/// Options to create a file that only its owner can access.
pub(crate) fn private_file() -> fs::OpenOptions {
    options(FileAccess::Owner)
}

fn options(access: FileAccess) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(
        &mut options,
        match access {
            FileAccess::Owner => 0o600,
            FileAccess::Everybody => 0o644,
        },
    );
    options
}

/// A unique temporary name next to `path`: `PATH.<random>`.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn temporary(path: &Path) -> io::Result<PathBuf> {
    let mut tag = [0_u8; 8];
    getrandom::fill(&mut tag).map_err(|error| io::Error::other(error.to_string()))?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_le_bytes(tag)));
    Ok(name.into())
}

/// Writes and flushes a new file. Nothing is left where that fails.
///
/// # Errors
/// The file exists, or cannot be created, written or flushed.
pub(crate) fn fill(
    temp: &Path,
    contents: &[u8],
    access: FileAccess,
    step: &mut dyn FnMut(FillStep),
) -> io::Result<()> {
    let mut file = options(access).create_new(true).open(temp)?;
    step(FillStep::Opened);
    let filled = file.write_all(contents).and_then(|()| {
        step(FillStep::Filled);
        file.sync_all()
    });
    match filled {
        Ok(()) => step(FillStep::Flushed),
        Err(_) => drop(fs::remove_file(temp)),
    }
    filled
}

/// Gives a filled file its name, in place of what has it, and flushes the name. Nothing is left where that fails.
///
/// # Errors
/// It cannot be renamed or flushed.
pub(crate) fn put(temp: &Path, path: &Path) -> io::Result<()> {
    let named = fs::rename(temp, path);
    if named.is_err() {
        let _ = fs::remove_file(temp);
    }
    named?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Replaces a file atomically. The temporary name is always the same, so that a killed process leaves one at most, and the
/// next one overwrites it: the caller holds a lock.
///
/// # Errors
/// It cannot be written, flushed or renamed.
pub(crate) fn replace_locked(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut temp = path.as_os_str().to_owned();
    temp.push(".new");
    let temp = PathBuf::from(temp);
    match fs::remove_file(&temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fill(&temp, contents, FileAccess::Owner, &mut |_| {})?;
    put(&temp, path)
}

/// Gives a filled file a name that no other file has: `false` where one has it, and then nothing is changed.
///
/// # Errors
/// It cannot be named.
pub(crate) fn name_new(temp: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(temp, path) {
        Ok(()) => {
            let _ = fs::remove_file(temp);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // File systems without hard links: a rename is atomic too, but the last one wins.
        Err(_) if path.exists() => Ok(false),
        Err(_) => fs::rename(temp, path).map(|()| true),
    }
}

/// Deletes what killed processes left in a folder: old files with temporary names, which begin and end so.
pub(crate) fn sweep(dir: &Path, begins: &str, ends: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_temp = name
            .to_str()
            .is_some_and(|name| name.starts_with(begins) && name.ends_with(ends));
        let age = || {
            let modified = entry.metadata().ok()?.modified().ok()?;
            SystemTime::now().duration_since(modified).ok()
        };
        if is_temp && age().is_some_and(|age| age > ABANDONED_AFTER) {
            // A file that stays does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a folder with those above it.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make_dir(path: &Path, access: FileAccess) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(
        &mut builder,
        match access {
            FileAccess::Owner => 0o700,
            FileAccess::Everybody => 0o755,
        },
    );
    builder.create(path)
}

/// Flushes a folder, so that its files' names survive a power loss.
///
/// # Errors
/// It cannot be opened or flushed.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Takes the exclusive lock of a file, and waits for it at most so long: `false` where another process still holds it.
///
/// # Errors
/// The file system has no locks.
pub(crate) fn lock_within(file: &fs::File, limit: Duration, pause: Duration) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if began.elapsed() < limit => thread::sleep(pause),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        // What a killed process left does not stop the next one.
        fs::write(dir.path().join("f.new"), "half").unwrap();
        for text in ["one", "two"] {
            replace_locked(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("x")).unwrap();
        assert!(replace_locked(&folder, b"text").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_new_name_takes_nobodys_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let temp = temporary(&path).unwrap();
        fill(&temp, b"mine", FileAccess::Owner, &mut |_| {}).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(!name_new(&temp, &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert!(name_new(&temp, &dir.path().join("g")).unwrap());
        assert!(!temp.exists());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_what_is_the_owners() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for (name, access, mode) in [
            ("a", FileAccess::Owner, 0o600),
            ("b", FileAccess::Everybody, 0o644),
        ] {
            let path = dir.path().join(name);
            fill(&path, b"x", access, &mut |_| {}).unwrap();
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o022,
                mode & !0o022
            );
        }
    }

    #[test]
    fn a_lock_is_waited_for_and_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            private_file()
                .create(true)
                .truncate(false)
                .open(dir.path().join("lock"))
                .unwrap()
        };
        let (first, second) = (open(), open());
        let (limit, pause) = (Duration::from_millis(20), Duration::from_millis(1));
        assert!(lock_within(&first, limit, pause).unwrap());
        assert!(!lock_within(&second, limit, pause).unwrap());
        drop(first);
        assert!(lock_within(&second, limit, pause).unwrap());
    }
}
