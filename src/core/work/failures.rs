//! Calls that failed, and the effect of later calls on each failure.

use super::SeenFailure;
use super::excerpt::{cut, one_line};
use super::message::{IndexedCall, IndexedResult};
use super::runs::{KeyedCommand, RunKey};
use super::whereabouts::ShellPlace;
use crate::agents::commands::{CommandPurpose, Coverage};
use crate::agents::tools::ToolKind;
use crate::agents::{commands, may_run_commands};
use crate::text::newest;
use crate::text::prose::file_name;

/// Maximum number of remembered failures; the newest are kept. Each call is compared with all of them.
const MAX_FAILURES: usize = 128;

/// Maximum number of earlier failures of a command that its last run no longer shows; the newest are kept.
const MAX_UNSHOWN: usize = 2;

/// Maximum number of calls from a failed one to the one that corrects it.
const MAX_CORRECTION: usize = 4;

/// Number of further successful edits that end the interest in a failed one.
const MAX_EDITS: usize = 3;

/// Maximum size of a reported command in bytes.
pub(crate) const MAX_COMMAND_BYTES: usize = 400;

/// A call with its result and their position.
#[derive(Clone, Copy)]
pub(crate) struct CompletedCall<'i> {
    /// The numbers of the turn and of the call, from 1.
    pub(crate) turn: usize,
    pub(crate) number: usize,
    pub(crate) call: &'i IndexedCall,
    pub(crate) outcome: &'i IndexedResult,
}

/// A line that a shell ran.
pub(crate) struct ShellLine<'r, 'l> {
    /// The directory that the line began in.
    pub(crate) directory: &'r ShellPlace,
    pub(crate) runs: &'r [KeyedCommand<'r, 'l>],
    /// Whether the directories of all its recognized commands are known.
    pub(crate) is_traceable: bool,
    /// Whether it has recognized commands, and all of them succeeded.
    pub(crate) has_passed: bool,
    /// The program of the service that it starts and that runs.
    pub(crate) serves: Option<String>,
    /// The command that it is for, if that does not check anything, and the line succeeded.
    pub(crate) aim: Option<String>,
}

/// The failures that nothing has settled, oldest first.
#[derive(Default)]
pub(crate) struct Failures<'i>(Vec<OpenFailure<'i>>);

struct OpenFailure<'i> {
    failed: CompletedCall<'i>,
    /// The directory that the line began in.
    directory: ShellPlace,
    /// The command that failed, or all commands of the line that may have failed.
    keys: Vec<RunKey>,
    is_traceable: bool,
    /// The command that the line is for, if that does not check anything.
    aim: Option<String>,
    /// Whether the shell could not read its line.
    is_misread: bool,
    /// Whether the line is a program for an interpreter.
    is_program: bool,
    /// The turn since which it is unknown whether the command still fails.
    unknown_since: Option<usize>,
    /// Number of successful edits since, if this is an edit.
    edits: usize,
}

impl<'i> OpenFailure<'i> {
    fn of_call(failed: CompletedCall<'i>) -> Self {
        let command = failed.call.command.as_deref();
        Self {
            is_misread: command.is_some() && is_misread(failed.outcome),
            is_program: command.is_some_and(commands::is_program),
            failed,
            directory: ShellPlace::default(),
            keys: Vec::new(),
            is_traceable: false,
            aim: None,
            unknown_since: None,
            edits: 0,
        }
    }

    /// Whether a later line is the same line, or has the same aim.
    fn is_line(&self, is_same: bool, shell: &ShellLine<'_, '_>) -> Coverage {
        match self.directory.is(shell.directory).filter(|_| is_same) {
            Some(true) => Coverage::Yes,
            None if is_same => Coverage::Maybe,
            _ => Coverage::No,
        }
    }

    /// Whether a run in `runs` covers the failed one, and how the last such run ended.
    fn end_of_wider(
        &self,
        line: &CompletedCall<'_>,
        runs: &[KeyedCommand<'_, '_>],
    ) -> (Coverage, Option<bool>) {
        let covers = |key: &RunKey| self.keys.iter().map(|failed| key.covers(failed)).max();
        let wider = runs
            .iter()
            .map(|keyed| (covers(&keyed.key).unwrap_or(Coverage::No), keyed));
        let mut wider = wider.filter(|(covers, _)| *covers > Coverage::No);
        match wider.next_back() {
            Some((covers, keyed)) => (covers, keyed.run.end(&line.outcome.end).passed()),
            None => (Coverage::No, None),
        }
    }

    /// Whether a line corrects the failed one: it succeeds shortly after, with the same program or the end of the line.
    ///
    /// Checks are settled by the same check.
    fn is_corrected_by(&self, line: &CompletedCall<'_>, shell: &ShellLine<'_, '_>) -> bool {
        let is_good = line.outcome.failed == Some(false) || shell.has_passed;
        let is_next = (1..=MAX_CORRECTION).contains(&line.number.saturating_sub(self.failed.number));
        let (Some(good), Some(failed)) = (&line.call.command, &self.failed.call.command) else {
            return false;
        };
        let is_end = || {
            failed
                .strip_suffix(good.as_str())
                .is_some_and(|rest| rest.ends_with(' '))
        };
        // An option instead of a subcommand may stand for any.
        let is_same_program = || {
            let ((good, of_good), (failed, of_failed)) =
                (commands::program_of(good)?, commands::program_of(failed)?);
            Some(good == failed && (of_failed.is_none() || of_failed == of_good))
        };
        is_next && is_good && !self.is_of_check() && (is_end() || is_same_program() == Some(true))
    }

    /// Whether the failed line was to start a service, and this one starts one that runs with a program that it names.
    fn is_restarted_by(&self, shell: &ShellLine<'_, '_>) -> bool {
        let Some(program) = shell.serves.as_deref() else {
            return false;
        };
        let is_service = |key: &RunKey| {
            let mut words = key.name.split(' ');
            let is_same = words.next() == Some(program) && key.purpose == CommandPurpose::Serve;
            // A command in the background that names the program may be a target: `make run-uvicorn`.
            is_same || self.failed.outcome.is_over && words.any(|word| word.contains(program))
        };
        !self.keys.is_empty() && self.keys.iter().all(is_service)
    }

    /// Whether the result of a later failure shows the error again.
    fn is_shown_in(&self, outcome: &IndexedResult) -> bool {
        // A failure without lines cannot be recognized, so it counts as shown.
        let Some(error) = self.failed.outcome.lines.first() else {
            return true;
        };
        let detail = outcome.detail.as_deref().unwrap_or_default();
        detail.contains(error.as_str()) || outcome.lines.contains(error)
    }

    /// Whether nothing is left to do about the failure after another call.
    ///
    /// A line that its shell could not read ran nothing, and an edit is over if its file was changed or others followed.
    fn is_overtaken_by(&mut self, done: &CompletedCall<'_>) -> bool {
        let call = self.failed.call;
        if done.call.command.is_some() && self.is_misread {
            return true;
        }
        if done.outcome.is_error() || !is_edit(call) {
            return false;
        }
        let is_changed = |(path, _): &(String, _)| match &done.call.command {
            Some(line) if !done.call.is_read_only => line.contains(file_name(path)),
            _ => false,
        };
        self.edits += usize::from(is_edit(done.call));
        self.edits >= MAX_EDITS || call.paths.iter().any(is_changed)
    }

    /// Whether one of the commands that may have failed is a check.
    fn is_of_check(&self) -> bool {
        self.keys.iter().any(|key| key.purpose.verifies())
    }

    /// Whether a failure of an earlier turn still matters: that of a check or of a known command, or one that the report names.
    fn is_remembered(&self, report: &str) -> bool {
        let call = self.failed.call;
        let is_clear = self.unknown_since.is_none();
        let is_known =
            |key: &RunKey| key.purpose.verifies() || is_clear && key.purpose != CommandPurpose::Script;
        let named = match call.command.as_deref().map(commands::program_of) {
            Some(program) => program.map(|(name, word)| [Some(name), word]),
            None => Some([Some(&*call.name), call.paths.first().map(|(path, _)| &**path)]),
        };
        let mut names = named.into_iter().flatten().flatten().map(file_name);
        // A tool that no table lists may run checks.
        let may_check = call.kind == ToolKind::Other && may_run_commands(&call.name);
        may_check
            || self.keys.iter().any(is_known)
            || names.any(|name| name.len() > 1 && report.contains(name))
    }

    /// Whether the line is a loop or the like that checks nothing, and its commands may have run again since.
    ///
    /// Such a line is written for one occasion.
    fn is_over(&self) -> bool {
        let line = self.failed.call.command.as_deref();
        self.unknown_since.is_some() && !self.is_of_check() && line.is_some_and(commands::may_hide)
    }

    /// Whether the command certainly failed and has not been run again.
    fn is_certain(&self) -> bool {
        let exit = self.failed.outcome.end.code.filter(|_| self.failed.call.whole);
        let is_line = self.failed.call.kind == ToolKind::Shell && self.failed.call.command.is_some();
        is_line && exit.is_some_and(|code| code != 0) && self.is_traceable && self.unknown_since.is_none()
    }
}

impl<'i> Failures<'i> {
    /// Whether a later line may have the aim of one of them.
    pub(crate) fn have_aims(&self) -> bool {
        self.0.iter().any(|failure| failure.aim.is_some())
    }

    /// Applies a line of a shell, whether it failed or not.
    pub(crate) fn apply_line(&mut self, line: &CompletedCall<'i>, shell: &ShellLine<'_, '_>) {
        let has_failed = line.outcome.is_error();
        self.0.retain_mut(|failure| {
            if failure.is_overtaken_by(line) {
                return false;
            }
            let is_reached = failure.is_line(shell.aim.is_some() && shell.aim == failure.aim, shell);
            if is_reached == Coverage::Yes
                || failure.is_corrected_by(line, shell)
                || failure.is_restarted_by(shell)
            {
                return false;
            }
            let is_line = failure.is_line(settles(line.call, failure.failed.call), shell);
            let (wider, passed) = failure.end_of_wider(line, shell.runs);
            let is_settled = match is_line.max(wider) {
                // Another line, which may have the same aim.
                Coverage::No if is_reached == Coverage::No => return true,
                Coverage::No | Coverage::Maybe => false,
                // Only the newer of two failures of one command is kept.
                Coverage::Yes if is_line == Coverage::Yes && has_failed => failure.is_shown_in(line.outcome),
                Coverage::Yes => is_line == Coverage::Yes || passed == Some(true),
            };
            let is_other = is_line < Coverage::Yes;
            let still_fails =
                is_other && has_failed && passed == Some(false) && failure.is_shown_in(line.outcome);
            if !still_fails {
                // Keeps the earliest turn: nothing has shown the error since.
                failure.unknown_since.get_or_insert(line.turn);
            }
            !is_settled
        });
        if has_failed && !line.call.command.as_deref().is_some_and(commands::is_probe) {
            // If the line does not show which of its commands failed, any of them may have.
            let is_known = shell.runs.iter().any(|keyed| keyed.run.bad_if_not);
            let failing = shell
                .runs
                .iter()
                .filter(|keyed| keyed.run.bad_if_not || !is_known);
            let mut keys: Vec<RunKey> = failing.map(|keyed| keyed.key.clone()).collect();
            // A commit ends a merge that stopped at a conflict.
            let detail = line.outcome.detail.as_deref().unwrap_or_default();
            let merges = keys.iter_mut().filter(|key| key.name.starts_with("git merge "));
            for key in merges.filter(|_| detail.contains("CONFLICT (")) {
                "git commit".clone_into(&mut key.name);
            }
            self.bound_unshown(line, &keys);
            self.push(OpenFailure {
                directory: shell.directory.clone(),
                keys,
                is_traceable: shell.is_traceable,
                aim: aim_of(line.call, shell.runs),
                ..OpenFailure::of_call(*line)
            });
        }
    }

    /// Applies a call of any tool but a shell.
    pub(crate) fn apply_call(&mut self, done: &CompletedCall<'i>) {
        match done.outcome.is_error() {
            false => self.0.retain_mut(|failure| {
                !settles(done.call, failure.failed.call) && !failure.is_overtaken_by(done)
            }),
            // A failed reading is an answer. The end of a session belongs to its command.
            true if is_asking(done.call) => {}
            true => {
                self.0.retain(|failure| !is_same(failure.failed.call, done.call));
                self.push(OpenFailure::of_call(*done));
            }
        }
    }

    /// Drops all but the newest failures of this line, or of its commands, that its last run no longer shows.
    fn bound_unshown(&mut self, line: &CompletedCall<'_>, keys: &[RunKey]) {
        let is_of_line = |failure: &OpenFailure<'_>| {
            let is_same = !keys.is_empty() && failure.keys == keys;
            failure.unknown_since.is_some() && (is_same || settles(line.call, failure.failed.call))
        };
        let mut more = self.0.iter().filter(|failure| is_of_line(failure)).count();
        self.0.retain(|failure| {
            let is_over = is_of_line(failure) && more > MAX_UNSHOWN;
            more -= usize::from(is_over);
            !is_over
        });
    }

    fn push(&mut self, failure: OpenFailure<'i>) {
        newest::push(&mut self.0, MAX_FAILURES, failure);
    }

    /// Marks failures that one of these commands may have settled in this turn.
    pub(crate) fn mark_unknown(&mut self, turn: usize, may_be: impl Fn(&RunKey) -> bool) {
        for failure in &mut self.0 {
            if failure.keys.iter().any(&may_be) {
                failure.unknown_since.get_or_insert(turn);
            }
        }
    }

    /// Marks all failures as unknown, because calls that settle them may be missing.
    pub(crate) fn mark_all_unknown(&mut self, turn: usize) {
        for failure in &mut self.0 {
            failure.unknown_since.get_or_insert(turn);
        }
    }

    /// Ends a turn with the model's report, which is about the result and not about each attempt.
    pub(crate) fn report(&mut self, report: &str) {
        self.0.retain(|failure| {
            !is_edit(failure.failed.call) && (!failure.is_program || failure.is_remembered(report))
        });
    }

    /// The failures that matter in the turn `last`. The model's last report names those that were not tried again.
    ///
    /// Nobody knows whether an earlier failure still holds, except for that of a check, whose last run it is.
    pub(crate) fn all(self, last: usize, report: &str) -> Vec<SeenFailure> {
        let open = self.0.into_iter().filter_map(|mut failure| {
            let next = failure.failed.turn + 1;
            if failure.is_over() || next < last && !failure.is_remembered(report) {
                return None;
            }
            if next < last && !failure.is_of_check() {
                failure.unknown_since.get_or_insert(next);
            }
            Some(seen(&failure))
        });
        open.collect()
    }
}

/// The command that a line is for, unless it has checks, which only the same check settles.
pub(crate) fn aim_of(call: &IndexedCall, runs: &[KeyedCommand<'_, '_>]) -> Option<String> {
    let line = call.command.as_deref().filter(|_| call.whole)?;
    let checks = runs.iter().any(|keyed| keyed.key.purpose.verifies());
    commands::aim(line).filter(|_| !checks)
}

fn seen(failure: &OpenFailure<'_>) -> SeenFailure {
    let CompletedCall {
        turn,
        number,
        call,
        outcome,
    } = failure.failed;
    let command = match &call.command {
        Some(command) => cut(command, MAX_COMMAND_BYTES).to_owned(),
        None => one_line(&format!("{} {}", call.name, call.about), MAX_COMMAND_BYTES),
    };
    SeenFailure {
        command,
        exit: outcome.end.code.filter(|code| *code != 0),
        turn,
        call: number,
        lines: outcome.lines.clone(),
        by_user: call.by_user,
        is_run: call.kind == ToolKind::Shell || call.kind == ToolKind::Other && may_run_commands(&call.name),
        purpose: failure
            .keys
            .iter()
            .map(|key| key.purpose)
            .min()
            .unwrap_or_default(),
        is_reported: outcome.failed == Some(true),
        is_certain: failure.is_certain(),
        unknown_since: failure.unknown_since,
    }
}

/// Whether a failed call left nothing undone: it reads, or asks for the output of a command.
fn is_asking(call: &IndexedCall) -> bool {
    matches!(call.kind, ToolKind::Read | ToolKind::Search) || call.background.is_some()
}

/// Whether a call changes files by itself.
fn is_edit(call: &IndexedCall) -> bool {
    const PATCH: &str = "apply_patch";
    // Few lines have the name at all, and the division of a line takes longer.
    let is_patch = |line: &str| {
        line.contains(PATCH) && commands::program_of(line).is_some_and(|(name, _)| name == PATCH)
    };
    call.kind.changes() || call.command.as_deref().is_some_and(is_patch)
}

/// Whether a shell could not read its line, and so ran nothing of it.
fn is_misread(outcome: &IndexedResult) -> bool {
    outcome.lines.iter().any(|line| commands::is_misread(line))
}

fn is_same(a: &IndexedCall, b: &IndexedCall) -> bool {
    a.name == b.name && a.about == b.about
}

/// Whether a successful call settles a failed one.
///
/// Three kinds do: the same call, the same command with fewer filters, and another change of the same file.
pub(crate) fn settles(good: &IndexedCall, failed: &IndexedCall) -> bool {
    if let (Some(good), Some(failed)) = (&good.command, &failed.command) {
        // `cargo test` covers `cargo test parser`, and `go test ./a` does not cover `go test ./a ./b`.
        let rest = failed.strip_prefix(good.as_str());
        let is_beginning = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        return is_beginning && commands::may_cover(good, failed);
    }
    let path = |call: &IndexedCall| call.paths.first().map(|(path, _)| path.clone());
    is_same(good, failed)
        || is_edit(good) && is_edit(failed) && path(good).is_some() && path(good) == path(failed)
}
