//! Archives, restores and deletes files. Only regular handoff files inside the directory are ever touched.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use super::directory::{
    ARCHIVE, DirectoryLock, HandoffDirectory, LOCK, absolute, files_in, is_regular, no_links,
};
use super::error::{FileError, FileResult};
use super::newest;
use super::read::read_file;
use super::write::{archive_file, move_file, put};
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{ledger_without, names};
use baton_core::record::HandoffId;
use std::collections::HashSet;

/// A file that may be moved or deleted.
struct ManagedFile {
    /// Directory of the file's session.
    dir: PathBuf,
    name: String,
    archived: bool,
}

impl HandoffDirectory {
    /// Moves a file into its session's archive. Returns the new path.
    ///
    /// # Errors
    /// Returns an error if it is not a handoff file, is already archived, or cannot be moved.
    pub fn archive(&self, path: &Path) -> FileResult<PathBuf> {
        let managed = self.managed(path)?;
        if managed.archived {
            let why = "it is in the archive already";
            return Err(FileError::Refused(path.to_owned(), why));
        }
        let _lock = DirectoryLock::new(&managed.dir)?;
        archive_file(&managed.dir, &managed.name)
    }

    /// Finds the archived file that had this path before. The path may be `SESSION/NAME.yaml` in this
    /// directory.
    pub fn archived(&self, path: &Path) -> Option<PathBuf> {
        let inside = self.dir().join(path);
        let places = [absolute(path).ok()?, inside];
        let archived = places.iter().filter_map(|place| {
            let name = place.file_name()?;
            Some(place.parent()?.join(ARCHIVE).join(name))
        });
        let mut inside = archived.filter(|place| place.starts_with(self.dir()));
        inside.find(|place| is_regular(place))
    }

    /// Moves a file out of its session's archive. Returns the new path.
    ///
    /// # Errors
    /// Returns an error if it is not a handoff file, is not archived, or cannot be moved.
    pub fn restore(&self, path: &Path) -> FileResult<PathBuf> {
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
    /// Returns an error if it is not a handoff file, or cannot be deleted.
    pub fn delete(&self, path: &Path) -> FileResult<()> {
        let managed = self.managed(path)?;
        let _lock = DirectoryLock::new(&managed.dir)?;
        let path = managed.path();
        fs::remove_file(&path).map_err(FileError::at(&path))
    }

    /// Deletes files whose names state a time before `before`, and returns their paths.
    ///
    /// The newest file of a session stays, however old it is. With `archived` only files in archives are
    /// deleted, and with `dry_run` none is.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read or a file cannot be deleted.
    pub fn clean(&self, before: i64, archived: bool, dry_run: bool) -> FileResult<Vec<PathBuf>> {
        let mut deleted = Vec::new();
        for dir in self.session_dirs()? {
            let _lock = DirectoryLock::new(&dir)?;
            let mut newest = None;
            for (dir, is_archive) in [(dir.clone(), false), (dir.join(ARCHIVE), true)] {
                no_links(&dir)?;
                for name in newest::sort(&dir, files_in(&dir)?) {
                    let named = newest::age(&dir, &name);
                    // Names of manual files have no seconds, and count from the beginning of their minute.
                    let at = named.minute + i64::from(named.second.unwrap_or_default());
                    let path = dir.join(name);
                    // The session's directory comes before its archive, so the first file seen is the newest
                    // of both.
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

    /// Returns the directories of all sessions, including those with archived files only.
    pub(super) fn session_dirs(&self) -> FileResult<Vec<PathBuf>> {
        no_links(self.dir())?;
        let some = |dir: &Path| files_in(dir).is_ok_and(|files| !files.is_empty());
        let sessions = self.directories(|dir| some(dir) || some(&dir.join(ARCHIVE)))?;
        Ok(sessions.iter().map(|session| self.dir().join(session)).collect())
    }

    /// Resolves a path to a handoff file, or refuses it.
    fn managed(&self, path: &Path) -> FileResult<ManagedFile> {
        let refused = |why| Err(FileError::Refused(path.to_owned(), why));
        let whole = absolute(path)?;
        let Ok(inside) = whole.strip_prefix(self.dir()) else {
            return refused("outside of the directory of handoff files");
        };
        let parts = inside.components().map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let parts: Option<Vec<&str>> = parts.collect();
        let (session, name, archived) = match parts.as_deref() {
            Some([session, name]) => (*session, *name, false),
            Some([session, ARCHIVE, name]) => (*session, *name, true),
            _ => return refused("not a file of a session"),
        };
        if !names::is_session(session) || !names::is_file(name) {
            return refused(
                "not a file of a session, whose name ends in .yaml and does not begin with a dot",
            );
        }
        no_links(&whole)?;
        let found = fs::symlink_metadata(&whole).map_err(FileError::at(path))?;
        if !found.is_file() {
            return refused("not a regular file");
        }
        Ok(ManagedFile {
            dir: self.dir().join(session),
            name: name.to_owned(),
            archived,
        })
    }

    /// Returns the handoffs that files were written for, with the times that the files state.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read.
    pub fn handoffs(&self) -> FileResult<Vec<(HandoffId, Time)>> {
        let mut found = Vec::new();
        for session in self.session_dirs()? {
            for dir in [session.clone(), session.join(ARCHIVE)] {
                let names = files_in(&dir)?.into_iter();
                found.extend(names.filter_map(|name| {
                    let (id, at) = handoff_of(&dir.join(name))?;
                    Some((id, at?))
                }));
            }
        }
        Ok(found)
    }

    /// Deletes the files that `is_selected` selects by session and handoff, with their entries in the ledgers.
    /// Returns their paths.
    ///
    /// A session without further files loses its ledger and its directory as well. With `dry_run` nothing is
    /// deleted.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read or a file cannot be deleted.
    pub fn forget(
        &self,
        is_selected: impl Fn(&str, Option<HandoffId>) -> bool,
        dry_run: bool,
    ) -> FileResult<Vec<PathBuf>> {
        let mut deleted = Vec::new();
        for dir in self.session_dirs()? {
            let session = dir.file_name().unwrap_or_default().to_string_lossy();
            let _lock = DirectoryLock::new(&dir)?;
            let (mut names, mut stays) = (HashSet::new(), false);
            for dir in [dir.clone(), dir.join(ARCHIVE)] {
                no_links(&dir)?;
                for name in files_in(&dir)? {
                    let path = dir.join(&name);
                    if !is_selected(&session, handoff_of(&path).map(|(id, _)| id)) {
                        stays = true;
                        continue;
                    }
                    if !dry_run {
                        fs::remove_file(&path).map_err(FileError::at(&path))?;
                    }
                    names.insert(name);
                    deleted.push(path);
                }
            }
            if dry_run || names.is_empty() {
                continue;
            }
            self.forget_in_ledger(&session, &names, stays)?;
            if !stays {
                // The directory's name may tell the client and the project. If another program keeps files
                // in it, it stays.
                let _ = fs::remove_dir(dir.join(ARCHIVE));
                let _ = fs::remove_file(dir.join(LOCK));
                let _ = fs::remove_dir(&dir);
            }
        }
        Ok(deleted)
    }

    /// Removes the entries of files from a session's ledger. The caller has locked the session's directory.
    fn forget_in_ledger(&self, session: &str, names: &HashSet<String>, stays: bool) -> FileResult<()> {
        let ledger = self.ledger(session);
        no_links(&ledger)?;
        let text = match fs::read_to_string(&ledger) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(FileError::at(&ledger))?,
        };
        let kept = ledger_without(&text, names);
        match stays && !kept.is_empty() {
            true => put(&ledger, &kept),
            false => fs::remove_file(&ledger).map_err(FileError::at(&ledger)),
        }
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

/// Returns the handoff that a file was written for, and its time. Returns `None` for a file that a user wrote.
fn handoff_of(path: &Path) -> Option<(HandoffId, Option<Time>)> {
    let file = read_file(path).ok()?.file;
    let id = file.findings.get("handoff")?.parse().ok()?;
    Some((id, Time::parse(&file.created_at)))
}
