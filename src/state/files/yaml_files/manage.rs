//! Archives files and deletes them. Only regular files of ours inside the directory are ever touched.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::directory::DirectoryLock;
use super::directory::{ARCHIVE, HandoffDirectory, files_in};
use super::directory::{absolute, is_regular, no_links};
use super::error::FileError;
use super::newest;
use super::write::{archive_file, move_file};
use baton_core::handoffs::yaml::names;

/// A file that may be moved or deleted.
struct ManagedFile {
    /// The directory of its session.
    dir: PathBuf,
    name: String,
    archived: bool,
}

impl HandoffDirectory {
    /// Puts a file into the archive of its session; returns where it is now.
    ///
    /// # Errors
    /// It is not one of our files, is already in the archive, or cannot be moved.
    pub fn archive(&self, path: &Path) -> Result<PathBuf, FileError> {
        let managed = self.managed(path)?;
        if managed.archived {
            return Err(FileError::Refused(
                path.to_owned(),
                "it is in the archive already",
            ));
        }
        let _lock = DirectoryLock::new(&managed.dir)?;
        archive_file(&managed.dir, &managed.name)
    }

    /// The archived file that had this path before: a path, or `SESSION/NAME.yaml` in this directory.
    pub fn archived(&self, path: &Path) -> Option<PathBuf> {
        let inside = self.dir().join(path);
        let places = [absolute(path).ok()?, inside];
        let archived = places.iter().filter_map(|place| {
            let name = place.file_name()?;
            Some(place.parent()?.join(ARCHIVE).join(name))
        });
        archived
            .filter(|place| place.starts_with(self.dir()))
            .find(|place| is_regular(place))
    }

    /// Takes a file out of the archive of its session; returns where it is now.
    ///
    /// # Errors
    /// It is not one of our files, is not in the archive, or cannot be moved.
    pub fn restore(&self, path: &Path) -> Result<PathBuf, FileError> {
        let managed = self.managed(path)?;
        if !managed.archived {
            return Err(FileError::Refused(path.to_owned(), "it is not in the archive"));
        }
        let _lock = DirectoryLock::new(&managed.dir)?;
        move_file(&managed.path(), &managed.dir, &managed.name)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// It is not one of our files, or cannot be deleted.
    pub fn delete(&self, path: &Path) -> Result<(), FileError> {
        let managed = self.managed(path)?;
        let _lock = DirectoryLock::new(&managed.dir)?;
        let path = managed.path();
        fs::remove_file(&path).map_err(FileError::at(&path))
    }

    /// Deletes files from before a time, by the time in their names, with `archived` those in archives alone; returns them. The newest
    /// file of a session stays, however old it is. With `dry_run` none is deleted.
    ///
    /// # Errors
    /// A directory cannot be read or a file not be deleted.
    pub fn clean(&self, before: i64, archived: bool, dry_run: bool) -> Result<Vec<PathBuf>, FileError> {
        let mut deleted = Vec::new();
        for dir in self.session_dirs()? {
            let _lock = DirectoryLock::new(&dir)?;
            let mut newest = None;
            for (dir, is_archive) in [(dir.clone(), false), (dir.join(ARCHIVE), true)] {
                no_links(&dir)?;
                for name in newest::sort(&dir, files_in(&dir)?) {
                    let named = newest::age(&dir, &name);
                    let at = named.minute + i64::from(named.second.unwrap_or_default());
                    let path = dir.join(name);
                    let is_newest = newest.get_or_insert_with(|| path.clone()) == &path;
                    if at >= before || is_newest || (archived && !is_archive) {
                        continue;
                    }
                    if !dry_run {
                        fs::remove_file(&path).map_err(FileError::at(&path))?;
                    }
                    deleted.push(path);
                }
            }
        }
        deleted.sort();
        Ok(deleted)
    }

    /// The directories of all sessions, also those that have files in the archive alone.
    pub(super) fn session_dirs(&self) -> Result<Vec<PathBuf>, FileError> {
        no_links(self.dir())?;
        let some = |dir: &Path| files_in(dir).is_ok_and(|files| !files.is_empty());
        let sessions = self.directories(|dir| some(dir) || some(&dir.join(ARCHIVE)))?;
        Ok(sessions.iter().map(|session| self.dir().join(session)).collect())
    }

    /// The file at a path, if it is one of ours.
    fn managed(&self, path: &Path) -> Result<ManagedFile, FileError> {
        let refused = |why| Err(FileError::Refused(path.to_owned(), why));
        let whole = absolute(path)?;
        let Ok(inside) = whole.strip_prefix(self.dir()) else {
            return refused("outside of the directory of handoff files");
        };
        let parts: Option<Vec<&str>> = inside
            .components()
            .map(|component| match component {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        let (session, name, archived) = match parts.as_deref() {
            Some([session, name]) => (*session, *name, false),
            Some([session, ARCHIVE, name]) => (*session, *name, true),
            _ => return refused("not a file of a session"),
        };
        if !names::is_session(session) || !names::is_file(name) {
            return refused("not a file of a session: it ends in .yaml and does not begin with a dot");
        }
        no_links(&whole)?;
        let found = fs::symlink_metadata(&whole).map_err(FileError::at(path))?;
        if !found.is_file() {
            return refused("no regular file");
        }
        Ok(ManagedFile {
            dir: self.dir().join(session),
            name: name.to_owned(),
            archived,
        })
    }
}

impl ManagedFile {
    fn path(&self) -> PathBuf {
        match self.archived {
            true => self.dir.join(ARCHIVE).join(&self.name),
            false => self.dir.join(&self.name),
        }
    }
}
