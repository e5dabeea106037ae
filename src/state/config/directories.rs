//! Checks of the directories that keys name.
//!
//! Loading does not include them, because a command that writes nothing needs none of these directories.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::{Config, KeyOrigin, Problem, ProblemKind};
use crate::disk;

/// A key of a directory. baton writes into it, or it must exist already.
struct DirectoryKey {
    name: &'static str,
    path: fn(&Config) -> Option<&Path>,
    is_written: bool,
}

#[rustfmt::skip]
const KEYS: [DirectoryKey; 5] = [
    DirectoryKey { name: "state.dir", path: |c| Some(&c.state_dir), is_written: true },
    DirectoryKey { name: "handoff.dir", path: |c| c.documents.dir.as_deref(), is_written: true },
    DirectoryKey { name: "handoff.save_dir", path: |c| c.handoff.save_dir.as_deref(), is_written: true },
    DirectoryKey { name: "handoff.git_dir", path: |c| c.documents.git_dir.as_deref(), is_written: false },
    DirectoryKey { name: "draft.git_dir", path: |c| c.draft.git_dir.as_deref(), is_written: false },
];

/// Returns the keys of directories that are set, each with its origin.
pub(super) fn named(origins: &BTreeMap<String, KeyOrigin>) -> Vec<(&'static str, KeyOrigin)> {
    let rows = KEYS.iter();
    rows.filter_map(|key| Some((key.name, origins.get(key.name)?.clone())))
        .collect()
}

impl Config {
    /// Returns the problems of the directories that keys name, for the user of this process.
    pub fn directory_problems(&self) -> Vec<Problem> {
        let set = self.directories.iter();
        let set = set.filter_map(|(name, origin)| Some((KEYS.iter().find(|key| key.name == *name)?, origin)));
        let problem = |(key, origin): (&DirectoryKey, &KeyOrigin)| {
            let path = (key.path)(self)?;
            let (message, help) = key.problem(path)?;
            Some(Problem {
                kind: ProblemKind::Unavailable,
                origin: origin.clone(),
                key: key.name.to_owned(),
                message: format!("{} {message}", path.display()),
                help: Some(help.to_owned()),
            })
        };
        set.filter_map(problem).collect()
    }
}

impl DirectoryKey {
    /// Problem of a path, and advice.
    fn problem(&self, path: &Path) -> Option<(String, &'static str)> {
        const OTHER: &str = "correct the path; relative ones start at the working directory";
        if !self.is_written {
            return (!path.is_dir()).then(|| ("is not a directory".to_owned(), OTHER));
        }
        let error = disk::check_writable(path).err()?;
        Some(match error.kind() {
            io::ErrorKind::NotADirectory => ("is not a directory, or below a file".to_owned(), OTHER),
            _ => {
                let help =
                    "change its owner or mode, name another, or check as the user that runs `baton serve`";
                (format!("cannot be written: {error}"), help)
            }
        })
    }
}
