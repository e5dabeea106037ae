//! The files that calls changed, and the net effect of all changes of each.

use std::collections::HashMap;

use super::SeenChange;
use crate::agents::files::FileChange;
use crate::text::prose::has_path;

/// Maximum number of comparisons between words of commands and paths; beyond it, any file counts as uncertain.
///
/// Without it, the cost would be the product of both counts.
const MOST_LOOKS: usize = 1_000_000;

/// Maximum number of kept words from commands that may remove files.
const MOST_GONE: usize = 200;

/// All changed files, in the order of their first changes.
#[derive(Default)]
pub(crate) struct ChangedFiles {
    all: Vec<FileHistory>,
    by_path: HashMap<String, usize>,
    /// Number of comparisons between words of commands and paths so far.
    looks: usize,
    /// Words of commands that may have removed files which no call had changed.
    gone: Vec<String>,
    /// Whether any file may be gone: there were too many of these words, or a command may have removed any file.
    any_gone: bool,
}

struct FileHistory {
    path: String,
    first: FileChange,
    last: FileChange,
    made: FileEdit,
    /// Whether the change may be void: a command may have removed or restored the file, or no result confirms the
    /// change.
    uncertain: bool,
}

/// A change of a file by a call.
#[derive(Clone)]
pub(crate) struct FileEdit {
    /// Number of the group of calls that the model made at once.
    pub(crate) group: usize,
    pub(crate) turn: usize,
    /// Number of the call.
    pub(crate) call: usize,
    /// The model's sentence about the change.
    pub(crate) why: Option<String>,
}

impl ChangedFiles {
    /// Whether this path was changed.
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Adds a certain change of the file at this path.
    pub(crate) fn add(&mut self, path: String, change: FileChange, made: FileEdit) {
        let file = self.entry(path, change, &made);
        // Whether the file existed before is uncertain now, so the first change becomes "written".
        if file.uncertain {
            file.first = FileChange::Written;
            file.uncertain = false;
        }
        file.last = change;
        file.made = made;
    }

    /// Adds a change that the call's result does not confirm. A change that is already certain stays certain.
    pub(crate) fn add_doubtful(&mut self, path: String, change: FileChange, made: FileEdit) {
        let is_new = !self.holds(&path);
        let file = self.entry(path, change, &made);
        // A failed second change leaves the first one in place.
        file.uncertain |= is_new;
        if file.uncertain {
            file.last = change;
            file.made = made;
        }
    }

    fn entry(&mut self, path: String, change: FileChange, made: &FileEdit) -> &mut FileHistory {
        let index = *self.by_path.entry(path.clone()).or_insert(self.all.len());
        if index == self.all.len() {
            // A file that a command may have removed existed before the work began, so it is not certainly new.
            let may_be_old = self.any_gone || self.gone.iter().any(|gone| is_same(gone, &path));
            let change = match change {
                FileChange::Created if may_be_old => FileChange::Written,
                change => change,
            };
            self.all.push(FileHistory {
                path,
                first: change,
                last: change,
                made: made.clone(),
                uncertain: false,
            });
        }
        &mut self.all[index]
    }

    /// Marks the files that a command may have removed or restored to an earlier state. An empty path stands for any.
    pub(crate) fn undone(&mut self, named: &[String]) {
        // Beyond the limit, every file counts as uncertain, so that a long session loses certainty and not time.
        self.looks += self.all.len().saturating_mul(named.len());
        let anything = self.looks > MOST_LOOKS || named.iter().any(String::is_empty);
        self.any_gone = self.any_gone || anything || self.gone.len() > MOST_GONE;
        if !self.any_gone {
            self.gone.extend_from_slice(named);
        }
        for file in self.all.iter_mut().filter(|file| !file.uncertain) {
            file.uncertain = anything || named.iter().any(|named| is_same(named, &file.path));
        }
    }

    /// The files with a net change: either the certain or the uncertain ones. Changes that cancel out are omitted.
    pub(crate) fn all(&self, is_certain: bool) -> Vec<SeenChange> {
        let changed = |file: &FileHistory| {
            Some(SeenChange {
                path: file.path.clone(),
                change: net(file)?,
                why: file.made.why.clone(),
                turn: file.made.turn,
                call: file.made.call,
            })
        };
        let files = self.all.iter().filter(|file| file.uncertain != is_certain);
        files.filter_map(changed).collect()
    }

    /// The paths of files with certain changes after this group of calls; empty if the group is unknown.
    pub(crate) fn since(&self, group: Option<usize>) -> Vec<String> {
        let later = |file: &&FileHistory| group.is_some_and(|group| file.made.group > group);
        let files = self
            .all
            .iter()
            .filter(|file| !file.uncertain)
            .filter(later)
            .filter(|file| net(file).is_some());
        files.map(|file| file.path.clone()).collect()
    }
}

/// Whether two paths from unknown directories may be the same, or one a directory of the other.
fn is_same(a: &str, b: &str) -> bool {
    has_path(a, b) || has_path(b, a)
}

/// The net effect of all changes of a file; `None` if it was created and deleted.
fn net(file: &FileHistory) -> Option<FileChange> {
    Some(match (file.first, file.last) {
        (FileChange::Created, FileChange::Deleted) => return None,
        (_, FileChange::Deleted) => FileChange::Deleted,
        (FileChange::Created, _) => FileChange::Created,
        (FileChange::Deleted | FileChange::Modified, _) => FileChange::Modified,
        (FileChange::Written, _) => FileChange::Written,
    })
}

#[cfg(test)]
mod tests {
    use super::{ChangedFiles, FileChange, FileEdit};

    #[test]
    fn a_command_that_removes_a_file_makes_that_one_uncertain() {
        let mut files = ChangedFiles::default();
        let made = FileEdit {
            group: 1,
            turn: 1,
            call: 1,
            why: None,
        };
        for path in ["src/a.rs", "src/b.rs"] {
            files.add(path.to_owned(), FileChange::Written, made.clone());
        }
        files.undone(&["src/a.rs".to_owned()]);
        let paths = |is_certain| -> Vec<String> {
            let changes = files.all(is_certain).into_iter();
            changes.map(|change| change.path).collect()
        };
        assert_eq!(paths(true), ["src/b.rs"]);
        assert_eq!(paths(false), ["src/a.rs"]);
    }
}
