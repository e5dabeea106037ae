//! Deletes the files of handoffs, and their entries in the ledgers.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{ARCHIVE, DirectoryLock, HandoffDirectory, LOCK, files_in, no_links};
use super::error::FileError;
use super::read::read_file;
use super::write::put;
use baton_core::handoffs::yaml::ledger_without;
use baton_core::handoffs::yaml::time::Time;
use baton_core::record::HandoffId;

/// Returns the handoff that a file was written for, and its time. Returns `None` for a file that a user wrote.
fn handoff_of(path: &Path) -> Option<(HandoffId, Option<Time>)> {
    let file = read_file(path).ok()?.file;
    let id = file.findings.get("handoff")?.parse().ok()?;
    Some((id, Time::parse(&file.created_at)))
}

impl HandoffDirectory {
    /// Returns the handoffs that files were written for, with the times that the files state.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be read.
    pub fn handoffs(&self) -> Result<Vec<(HandoffId, Time)>, FileError> {
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
    ) -> Result<Vec<PathBuf>, FileError> {
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
    fn forget_in_ledger(&self, session: &str, names: &HashSet<String>, stays: bool) -> Result<(), FileError> {
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
