//! The status line, for prompts that ask every second.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::error::FileError;
use super::folder::HandoffFolder;
use super::newest;
use super::read::{created, text_of};
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{GoalAndNow, goal_and_now, value_of};

/// How long what was read of a file counts: a clock that does not advance hides a change of the same file.
const FRESH: Duration = Duration::from_secs(30);

/// Reads status lines, and remembers what it read.
#[derive(Debug)]
pub struct LineReader {
    folder: HandoffFolder,
    known: HashMap<PathBuf, CachedLine>,
}

/// When a file was created, as it says in seconds, and when it was written.
type FileAge = (Time, Option<SystemTime>);

#[derive(Debug)]
struct CachedLine {
    goal: GoalAndNow,
    created: FileAge,
    modified: Option<SystemTime>,
    read: Instant,
}

impl LineReader {
    /// A reader of the files in this folder.
    pub fn new(folder: HandoffFolder) -> Self {
        Self {
            folder,
            known: HashMap::new(),
        }
    }

    /// Goal and next step of a session's newest file, or of the newest of all; `None` where there is none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(&mut self, session: Option<&str>, now: Instant) -> Result<Option<GoalAndNow>, FileError> {
        let sessions = match session {
            Some(session) => vec![session.to_owned()],
            None => self.folder.sessions()?,
        };
        let mut newest: Option<(FileAge, GoalAndNow)> = None;
        for session in sessions {
            let Some(found) = self.of_session(&session, now)? else {
                continue;
            };
            if newest.as_ref().is_none_or(|(at, _)| found.0 > *at) {
                newest = Some(found);
            }
        }
        Ok(newest.map(|(_, goal)| goal))
    }

    /// Forgets what was read.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The newest file of a session that states something.
    fn of_session(
        &mut self,
        session: &str,
        now: Instant,
    ) -> Result<Option<(FileAge, GoalAndNow)>, FileError> {
        let dir = self.folder.session_dir(session)?;
        for name in newest::sort(&dir, self.folder.files(session)?) {
            let path = dir.join(name);
            // What cannot be read is passed over.
            if let Some(found) = self.of_file(&path, now).filter(|(_, goal)| !goal.is_empty()) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn of_file(&mut self, path: &Path, now: Instant) -> Option<(FileAge, GoalAndNow)> {
        let modified = fs::symlink_metadata(path).ok()?.modified().ok();
        if let Some(known) = self.known.get(path)
            && known.modified == modified
            && now.saturating_duration_since(known.read) < FRESH
        {
            return Some((known.created, known.goal.clone()));
        }
        let text = text_of(path).ok()?;
        let known = CachedLine {
            goal: goal_and_now(&text),
            created: (created(&value_of(&text, "created_at"), path), modified),
            modified,
            read: now,
        };
        let found = (known.created, known.goal.clone());
        self.known.insert(path.to_owned(), known);
        Some(found)
    }
}
