//! Shell lines: the commands of each, with their directories and how each ended.

use std::collections::HashSet;

use super::SeenEffect;
use super::excerpt::{cut, one_line};
use super::failures::{CompletedCall, MAX_COMMAND_BYTES, ShellLine, aim_of};
use super::message::{IndexedCall, IndexedResult};
use super::runs::{KeyedCommand, RunKey, VerificationRun};
use super::walk::{MAX_LINE_BYTES, TranscriptWalk};
use super::whereabouts::ShellPlace;
use super::{SeenCommand, SeenVerification};
use crate::agents::commands::{self, CommandPurpose, ShellCommand};
use crate::agents::ending::{LineEnd, RunEnd};
use crate::agents::surroundings;

/// Git commands whose arguments do not distinguish them from an earlier one, with their common names.
const ALIKE: [(&str, &str); 6] = [
    ("git commit", "git commit"),
    ("git merge --abort", "git commit"),
    ("git merge --continue", "git commit"),
    ("git rebase", "git rebase"),
    ("git checkout", "git checkout"),
    ("git switch", "git checkout"),
];

impl<'i> TranscriptWalk<'i> {
    pub(super) fn shell(&mut self, done: &CompletedCall<'i>) {
        let CompletedCall {
            turn, call, outcome, ..
        } = *done;
        let Some(command) = &call.command else {
            return self.may_change(false);
        };
        // The end of a cut command proves nothing, because not all of its commands are known.
        let end = match call.whole {
            true => outcome.end,
            false => LineEnd::default(),
        };
        let exit = end.code;
        // Before the runs, because a check of the same line tests the state after its changes.
        self.may_change(call.is_read_only);
        for (path, change) in &call.paths {
            // Only exit code 0 proves that the line got as far as the change.
            if let (Some(change), Some(0)) = (change, exit) {
                self.file(self.whereabouts.relative(path), *change, turn);
            }
        }
        if !call.is_read_only {
            self.files.undone(&commands::undone_paths(command));
        }
        // The directory at the start of the line; `advance` then moves the shell to the one at its end.
        let begins = self.shell_directory.before(call, &self.whereabouts);
        self.shell_directory
            .advance(call, outcome, exit, &self.whereabouts);
        // The line may run known commands unseen, so their earlier ends may not be the last ones.
        if commands::may_hide(command) {
            let words: HashSet<&str> = commands::hidden_words(command).collect();
            let may_be = |key: &RunKey| key.name.split(' ').take(2).all(|word| words.contains(word));
            self.runs.forget(may_be);
            self.failures.mark_unknown(turn, may_be);
        }
        let mut runs = commands::runs(command);
        // These commands follow one that prepares them. It failed, so they did not run, or ran elsewhere.
        runs.retain(|run| !(outcome.unprepared && run.is_chained));
        let keyed = self.keyed(&runs, &begins);
        let may_mend = outcome.failed == Some(false) && self.failures.have_aims();
        let serves = |keyed: &&KeyedCommand<'_, '_>| {
            let is_up = matches!(keyed.run.end(&end), RunEnd::Passed | RunEnd::Running);
            // A command that was stopped in the background had run until then.
            let was_up = outcome.is_over && end.code.is_none();
            keyed.run.purpose == CommandPurpose::Serve && (is_up || was_up || keyed.run.is_detached)
        };
        let program = |keyed: &KeyedCommand<'_, '_>| Some(keyed.key.name.split(' ').next()?.to_owned());
        let line = ShellLine {
            aim: may_mend.then(|| aim_of(call, &keyed)).flatten(),
            has_passed: !keyed.is_empty() && keyed.iter().all(|keyed| keyed.run.end(&end) == RunEnd::Passed),
            serves: keyed.iter().find(serves).and_then(program),
            directory: &begins,
            runs: &keyed,
            is_traceable: keyed.iter().all(|keyed| keyed.key.has_place()),
        };
        self.failures.apply_line(done, &line);
        for keyed in &keyed {
            self.ended_run(done, keyed, &end);
        }
        self.services(command, outcome);
        self.shell_effects(done, &runs, &keyed, &end);
        self.git(command, outcome);
        // The line's exit code holds even if the index kept only a part of the line.
        self.note(done, outcome.end.code, &keyed);
    }

    /// Applies git's reports, unless the line names the directory of another repository.
    fn git(&mut self, command: &str, outcome: &IndexedResult) {
        let named = command.split("git -C ").skip(1);
        let mut named = named.filter_map(|after| after.split_whitespace().next());
        if named.any(|path| surroundings::is_absolute(&self.whereabouts.inside(path))) {
            return;
        }
        for reply in &outcome.git {
            if self.repository.apply(reply) {
                self.committed = Some(self.group);
            }
        }
    }

    /// Records whether a line stops the services of earlier lines, and whether they answer it.
    fn services(&mut self, command: &str, outcome: &IndexedResult) {
        if let Some(names) = commands::stops(command) {
            self.effects.stop(&names);
        }
        if commands::asks_services(command) {
            let is_refused =
                outcome.refuses || matches!(outcome.end.code, Some(1 | 7)) || outcome.end.lines == 0;
            self.effects.answered(!is_refused);
        }
    }

    /// Records the effects of a line's commands that verify nothing.
    fn shell_effects(
        &mut self,
        done: &CompletedCall<'i>,
        runs: &[ShellCommand<'_>],
        keyed: &[KeyedCommand<'_, '_>],
        end: &LineEnd,
    ) {
        // The output does not show which command had the effects; they are attributed to the last one that changes
        // something.
        let last = runs.iter().rposition(|run| run.purpose.changes());
        for (at, run) in runs.iter().enumerate() {
            let is_service = run.purpose == CommandPurpose::Serve;
            // A service that the line stops, or whose end was reported, does not run.
            let is_over = is_service && (run.is_stopped || done.outcome.is_over && !run.text.contains(" -d"));
            if !run.purpose.verifies() && !is_over {
                let lines = if last == Some(at) {
                    &done.outcome.effects[..]
                } else {
                    &[]
                };
                self.effects.put(SeenEffect {
                    purpose: run.purpose,
                    command: command_line(run, &keyed[at].key),
                    turn: done.turn,
                    call: self.number,
                    passed: run.end(end).passed(),
                    is_running: end.is_running || run.is_detached,
                    may_have_ended: is_service && done.outcome.is_error(),
                    is_idle: end.git.is_idle(run.text),
                    hides_failure: run.hides_failure,
                    lines: lines.to_vec(),
                    by_user: done.call.by_user,
                });
            }
        }
    }

    /// The commands of a line, with the directories that they ran in.
    fn keyed<'r, 'l>(&self, runs: &'r [ShellCommand<'l>], begins: &ShellPlace) -> Vec<KeyedCommand<'r, 'l>> {
        let mut keyed = Vec::with_capacity(runs.len());
        for run in runs {
            let mut name = commands::name_of(run.text);
            // A commit with any message and options takes the place of one that failed, as any change of the branch does.
            if let Some((_, common)) = ALIKE.iter().find(|(begins, _)| name.starts_with(begins)) {
                (*common).clone_into(&mut name);
            }
            let key = RunKey {
                purpose: run.purpose,
                head: commands::head_of(&name, run.purpose),
                name,
                directory: begins.join(&run.directory, &self.whereabouts),
            };
            keyed.push(KeyedCommand { run, key });
        }
        keyed
    }

    /// Records how one command of a line ended, if it is a check.
    fn ended_run(&mut self, done: &CompletedCall<'_>, keyed: &KeyedCommand<'_, '_>, end: &LineEnd) {
        let KeyedCommand { run, key } = keyed;
        let ended = run.end(end);
        if run.purpose.verifies() && !run.rewrites {
            let exit = match ended {
                RunEnd::Passed => end.code,
                RunEnd::Failed(code) => code,
                RunEnd::Running | RunEnd::Unknown => None,
            };
            let verified = SeenVerification {
                purpose: run.purpose,
                command: command_line(run, key),
                exit,
                passed: ended.passed(),
                is_running: ended == RunEnd::Running || run.is_detached,
                directory_unknown: !key.has_place(),
                turn: done.turn,
                call: self.number,
                stale: None,
            };
            self.check(done.call, keyed, verified);
        }
    }

    /// Keeps the run as the last one of its command.
    fn check(&mut self, call: &IndexedCall, keyed: &KeyedCommand<'_, '_>, verified: SeenVerification) {
        match verified.passed {
            Some(true) => self.repository.passed(),
            _ => self.repository.failed(),
        }
        let kept = VerificationRun {
            verified,
            group: self.group,
            call: self.call,
            changes_after: keyed.run.changes_after || !call.whole,
        };
        self.runs.put(keyed.key.clone(), kept);
    }

    /// Records the line with its end.
    fn note(&mut self, done: &CompletedCall<'_>, exit: Option<i32>, runs: &[KeyedCommand<'_, '_>]) {
        let CompletedCall {
            turn,
            number,
            call,
            outcome,
        } = *done;
        let output = match (outcome.tail.is_empty(), call.by_user) {
            (false, _) => &outcome.tail[..],
            (true, true) => outcome.shown(),
            (true, false) => &outcome.effects,
        };
        let changes = |keyed: &KeyedCommand<'_, '_>| {
            keyed.run.purpose.changes()
                && (keyed.run.purpose != CommandPurpose::Script || !outcome.effects.is_empty())
        };
        self.seen.commands.push(SeenCommand {
            command: cut(call.command.as_deref().unwrap_or_default(), MAX_COMMAND_BYTES).to_owned(),
            exit,
            turn,
            call: if call.by_user { 0 } else { number },
            by_user: call.by_user,
            // A script may do anything; only named effects in its output count as a change.
            changes: exit.is_none_or(|code| code == 0) && runs.iter().any(changes),
            ended: outcome.ended(),
            output: output.to_vec(),
        });
    }
}

/// A command, with its directory if the line names one, or if it differs from the work's directory.
fn command_line(run: &ShellCommand<'_>, key: &RunKey) -> String {
    let line = match &key.directory {
        ShellPlace::Known(directory) | ShellPlace::Unknown(_, directory) if !directory.is_empty() => {
            format!("cd {directory} && {}", run.text)
        }
        _ => run.text.to_owned(),
    };
    one_line(&line, MAX_LINE_BYTES * 2)
}
