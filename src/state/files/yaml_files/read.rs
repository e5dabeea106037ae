//! Finds and reads files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::directory::{ARCHIVE, HandoffDirectory, files_in, is_regular, no_links};
use super::error::{FileError, FileResult};
use super::newest;
use baton_core::handoffs::FieldError;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{
    GoalAndNow, HandoffFile, InvalidYaml, MAX_BYTES, goal_and_now, names, read, value_of,
};

/// A file that was found and read.
#[derive(Debug)]
pub struct HandoffYaml {
    /// Path of the file.
    pub path: PathBuf,
    /// Parsed content.
    pub file: HandoffFile,
    /// Violations of the format's rules.
    pub errors: Vec<FieldError>,
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct FileSearch<T> {
    /// Files that were found.
    pub found: T,
    /// Files that could not be read and were skipped.
    pub warnings: Vec<FileError>,
}

/// A file in a list. The field names are part of the JSON interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Path of the file.
    pub path: PathBuf,
    /// Session of the file.
    pub session: String,
    /// Creation time as RFC 3339.
    pub date: String,
    /// Status as the file states it.
    pub status: String,
    /// Goal as the file states it.
    pub goal: String,
    /// Whether the file was written automatically.
    pub is_auto: bool,
    /// Whether the file is in its session's archive.
    pub archived: bool,
}

/// Reads a file. Violations of the format's rules are reported in the result and are not an error.
///
/// # Errors
/// Returns an error if the file is missing, not regular, too large, not UTF-8, or not a YAML mapping.
pub fn read_file(path: &Path) -> FileResult<HandoffYaml> {
    let text = text_of(path)?;
    let read = read(&text).map_err(|error| FileError::Malformed(path.to_owned(), error))?;
    let errors = read.errors();
    let mut file = read.file;
    let has_time = [&file.updated_at, &file.created_at]
        .into_iter()
        .any(|at| Time::parse(at).is_some());
    // The name has at least minutes, while the file's `date` is only a day.
    if !has_time && let Some(at) = newest::named_at(path) {
        file.created_at = at.rfc3339();
    }
    Ok(HandoffYaml {
        path: path.to_owned(),
        file,
        errors,
    })
}

/// Reads the contents of a file.
fn text_of(path: &Path) -> FileResult<String> {
    let found = fs::symlink_metadata(path).map_err(FileError::at(path))?;
    if !found.is_file() {
        return Err(FileError::Refused(path.to_owned(), "not a regular file"));
    }
    let malformed = |message: String| FileError::Malformed(path.to_owned(), InvalidYaml { message, line: 0 });
    if found.len() > MAX_BYTES as u64 {
        return Err(malformed(format!("more than {MAX_BYTES} bytes")));
    }
    let bytes = fs::read(path).map_err(FileError::at(path))?;
    String::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8".to_owned()))
}

impl HandoffDirectory {
    /// Returns the newest readable file of a session, or the one created last among all sessions.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read. A missing file is not an error.
    pub fn latest(&self, session: Option<&str>) -> FileResult<FileSearch<Option<HandoffYaml>>> {
        let mut warnings = Vec::new();
        let found = self.newest(session, |path| match read_file(path) {
            Ok(found) => Some((created(&found.file.created_at, path), found)),
            Err(error) => {
                warnings.push(error);
                None
            }
        })?;
        Ok(FileSearch { found, warnings })
    }

    /// Returns the goal and next step of a session's newest file, or of the newest file of all.
    ///
    /// Returns `None` if there is none. Files are parsed only in part, because shell prompts call this every
    /// second.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn line(&self, session: Option<&str>) -> FileResult<Option<GoalAndNow>> {
        self.newest(session, |path| {
            let text = text_of(path).ok()?;
            let stated = Some(goal_and_now(&text)).filter(|stated| !stated.is_empty())?;
            Some((created(&value_of(&text, "created_at"), path), stated))
        })
    }

    /// Reads the newest file of a session, or the one created last among all sessions.
    ///
    /// `read` returns the creation time and the result, or `None` to pass over the file.
    fn newest<T>(
        &self,
        session: Option<&str>,
        mut read: impl FnMut(&Path) -> Option<(Time, T)>,
    ) -> FileResult<Option<T>> {
        let sessions = match session {
            Some(session) => vec![session.to_owned()],
            None => self.sessions()?,
        };
        let mut newest = None;
        for session in sessions {
            let mut paths = self.paths(&session)?.into_iter();
            let found = paths.find_map(|path| {
                let (created, found) = read(&path)?;
                // If two files were created in the same second, the one written last wins.
                Some(((created, newest::written(&path)), found))
            });
            if let Some(found) = found
                && newest.as_ref().is_none_or(|(at, _)| found.0 > *at)
            {
                newest = Some(found);
            }
        }
        Ok(newest.map(|(_, found)| found))
    }

    /// Lists the files of a session, or of all sessions, newest first.
    ///
    /// `archived` includes the files in archives. A limit of 0 means no limit.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn list(
        &self,
        session: Option<&str>,
        limit: usize,
        archived: bool,
    ) -> FileResult<FileSearch<Vec<FileSummary>>> {
        let sessions = match session {
            Some(session) => vec![self.session_dir(session)?],
            None => self.session_dirs()?,
        };
        let mut dirs = Vec::new();
        for dir in sessions {
            let archive = archived.then(|| dir.join(ARCHIVE));
            let session = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            dirs.push((session.clone(), dir));
            dirs.extend(archive.map(|archive| (session, archive)));
        }
        let mut all = Vec::new();
        for (session, dir) in dirs {
            no_links(&dir)?;
            let sorted = newest::sort(&dir, files_in(&dir)?);
            // Files beyond the limit within one session cannot be among the first of all.
            let most = if limit == 0 { sorted.len() } else { limit };
            for name in sorted.into_iter().take(most) {
                all.push((newest::age(&dir, &name), session.clone(), dir.join(name)));
            }
        }
        // The sort is stable, so it keeps the order within a session.
        all.sort_by_key(|(age, ..)| std::cmp::Reverse(age.minute));
        if limit > 0 {
            all.truncate(limit);
        }
        let mut listing: FileSearch<Vec<FileSummary>> = FileSearch::default();
        for (_, session, path) in all {
            match listed(session, path) {
                Ok(one) => listing.found.push(one),
                Err(error) => listing.warnings.push(error),
            }
        }
        Ok(listing)
    }

    /// Resolves a name that a user gives for a file: its path, or `SESSION/NAME.yaml` in this directory.
    ///
    /// Returns the name unchanged if neither is a file.
    pub fn named(&self, name: &Path) -> PathBuf {
        let inside = self.dir().join(name);
        // A file that exists under the path as given takes precedence.
        if !is_regular(name) && is_regular(&inside) {
            return inside;
        }
        name.to_owned()
    }
}

/// Returns when a file was created: as the file states it, or else according to the file system.
fn created(created_at: &str, path: &Path) -> Time {
    Time::parse(created_at)
        .or_else(|| newest::written(path))
        // A file without any time counts as the oldest.
        .unwrap_or(Time::of_seconds(0))
}

fn listed(session: String, path: PathBuf) -> FileResult<FileSummary> {
    let text = text_of(&path)?;
    let date = match value_of(&text, "created_at") {
        date if Time::parse(&date).is_some() => date,
        _ => created("", &path).rfc3339(),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(FileSummary {
        session,
        date,
        status: value_of(&text, "status"),
        goal: goal_and_now(&text).goal,
        is_auto: names::is_automatic(&name),
        archived: path.parent().is_some_and(|dir| dir.ends_with(ARCHIVE)),
        path,
    })
}
