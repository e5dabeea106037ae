//! The last run of each command that tests, builds, lints or has a lasting effect.

use std::collections::HashMap;

use super::whereabouts::ShellPlace;
use super::{SeenEffect, SeenVerification};
use crate::agents::commands::{self, CommandPurpose, Coverage};

/// Maximum number of comparisons between runs and lines that may hide one; beyond it, all runs are forgotten.
///
/// Without it, the cost would be the product of both counts.
const MOST_COMPARED: usize = 200_000;

/// Numbers of a call: of the group of calls that the model made at once, and of the call itself.
type CallOrder = (usize, usize);

/// A run, and when it happened.
pub(crate) struct VerificationRun {
    pub(crate) verified: SeenVerification,
    /// Number of the group of calls that the model made at once.
    pub(crate) group: usize,
    /// Number of the call.
    pub(crate) call: usize,
    /// Whether a later command of the same line may change files.
    pub(crate) changes_after: bool,
}

#[derive(Default)]
pub(crate) struct VerificationRuns {
    last: HashMap<RunKey, VerificationRun>,
    /// Number of comparisons so far between runs and lines that may hide one.
    compared: usize,
}

impl VerificationRuns {
    /// Keeps the run as the last one of its command.
    ///
    /// A run that passed takes the place of failed ones that it may cover: none of them still proves a failure.
    pub(crate) fn put(&mut self, key: RunKey, run: VerificationRun) {
        if run.verified.passed == Some(true) {
            // Calls of one group ran in an unknown order.
            let is_earlier = |known: &VerificationRun| known.group < run.group || known.call == run.call;
            let is_covered = |failed: &RunKey, known: &VerificationRun| {
                known.verified.passed == Some(false) && is_earlier(known) && key.covers(failed) > Coverage::No
            };
            self.last.retain(|failed, known| !is_covered(failed, known));
        }
        self.count_comparisons();
        // In an unknown directory, a command may have run anywhere, so that the later one may be the same.
        let is_other = |known: &RunKey| known.directory.is(&key.directory).is_some();
        self.last
            .retain(|known, _| is_other(known) || key.coverage(known) == Coverage::No);
        self.last.insert(key, run);
    }

    /// Forgets the commands that may have run again unseen.
    pub(crate) fn forget(&mut self, may_be: impl Fn(&RunKey) -> bool) {
        self.count_comparisons();
        self.last.retain(|key, _| !may_be(key));
    }

    /// Counts a comparison with all runs, and forgets them if there were too many.
    fn count_comparisons(&mut self) {
        self.compared += self.last.len();
        if self.compared > MOST_COMPARED {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.last.clear();
    }

    /// The last runs with their staleness, oldest first.
    ///
    /// `changed` is the last group in which a file certainly changed. `maybe` has the last calls that may have changed
    /// one.
    pub(crate) fn all(&self, changed: Option<usize>, maybe: [Option<CallOrder>; 2]) -> Vec<SeenVerification> {
        let stale = |run: &VerificationRun| {
            let others = maybe.iter().flatten();
            let mut unsure = others.filter(|(group, call)| {
                // Calls of one group ran in an unknown order, so another call of the group may have come later.
                *group > run.group || *group == run.group && *call != run.call
            });
            match changed {
                Some(group) if group > run.group => Some(true),
                // The change and the run were called at once.
                Some(group) if group == run.group => None,
                _ if run.changes_after || unsure.next().is_some() => None,
                _ => Some(false),
            }
        };
        let mut runs: Vec<&VerificationRun> = self.last.values().collect();
        // The map has no order; the command decides between runs of one line.
        runs.sort_by_key(|run| (run.call, &run.verified.command));
        let verified = runs.into_iter().map(|run| SeenVerification {
            stale: stale(run),
            ..run.verified.clone()
        });
        verified.collect()
    }
}

/// Identity of a command: its purpose, its words, and its directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    pub(crate) purpose: CommandPurpose,
    /// The command as `commands::name_of` gives it.
    pub(crate) name: String,
    /// Number of the words that name the command.
    pub(crate) head: usize,
    pub(crate) directory: ShellPlace,
}

impl RunKey {
    /// Whether the transcript shows the command's directory.
    pub(crate) fn has_place(&self) -> bool {
        matches!(self.directory, ShellPlace::Known(_))
    }

    /// Whether this command covers an earlier one in the same directory.
    pub(crate) fn covers(&self, earlier: &Self) -> Coverage {
        match self.directory.is(&earlier.directory) {
            Some(true) => self.coverage(earlier),
            Some(false) => Coverage::No,
            None => self.coverage(earlier).min(Coverage::Maybe),
        }
    }

    /// Whether this command covers an earlier one, wherever each of them ran.
    pub(crate) fn coverage(&self, earlier: &Self) -> Coverage {
        match self.purpose == earlier.purpose {
            true => commands::coverage((&self.name, self.head), (&earlier.name, earlier.head)),
            false => Coverage::No,
        }
    }
}

/// A command of a line with its key.
pub(crate) struct KeyedCommand<'r, 'l> {
    pub(crate) run: &'r commands::ShellCommand<'l>,
    pub(crate) key: RunKey,
}

/// Maximum number of commands that keep running and are followed; the newest are.
const MAX_SERVICES: usize = 32;

/// Identity of an effect: its purpose and its command, or the words that start a service.
type EffectKey = (CommandPurpose, String);

/// The last run of each command that may have a lasting effect.
#[derive(Default)]
pub(crate) struct LastEffects {
    last: HashMap<EffectKey, SeenEffect>,
    /// The services that may still run, oldest first.
    services: Vec<EffectKey>,
}

impl LastEffects {
    /// Keeps the effect as the last one of its command. A service takes the place of one that was started alike.
    pub(crate) fn put(&mut self, effect: SeenEffect) {
        let key = (effect.purpose, identity(&effect));
        if effect.purpose == CommandPurpose::Serve {
            self.services.retain(|known| *known != key);
            if self.services.len() == MAX_SERVICES {
                let oldest = self.services.remove(0);
                self.doubt(&oldest, true);
            }
            self.services.push(key.clone());
        }
        self.last.insert(key, effect);
    }

    /// Forgets the services that one of these names stands for. Any other one may have ended.
    pub(crate) fn stop(&mut self, names: &[&str]) {
        for key in std::mem::take(&mut self.services) {
            let command = self.last.get(&key).map(|effect| &effect.command);
            match command.is_some_and(|command| names.iter().any(|name| command.contains(name))) {
                true => drop(self.last.remove(&key)),
                false => {
                    self.doubt(&key, true);
                    self.services.push(key);
                }
            }
        }
    }

    /// Records that services answered, or that they did not.
    pub(crate) fn answered(&mut self, have_answered: bool) {
        for key in self.services.clone() {
            self.doubt(&key, !have_answered);
        }
    }

    fn doubt(&mut self, key: &EffectKey, may_have_ended: bool) {
        if let Some(effect) = self.last.get_mut(key) {
            effect.may_have_ended = may_have_ended;
        }
    }

    /// All effects, oldest first, except for unknown ones of commands whose failure did not matter.
    ///
    /// `last` is the number of the last turn. Commands in the background of earlier turns may have ended, except for services.
    pub(crate) fn all(self, last: usize) -> Vec<SeenEffect> {
        let matters = |effect: &SeenEffect| {
            effect.passed.is_some() || effect.is_running || !effect.hides_failure || !effect.lines.is_empty()
        };
        let mut effects: Vec<SeenEffect> = self.last.into_values().filter(matters).collect();
        for effect in &mut effects {
            let is_service = effect.purpose == CommandPurpose::Serve;
            effect.may_have_ended |= effect.is_running && !is_service && effect.turn < last;
        }
        effects.sort_by(|a, b| {
            (a.turn, a.call, a.purpose, &a.command).cmp(&(b.turn, b.call, b.purpose, &b.command))
        });
        effects
    }
}

/// The command of an effect. For a service, its words up to the first option, since its options change from start to start.
fn identity(effect: &SeenEffect) -> String {
    let (directory, line) = match effect.command.split_once(" && ") {
        Some((directory, line)) => (directory, line),
        None => ("", &*effect.command),
    };
    let name = commands::name_of(line);
    // Only the last change of the branch matters, unless it made one.
    let is_switch = name.starts_with("git checkout ") || name.starts_with("git switch ");
    if is_switch && !name.contains(" -b ") && !name.contains(" -c ") {
        return format!("{directory} git checkout");
    }
    let is_plain = effect.purpose == CommandPurpose::Serve && !name.starts_with("docker");
    let words = name.split(' ').take_while(|word| !word.starts_with('-'));
    match is_plain && name.split(' ').nth(1).is_some_and(|word| !word.starts_with('-')) {
        true => words.fold(directory.to_owned(), |all, word| all + " " + word),
        false => effect.command.clone(),
    }
}
