//! The last run of each command that tests, builds or lints.

use std::collections::HashMap;

use super::{SeenFailure, SeenVerification};
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::ending::LineEnd;
use crate::handoffs::newest;

/// Runs that are compared with lines that may hide one. Beyond it all are forgotten: the cost must not grow with both.
const MOST_COMPARED: usize = 200_000;

/// A group of calls, and a call.
type CallOrder = (usize, usize);

/// A run, and when it was.
pub(super) struct VerificationRun {
    pub(super) verified: SeenVerification,
    pub(super) group: usize,
    pub(super) call: usize,
    /// Its own line may change files after it.
    pub(super) changes_after: bool,
}

#[derive(Default)]
pub(super) struct VerificationRuns {
    last: HashMap<RunKey, VerificationRun>,
    /// The number of runs that were compared with lines that may hide a run.
    compared: usize,
}

impl VerificationRuns {
    /// Keeps the run as the last one of its command.
    pub(super) fn put(&mut self, key: RunKey, run: VerificationRun) {
        self.last.insert(key, run);
    }

    /// Forgets those of which another run may not have been seen.
    pub(super) fn forget(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.last.retain(|key, _| !may_be(key));
    }

    /// Forgets those that a line may hide.
    pub(super) fn forget_hidden(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.compared += self.last.len();
        match self.compared > MOST_COMPARED {
            true => self.clear(),
            false => self.forget(may_be),
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.last.clear();
    }

    /// What is known of them, oldest first. `changed` is the last group in which a file was surely changed, `maybe` the
    /// last calls that may have changed one.
    pub(super) fn all(&self, changed: Option<usize>, maybe: [Option<CallOrder>; 2]) -> Vec<SeenVerification> {
        let stale = |run: &VerificationRun| {
            let others = maybe.iter().flatten();
            let mut unsure =
                others.filter(|(group, call)| *group > run.group || *group == run.group && *call != run.call);
            match changed {
                Some(group) if group > run.group => Some(true),
                Some(group) if group == run.group => None,
                _ if run.changes_after || unsure.next().is_some() => None,
                _ => Some(false),
            }
        };
        let mut runs: Vec<&VerificationRun> = self.last.values().collect();
        runs.sort_by_key(|run| (run.call, &run.verified.command));
        let verified = runs.into_iter().map(|run| SeenVerification {
            stale: stale(run),
            ..run.verified.clone()
        });
        verified.collect()
    }
}

/// Failures that are remembered, the newest ones: each command is compared with them.
const MOST_FAILURES: usize = 128;

/// Identity of a verifying command: its purpose, its words, and its directory.
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
    /// The directory that the line began in, where it is known.
    directory: Option<String>,
    /// The command of the line that failed, or those of which one did.
    keys: Vec<RunKey>,
}

impl Failures {
    /// Removes failures that this line settles or may settle. `directory` is where it begins.
    pub(super) fn settle(
        &mut self,
        command: &str,
        directory: Option<&str>,
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
            let maybe_there = failure.directory.as_deref() == directory
                || failure.directory.is_none()
                || directory.is_none();
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

    pub(super) fn add(
        &mut self,
        failed: SeenFailure,
        directory: Option<&str>,
        runs: &[KeyedCommand<'_, '_>],
    ) {
        // Where the line does not tell which of its commands failed, it may have been any of them.
        let known = runs.iter().any(|keyed| keyed.run.bad_if_not);
        let failing = runs.iter().filter(|keyed| keyed.run.bad_if_not || !known);
        let failure = OpenFailure {
            failed,
            directory: directory.map(str::to_owned),
            keys: failing.map(|keyed| keyed.key.clone()).collect(),
        };
        newest::push(&mut self.0, MOST_FAILURES, failure);
    }

    /// What failed.
    pub(super) fn all(self) -> Vec<SeenFailure> {
        self.0.into_iter().map(|failure| failure.failed).collect()
    }
}
