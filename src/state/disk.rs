//! Atomic writes and file locks.
//!
//! A file is written under a temporary name and then renamed, so a reader sees either the old or the new
//! contents. The kernel releases a lock when its process ends.

use std::fs::{self, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Access, OFlags};
use tempfile::NamedTempFile;

/// Age at which a temporary file counts as abandoned by a killed process. Writing a file takes milliseconds.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// Who may read a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Only the owner may read and write.
    Owner,
    /// Everybody may read. Only the owner may write.
    Everybody,
}

/// Test hook, called with the name of each stage of writing a file.
#[cfg(test)]
type StageCall = Box<dyn Fn(&str) + Send + Sync>;

#[cfg(test)]
pub(crate) static AT_STAGES: std::sync::OnceLock<StageCall> = std::sync::OnceLock::new();

/// Marks a stage of writing a file as complete. Tests end the process here.
pub fn reached(_stage: &str) {
    #[cfg(test)]
    if let Some(call) = AT_STAGES.get() {
        call(_stage);
    }
}

/// Returns options that create a file which only its owner can access.
pub fn private_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FileAccess::Owner.mode());
    options
}

/// Opens a regular file with these options, without following a link.
///
/// # Errors
/// Returns an error if the file cannot be opened or is not a regular file.
pub fn open_regular(path: &Path, options: &mut fs::OpenOptions) -> io::Result<fs::File> {
    open_file(path, options, OFlags::NOFOLLOW)
}

/// Opens a regular file that a user names, following links. A FIFO or a device could keep the reader waiting forever.
///
/// # Errors
/// Returns an error if the file cannot be opened or is not a regular file.
pub fn open_named(path: &Path) -> io::Result<fs::File> {
    open_file(path, fs::OpenOptions::new().read(true), OFlags::empty())
}

/// Reads a regular file that a user names, like [`open_named`].
///
/// # Errors
/// Returns an error if the file cannot be read, or is neither UTF-8 nor a regular file.
pub fn read_named(path: &Path) -> io::Result<String> {
    io::read_to_string(open_named(path)?)
}

/// Reads a regular file of at most 64 KiB: a secret, or the file of a client. Follows links, because platforms that
/// replace secrets name them by links.
///
/// # Errors
/// Returns an error if the file cannot be read, is larger, or is neither UTF-8 nor a regular file.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    const MAX_BYTES: u64 = 64 << 10;
    let file = open_named(path)?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "larger than 64 KiB")),
        false => Ok(text),
    }
}

fn open_file(path: &Path, options: &mut fs::OpenOptions, flags: OFlags) -> io::Result<fs::File> {
    // `NONBLOCK`, because opening a FIFO would wait for its other end.
    let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

impl FileAccess {
    /// Returns the permission bits of a file.
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Everybody => 0o644,
        }
    }
}

/// Writes and flushes a new temporary file in a directory. The file is deleted unless it is renamed.
///
/// # Errors
/// Returns an error if the file cannot be created, written or flushed.
pub fn fill(
    named: &mut tempfile::Builder<'_, '_>,
    dir: &Path,
    contents: &[u8],
    access: FileAccess,
) -> io::Result<NamedTempFile> {
    // Set when the file is created, so that it is never readable by others.
    named.permissions(std::os::unix::fs::PermissionsExt::from_mode(access.mode()));
    let mut file = named.tempfile_in(dir)?;
    reached("opened");
    file.write_all(contents)?;
    reached("filled");
    file.as_file().sync_all()?;
    reached("flushed");
    Ok(file)
}

/// Renames a temporary file, replacing any file of that name, and flushes the directory.
///
/// # Errors
/// Returns an error if the file cannot be renamed, or the directory not flushed.
pub fn put(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Replaces a file atomically. The caller must hold a lock.
///
/// The temporary name is always the same. A killed process therefore leaves at most one temporary file, which
/// the next call overwrites.
///
/// # Errors
/// Returns an error if the file cannot be written, flushed or renamed.
pub fn replace_locked(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut temp = path.file_name().unwrap_or_default().to_owned();
    temp.push(".new");
    let dir = path.parent().unwrap_or(Path::new("."));
    // The temporary file of a killed process would make the creation fail.
    match fs::remove_file(dir.join(&temp)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut named = tempfile::Builder::new();
    put(
        fill(
            named.prefix(&temp).rand_bytes(0),
            dir,
            contents,
            FileAccess::Owner,
        )?,
        path,
    )
}

/// Gives a temporary file a name that is still free. Returns the temporary file if the name already exists.
///
/// # Errors
/// Returns an error if the file cannot be renamed.
pub(crate) fn name_new(file: NamedTempFile, path: &Path) -> io::Result<Option<NamedTempFile>> {
    match file.persist_noclobber(path) {
        Ok(_) => Ok(None),
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists || path.exists() => {
            Ok(Some(taken.file))
        }
        // Some file systems have neither such a rename nor hard links. A plain rename is atomic as well, but
        // lets the last writer win.
        Err(failed) => Ok(failed.file.persist(path).map(|_| None)?),
    }
}

/// Deletes abandoned temporary files in a directory: old files whose names have this prefix and suffix.
pub fn sweep(dir: &Path, begins: &str, ends: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_it = |name: &str| name.starts_with(begins) && name.ends_with(ends);
        let is_temp = name.to_str().is_some_and(is_it);
        let age = || {
            let modified = entry.metadata().ok()?.modified().ok()?;
            SystemTime::now().duration_since(modified).ok()
        };
        if is_temp && age().is_some_and(|age| age > ABANDONED_AFTER) {
            // A file that cannot be deleted does no harm. The next sweep tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Creates a directory and its parents.
///
/// # Errors
/// Returns an error if a directory cannot be created.
pub fn make_dir(path: &Path, access: FileAccess) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    let mode = match access {
        FileAccess::Owner => 0o700,
        FileAccess::Everybody => 0o755,
    };
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    builder.create(path)
}

/// Checks that files can be created in a directory, or that it can be made.
///
/// # Errors
/// Returns an error if a file is in its place, or this user may not write there.
pub fn check_writable(dir: &Path) -> io::Result<()> {
    // A relative path of one name has an empty parent.
    let named = |dir: &Path| !dir.as_os_str().is_empty();
    let found = dir
        .ancestors()
        .take_while(|dir| named(dir))
        .find(|dir| dir.exists());
    let found = found.unwrap_or(if dir.is_absolute() {
        Path::new("/")
    } else {
        Path::new(".")
    });
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(found, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Returns the free space of a directory's file system in bytes, or `None` if it cannot be read.
///
/// A directory that does not exist yet has that of the nearest one above it.
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let found = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok())?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Flushes a directory, so that the names of its files survive a power loss.
///
/// # Errors
/// Returns an error if the directory cannot be opened or flushed.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Takes the exclusive lock of a file, waiting at most `limit`. Returns `false` if another process still
/// holds it.
///
/// # Errors
/// Returns an error if the file system does not support locks.
pub fn lock_within(file: &fs::File, limit: Duration, pause: Duration) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            // Polled: the standard library's blocking lock has no time limit.
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
    fn a_directory_is_writable_if_it_or_the_nearest_one_above_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let checked = |below: &str| check_writable(&dir.path().join(below)).map_err(|error| error.kind());
        for writable in ["", "a", "a/b/c"] {
            assert_eq!(checked(writable), Ok(()), "{writable}");
        }
        assert_eq!(check_writable(Path::new("none-of-this-name")).ok(), Some(()));
        for other in ["file", "file/a/b"] {
            assert_eq!(checked(other), Err(io::ErrorKind::NotADirectory), "{other}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        // A temporary file left by a killed process does not stop the next write.
        fs::write(dir.path().join("f.new"), "half").unwrap();
        for text in ["one", "two"] {
            replace_locked(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let directory = dir.path().join("folder");
        fs::create_dir_all(directory.join("x")).unwrap();
        assert!(replace_locked(&directory, b"text").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_new_name_takes_nobodys_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut named = tempfile::Builder::new();
        let temp = fill(&mut named, dir.path(), b"mine", FileAccess::Owner).unwrap();
        fs::write(&path, "theirs").unwrap();
        let temp = name_new(temp, &path).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert!(name_new(temp, &dir.path().join("g")).unwrap().is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn only_the_owner_reads_what_is_the_owners() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for (name, access, mode) in [
            ("a", FileAccess::Owner, 0o600),
            ("b", FileAccess::Everybody, 0o644),
        ] {
            let path = dir.path().join(name);
            let file = fill(&mut tempfile::Builder::new(), dir.path(), b"x", access).unwrap();
            put(file, &path).unwrap();
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
