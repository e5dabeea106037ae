mod files;
mod git;
mod processes;

use std::path::Path;

use super::{FileError, FileNaming, HandoffDirectory, WrittenFile};
use baton_core::handoffs::yaml::HandoffFile;
use baton_core::handoffs::yaml::time::Time;

/// A fixed time: 2026-11-22T18:05:48Z.
pub(super) const NOW: i64 = 1_795_370_748;

pub(super) fn at(seconds: i64) -> Time {
    Time::of_seconds(NOW + seconds)
}

pub(super) fn file(session: &str, goal: &str) -> HandoffFile {
    HandoffFile {
        session: session.to_owned(),
        goal: goal.to_owned(),
        now: format!("go on with {goal}"),
        ..HandoffFile::default()
    }
}

pub(super) fn directory(dir: &Path) -> HandoffDirectory {
    HandoffDirectory::new(&dir.join("handoffs")).unwrap()
}

/// Returns a directory without files, and the one that it is in.
pub(super) fn empty() -> (tempfile::TempDir, HandoffDirectory) {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    (dir, directory)
}

pub(super) fn write(directory: &HandoffDirectory, session: &str, goal: &str, now: Time) -> WrittenFile {
    let naming = FileNaming::Manual(goal.to_owned());
    directory.write(&mut file(session, goal), &naming, now).unwrap()
}

/// Writes a file as it is written without a user.
pub(super) fn write_automatic(
    directory: &HandoffDirectory,
    session: &str,
    goal: &str,
    now: Time,
) -> Result<WrittenFile, FileError> {
    directory.write(&mut file(session, goal), &FileNaming::Automatic, now)
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(read) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<_> = read
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    names
}
