//! The last run of each command that tests, builds, lints or has a lasting effect.

use std::collections::HashMap;

use super::{SeenEffect, SeenVerification};
use crate::agents::commands::{self, CommandPurpose};

/// Runs that are compared with lines that may hide one. Beyond it all are forgotten: the cost must not grow with both.
const MOST_COMPARED: usize = 200_000;

/// A group of calls, and a call.
type CallOrder = (usize, usize);

/// A run, and when it was.
pub(crate) struct VerificationRun {
    pub(crate) verified: SeenVerification,
    pub(crate) group: usize,
    /// Its own line may change files after it.
    pub(crate) changes_after: bool,
}

#[derive(Default)]
pub(crate) struct VerificationRuns {
    last: HashMap<RunKey, VerificationRun>,
    /// The number of runs that were compared with lines that may hide a run.
    compared: usize,
}

impl VerificationRuns {
    /// Keeps the run as the last one of its command.
    pub(crate) fn put(&mut self, key: RunKey, run: VerificationRun) {
        self.last.insert(key, run);
    }

    /// Forgets those of which another run may not have been seen.
    pub(crate) fn forget(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.last.retain(|key, _| !may_be(key));
    }

    /// Forgets those that a line may hide.
    pub(crate) fn forget_hidden(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.compared += self.last.len();
        match self.compared > MOST_COMPARED {
            true => self.clear(),
            false => self.forget(may_be),
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.last.clear();
    }

    /// What is known of them, oldest first. `changed` is the last group in which a file was surely changed, `maybe` the
    /// last calls that may have changed one.
    pub(crate) fn all(&self, changed: Option<usize>, maybe: [Option<CallOrder>; 2]) -> Vec<SeenVerification> {
        let stale = |run: &VerificationRun| {
            let others = maybe.iter().flatten();
            let mut unsure = others.filter(|(group, call)| {
                *group > run.group || *group == run.group && *call != run.verified.call
            });
            match changed {
                Some(group) if group > run.group => Some(true),
                Some(group) if group == run.group => None,
                _ if run.changes_after || unsure.next().is_some() => None,
                _ => Some(false),
            }
        };
        let mut runs: Vec<&VerificationRun> = self.last.values().collect();
        runs.sort_by_key(|run| (run.verified.call, &run.verified.command));
        let verified = runs.into_iter().map(|run| SeenVerification {
            stale: stale(run),
            ..run.verified.clone()
        });
        verified.collect()
    }
}

/// Identity of a verifying command: its purpose, its words, and its directory.
pub(crate) type RunKey = (CommandPurpose, String, String);

/// A command of a line with its key.
pub(crate) struct KeyedCommand<'r, 'l> {
    pub(crate) run: &'r commands::ShellCommand<'l>,
    pub(crate) key: RunKey,
}

/// The last run of each command that may have a lasting effect.
#[derive(Default)]
pub(crate) struct LastEffects(HashMap<(CommandPurpose, String), SeenEffect>);

impl LastEffects {
    pub(crate) fn put(&mut self, effect: SeenEffect) {
        self.0.insert((effect.purpose, effect.command.clone()), effect);
    }

    /// All of them, oldest first.
    pub(crate) fn all(self) -> Vec<SeenEffect> {
        let mut effects: Vec<SeenEffect> = self.0.into_values().collect();
        effects.sort_by(|a, b| (a.call, a.purpose, &a.command).cmp(&(b.call, b.purpose, &b.command)));
        effects
    }
}
