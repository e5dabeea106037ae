//! Commands that failed and were not run again with success.

use super::Failed;
use crate::agents::commands::{self, Purpose};
use crate::draft::message::Call;

/// Failures that are remembered, the newest ones: each command is compared with them.
const MOST_FAILURES: usize = 128;

/// Tells a command that verifies from others: what it is for, its words, and the folder.
pub(super) type RunKey = (Purpose, String, Option<String>);

/// The key of a command of a call.
pub(super) fn run_key(run: &commands::Run<'_>, call: &Call) -> RunKey {
    let folder = run.folder.map(str::to_owned).or_else(|| call.folder.clone());
    (run.purpose, commands::name_of(run.text), folder)
}

/// The failures that nothing has settled, oldest first.
#[derive(Default)]
pub(super) struct Failures(Vec<Failure>);

struct Failure {
    failed: Failed,
    folder: Option<String>,
    /// The command of the line whose failing it was, or those of which one was.
    keys: Vec<RunKey>,
}

impl Failures {
    /// Takes failures out that this command settles, or of which it is not known whether it does.
    pub(super) fn settle(
        &mut self,
        command: &str,
        call: &Call,
        exit: Option<i32>,
        runs: &[commands::Run<'_>],
    ) {
        let good: Vec<RunKey> = runs
            .iter()
            .filter(|run| run.outcome(exit) != Some(false))
            .map(|run| run_key(run, call))
            .collect();
        let all_of = |failed: &RunKey| {
            good.iter().any(|(purpose, words, folder)| {
                *purpose == failed.0
                    && maybe_same(folder, &failed.2)
                    && (*words == failed.1
                        || failed
                            .1
                            .strip_prefix(words.as_str())
                            .is_some_and(|rest| rest.starts_with(' ')))
            })
        };
        self.0.retain(|failure| {
            let same = failure.failed.command == command && maybe_same(&failure.folder, &call.folder);
            let again = failure.keys.iter().any(all_of);
            // The newer of two failures of one command is the one to keep.
            !(same || again)
        });
    }

    /// A command failed.
    pub(super) fn add(&mut self, failed: Failed, call: &Call, runs: &[commands::Run<'_>]) {
        if self.0.len() == MOST_FAILURES {
            self.0.remove(0);
        }
        // Where the line does not tell which of its commands failed, it may have been any of them.
        let known = runs.iter().any(|run| run.bad_if_not);
        let failing = runs.iter().filter(|run| run.bad_if_not || !known);
        self.0.push(Failure {
            failed,
            folder: call.folder.clone(),
            keys: failing.map(|run| run_key(run, call)).collect(),
        });
    }

    /// What failed.
    pub(super) fn all(self) -> Vec<Failed> {
        self.0.into_iter().map(|failure| failure.failed).collect()
    }
}

/// Whether two folders may be the same: some shells stay where a command went.
fn maybe_same(a: &Option<String>, b: &Option<String>) -> bool {
    a == b || a.is_none() || b.is_none()
}
