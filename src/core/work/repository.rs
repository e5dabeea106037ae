//! The state of the repository, tracked through git's output command by command.

use crate::agents::outcomes::GitReport;

/// The known state of the repository at one point of the transcript.
#[derive(Debug, Default)]
pub(crate) struct RepositoryState {
    pub(crate) branch: Option<String>,
    head: Option<String>,
    /// Whether git reported no difference from the head, and nothing may have changed since.
    clean: bool,
    /// Whether a verifying command passed, and neither a file nor the head may have changed since.
    passed: bool,
    /// The head at the last pass of a verifying command without any difference from it.
    pub(crate) good: Option<String>,
}

impl RepositoryState {
    /// Creates a state with the branch that the agent names.
    pub(crate) fn on(branch: Option<String>) -> Self {
        Self {
            branch,
            ..Self::default()
        }
    }

    /// Records that a file was changed, or may have been.
    pub(crate) fn changed(&mut self) {
        self.clean = false;
        self.passed = false;
    }

    /// Records that a verifying command passed.
    pub(crate) fn passed(&mut self) {
        self.passed = true;
        self.note();
    }

    /// Records that a verifying command failed; an earlier pass may not have covered everything.
    pub(crate) fn failed(&mut self) {
        self.passed = false;
    }

    /// Applies git's report. Returns whether it reports a commit.
    pub(crate) fn apply(&mut self, report: &GitReport) -> bool {
        match report {
            GitReport::Branch(name) => {
                // `git status` names the branch each time; only another branch has another head.
                if self.branch.as_ref() != Some(name) {
                    self.branch = Some(name.clone());
                    self.head = None;
                }
            }
            GitReport::Committed(hash) => {
                self.head = Some(hash.clone());
                // A commit need not contain all changes.
                self.clean = false;
            }
            GitReport::Left => {
                self.branch = None;
                self.head = None;
                self.clean = false;
            }
            GitReport::Head(hash) => self.head = Some(hash.clone()),
            GitReport::Clean => {
                self.clean = true;
                self.note();
            }
        }
        matches!(report, GitReport::Committed(_))
    }

    fn note(&mut self) {
        // The check and the clean state may be seen in either order.
        if self.clean && self.passed && self.head.is_some() {
            self.good = self.head.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(hash: &str) -> GitReport {
        GitReport::Committed(hash.to_owned())
    }

    #[test]
    fn a_commit_is_good_where_it_was_tested_with_nothing_changed() {
        // Tested and committed; then git reports a clean tree.
        let mut one = RepositoryState::default();
        one.passed();
        one.apply(&committed("1"));
        assert_eq!(one.good, None);
        one.apply(&GitReport::Clean);
        assert_eq!(one.good.as_deref(), Some("1"));
        // Clean, then tested.
        let mut two = RepositoryState::default();
        two.apply(&committed("2"));
        two.apply(&GitReport::Clean);
        two.passed();
        assert_eq!(two.good.as_deref(), Some("2"));
        // Changed in between.
        let mut three = RepositoryState::default();
        three.apply(&committed("3"));
        three.apply(&GitReport::Clean);
        three.changed();
        three.passed();
        assert_eq!(three.good, None);
        // Another branch has another head.
        let mut four = RepositoryState::default();
        four.apply(&committed("4"));
        four.apply(&GitReport::Branch("new".to_owned()));
        four.apply(&GitReport::Clean);
        four.passed();
        assert_eq!(four.good, None);
    }
}
