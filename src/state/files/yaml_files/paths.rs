//! Which paths may be touched.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::error::FileError;
use crate::state::disk::{self, FileAccess};

/// Refuses a path with a symbolic link on the way: anybody who may write into a folder could lead a write anywhere.
///
/// A link directly below the root is followed, since only the system's administrator makes those (`/home` and `/var` on
/// some systems, `/tmp` and `/etc` on macOS).
pub(super) fn no_links(path: &Path) -> Result<(), FileError> {
    let path = absolute(path)?;
    let mut so_far = PathBuf::new();
    let mut names = 0;
    for component in path.components() {
        so_far.push(component);
        match component {
            Component::Normal(_) => names += 1,
            Component::ParentDir => return Err(FileError::Refused(path, "a path with `..` in it")),
            _ => continue,
        }
        match fs::symlink_metadata(&so_far) {
            Ok(found) if found.is_symlink() && names > 1 => {
                return Err(FileError::Refused(so_far, "a symbolic link"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::Io(so_far, error)),
        }
    }
    Ok(())
}

/// The path from the root on, without `.`.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    std::path::absolute(path).map_err(FileError::at(path))
}

/// Makes a folder with those above it, readable for everybody who may reach it.
pub(super) fn make_dir(path: &Path) -> Result<(), FileError> {
    no_links(path)?;
    disk::make_dir(path, FileAccess::Everybody).map_err(|error| FileError::Folder(path.to_owned(), error))?;
    // Somebody may have been faster with something else.
    no_links(path)
}

/// Whether there is a regular file, and no link to one.
pub(super) fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
