//! Commands that failed and have not succeeded since.

use super::SeenFailure;
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::ending::LineEnd;
use crate::handoffs::newest;

/// Failures that are remembered, the newest ones: each command is compared with them.
const MOST_FAILURES: usize = 128;

/// Identity of a verifying command: its purpose, its words, and its folder.
pub(super) type RunKey = (CommandPurpose, String, String);

/// A command of a line with its key.
pub(super) struct KeyedCommand<'r, 'l> {
    pub(super) run: &'r commands::ShellCommand<'l>,
    pub(super) key: RunKey,
}

/// The failures that nothing has settled, oldest first.
#[derive(Default)]
pub(super) struct Failures(Vec<OpenFailure>);

struct OpenFailure {
    failed: SeenFailure,
    /// The folder that the line began in, where it is known.
    folder: Option<String>,
    /// The command of the line that failed, or those of which one did.
    keys: Vec<RunKey>,
}

impl Failures {
    /// Removes failures that this line settles or may settle. `folder` is where it begins.
    pub(super) fn settle(
        &mut self,
        command: &str,
        folder: Option<&str>,
        end: &LineEnd,
        runs: &[KeyedCommand<'_, '_>],
    ) {
        let good = |keyed: &&KeyedCommand<'_, '_>| keyed.run.end(end).passed() != Some(false);
        let good: Vec<&RunKey> = runs.iter().filter(good).map(|keyed| &keyed.key).collect();
        let all_of = |failed: &RunKey| {
            good.iter().any(|(purpose, words, inside)| {
                let rest = failed.1.strip_prefix(words.as_str());
                let is_same = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
                *purpose == failed.0 && *inside == failed.2 && is_same
            })
        };
        self.0.retain(|failure| {
            let maybe_there =
                failure.folder.as_deref() == folder || failure.folder.is_none() || folder.is_none();
            let same = failure.failed.command == command && maybe_there;
            let again = failure.keys.iter().any(all_of);
            // The newer of two failures of one command is the one to keep.
            !(same || again)
        });
    }

    /// Removes failures that one of these commands may have repeated.
    pub(super) fn forget(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.0.retain(|failure| !failure.keys.iter().any(&may_be));
    }

    /// Removes all: calls that settle them may be missing.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn add(&mut self, failed: SeenFailure, folder: Option<&str>, runs: &[KeyedCommand<'_, '_>]) {
        // Where the line does not tell which of its commands failed, it may have been any of them.
        let known = runs.iter().any(|keyed| keyed.run.bad_if_not);
        let failing = runs.iter().filter(|keyed| keyed.run.bad_if_not || !known);
        let failure = OpenFailure {
            failed,
            folder: folder.map(str::to_owned),
            keys: failing.map(|keyed| keyed.key.clone()).collect(),
        };
        newest::push(&mut self.0, MOST_FAILURES, failure);
    }

    /// What failed.
    pub(super) fn all(self) -> Vec<SeenFailure> {
        self.0.into_iter().map(|failure| failure.failed).collect()
    }
}
