//! Walks calls and their results, and records the facts that they prove.

use std::collections::HashSet;

use super::changed_files::ChangedFiles;
use super::repository::RepositoryState;
use super::runs::{Failures, KeyedCommand, RunKey, VerificationRun, VerificationRuns};
use super::whereabouts::ShellDirectory;
use super::{SeenCommand, SeenFacts, SeenFailure, SeenStatement, SeenVerification, VerdictFile, Whereabouts};
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::ending::{LineEnd, RunEnd};
use crate::agents::files::{self, FileChange};
use crate::agents::tools::ToolKind;
use crate::handoffs::draft::excerpt::one_line;
use crate::handoffs::draft::facts::{WHY, looks, reason};
use crate::handoffs::draft::message::{IndexedCall, IndexedItem, IndexedMessage, IndexedResult};
use crate::handoffs::draft::turns::{IndexedTurn, answers};
use crate::handoffs::newest;
use crate::wire::Role;

/// Verdicts that are remembered, the newest ones.
const MOST_VERDICTS: usize = 50;

/// What is known at one place of the transcript.
///
/// Time is counted in groups: calls that the model made at once, of which it is unknown which ran first.
#[derive(Default)]
pub(super) struct TranscriptWalk<'w> {
    whereabouts: Whereabouts,
    verdict_paths: &'w [String],
    group: usize,
    call: usize,
    after_result: bool,
    /// The last group in which a file was surely changed.
    changed: Option<usize>,
    /// The last two calls that may have changed one, each with its group.
    maybe: [Option<(usize, usize)>; 2],
    runs: VerificationRuns,
    shell_directory: ShellDirectory,
    /// The facts that are kept as they are found.
    seen: SeenFacts,
    files: ChangedFiles,
    was_read: HashSet<String>,
    failures: Failures,
    repository: RepositoryState,
    /// The last group with a commit.
    committed: Option<usize>,
}

impl<'w> TranscriptWalk<'w> {
    pub(super) fn new(whereabouts: &Whereabouts, verdict_paths: &'w [String]) -> Self {
        Self {
            whereabouts: whereabouts.clone(),
            verdict_paths,
            repository: RepositoryState::on(whereabouts.branch.clone()),
            ..Self::default()
        }
    }

    pub(super) fn all(&mut self, messages: &[IndexedMessage], turns: &[IndexedTurn<'_>]) {
        let answers = answers(messages, 0..messages.len());
        for turn in turns {
            let mut why: Option<&str> = None;
            // The user has written since: an earlier question may be answered.
            self.seen.questions.clear();
            for at in turn.messages.clone() {
                let message = &messages[at];
                for (i, item) in message.items.iter().enumerate() {
                    match item {
                        IndexedItem::Text(reply) if message.role == Role::Assistant => {
                            why = Some(&reply.text)
                        }
                        IndexedItem::Text(_) | IndexedItem::Task(_) => {}
                        IndexedItem::Gap => self.gap(),
                        IndexedItem::Result(_) => self.after_result = true,
                        IndexedItem::Call(call) => {
                            self.begin();
                            self.take(turn.n, call, answers.get(&(at, i)).copied(), why);
                        }
                    }
                }
            }
        }
    }

    /// Calls are missing here: the known state may be out of date.
    fn gap(&mut self) {
        self.runs.clear();
        self.failures.clear();
        self.files.undone("*");
        self.may_change(false);
    }

    fn begin(&mut self) {
        self.group += usize::from(self.after_result);
        self.after_result = false;
        self.call += 1;
    }

    fn take(&mut self, turn: usize, call: &IndexedCall, outcome: Option<&IndexedResult>, why: Option<&str>) {
        if matches!(call.kind, ToolKind::Own | ToolKind::Todo | ToolKind::Search) {
            return;
        }
        let Some(outcome) = outcome else {
            self.add_questions(turn, call);
            // It may have done something, or may be doing it.
            let asks = matches!(call.kind, ToolKind::Read | ToolKind::Ask);
            return self.may_change(asks || call.is_read_only);
        };
        if outcome.not_run {
            return self.add_questions(turn, call);
        }
        self.verdict(call, outcome);
        match call.kind {
            ToolKind::Shell => self.shell(turn, call, outcome, why),
            ToolKind::Read => self.reads(call, outcome),
            ToolKind::Ask => {}
            kind if kind.changes() => self.changes(call, outcome, why),
            _ => self.may_change(false),
        }
    }

    fn add_questions(&mut self, turn: usize, call: &IndexedCall) {
        let questions = call.questions.iter();
        self.seen
            .questions
            .extend(questions.map(|text| SeenStatement::new(text, turn)));
    }

    fn may_change(&mut self, surely_not: bool) {
        if !surely_not {
            self.maybe = [Some((self.group, self.call)), self.maybe[0]];
            self.repository.changed();
        }
    }

    fn reads(&mut self, call: &IndexedCall, outcome: &IndexedResult) {
        if outcome.is_error() {
            return;
        }
        for (path, _) in &call.paths {
            let path = self.whereabouts.relative(path);
            if self.was_read.insert(path.clone()) {
                self.seen.read.push(path);
            }
        }
    }

    fn changes(&mut self, call: &IndexedCall, outcome: &IndexedResult, why: Option<&str>) {
        match outcome.changed {
            Some(true) => {}
            Some(false) => return,
            None => return self.may_change(false),
        }
        for (path, change) in &call.paths {
            let path = self.whereabouts.relative(path);
            let known = self.was_read.contains(&path) || self.files.holds(&path);
            let change = match (call.kind, outcome.made) {
                (ToolKind::Write | ToolKind::Edit, Some(true)) => Some(FileChange::Created),
                (ToolKind::Write, None) if !known => Some(FileChange::Written),
                _ => *change,
            };
            if let Some(change) = change {
                self.file(path, change, why);
            }
        }
    }

    fn file(&mut self, path: String, change: FileChange, why: Option<&str>) {
        self.changed = Some(self.group);
        self.repository.changed();
        self.files.add(path, change, self.group, reason(why));
    }

    /// Notes how one command of a shell line ended: a service that runs, or what it verifies.
    fn ended(&mut self, turn: usize, call: &IndexedCall, keyed: &KeyedCommand<'_, '_>, end: &LineEnd) {
        let KeyedCommand { run, key } = keyed;
        let ended = run.end(end);
        if run.purpose == CommandPurpose::Serve && ended == RunEnd::Passed {
            self.seen
                .services
                .push(SeenStatement::new(one_line(run.text, WHY), turn));
        } else if run.purpose.verifies() && !run.rewrites {
            let exit = match ended {
                RunEnd::Passed => end.code,
                RunEnd::Failed(code) => code,
                RunEnd::Unknown => None,
            };
            let verified = SeenVerification {
                purpose: run.purpose,
                command: command_line(run, key),
                exit,
                passed: ended.passed(),
                turn,
                stale: None,
            };
            self.ran(call, run, key, verified);
        }
    }

    fn shell(&mut self, turn: usize, call: &IndexedCall, outcome: &IndexedResult, why: Option<&str>) {
        let Some(command) = &call.command else {
            return self.may_change(false);
        };
        let end = match call.whole {
            true => outcome.end,
            false => LineEnd::default(),
        };
        let exit = end.code;
        self.may_change(call.is_read_only);
        for (path, change) in &call.paths {
            if let (Some(change), Some(0)) = (change, exit) {
                self.file(self.whereabouts.relative(path), *change, why);
            }
        }
        if commands::may_undo(command) {
            self.files.undone(command);
        }
        let begins = self.shell_directory.before(call, &self.whereabouts);
        self.shell_directory
            .advance(call, outcome, exit, &self.whereabouts);
        if commands::may_hide(command) {
            let words: HashSet<&str> = commands::hidden_words(command).collect();
            let may_be = |key: &RunKey| key.1.split(' ').take(2).all(|word| words.contains(word));
            self.runs.forget_hidden(may_be);
            self.failures.forget(may_be);
        }
        let mut runs = commands::runs(command);
        // The command that prepares them failed, so they did not run, or ran elsewhere.
        runs.retain(|run| !(outcome.unprepared && run.in_front));
        let keyed = self.keyed(&runs, begins.as_deref());
        self.failures.settle(command, begins.as_deref(), &end, &keyed);
        for keyed in &keyed {
            self.ended(turn, call, keyed, &end);
        }
        for reply in &outcome.git {
            if self.repository.apply(reply) {
                self.committed = Some(self.group);
            }
        }
        // A rerun of a failure in an unknown directory could not be recognised.
        let begins = (keyed.len() == runs.len()).then_some(begins.as_deref());
        self.note(turn, call, outcome, exit, begins, &keyed);
    }

    /// The commands of a line with the directories that they ran in. Where a directory is unknown, no known run of such a
    /// command, in any directory, is certainly its last one.
    fn keyed<'r, 'l>(
        &mut self,
        runs: &'r [commands::ShellCommand<'l>],
        begins: Option<&str>,
    ) -> Vec<KeyedCommand<'r, 'l>> {
        let mut keyed = Vec::with_capacity(runs.len());
        for run in runs {
            let name = commands::name_of(run.text);
            let known = begins.or(run.directory.starts_with('/').then_some(""));
            let Some(begins) = known else {
                self.runs.forget(|key| key.1 == name);
                self.failures.forget(|key| key.1.starts_with(&name));
                continue;
            };
            let directory = self.whereabouts.inside(&commands::joined(begins, &run.directory));
            keyed.push(KeyedCommand {
                run,
                key: (run.purpose, name, directory),
            });
        }
        keyed
    }

    /// Keeps the run as the last one of its command.
    fn ran(
        &mut self,
        call: &IndexedCall,
        run: &commands::ShellCommand<'_>,
        key: &RunKey,
        verified: SeenVerification,
    ) {
        match verified.passed {
            Some(true) => self.repository.passed(),
            _ => self.repository.failed(),
        }
        let kept = VerificationRun {
            verified,
            group: self.group,
            call: self.call,
            changes_after: run.changes_after || !call.whole,
        };
        self.runs.put(key.clone(), kept);
    }

    /// Keeps the command, and that it failed.
    fn note(
        &mut self,
        turn: usize,
        call: &IndexedCall,
        outcome: &IndexedResult,
        exit: Option<i32>,
        begins: Option<Option<&str>>,
        runs: &[KeyedCommand<'_, '_>],
    ) {
        let command = call.command.as_deref().unwrap_or_default();
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
            command: command.to_owned(),
            exit,
            turn,
            by_user: call.by_user,
            changes: exit.is_none_or(|code| code == 0) && runs.iter().any(changes),
            output: output.to_vec(),
        });
        let failed = exit.filter(|code| *code != 0 && !looks(command));
        let (Some(exit), Some(begins)) = (failed, begins) else {
            return;
        };
        let failed = SeenFailure {
            command: command.to_owned(),
            exit,
            turn,
            lines: outcome.lines.clone(),
        };
        self.failures.add(failed, begins, runs);
    }

    fn verdict(&mut self, call: &IndexedCall, outcome: &IndexedResult) {
        for (path, change) in &call.paths {
            let path = self.whereabouts.relative(path);
            let mut patterns = self.verdict_paths.iter();
            if !patterns.any(|pattern| files::fits(pattern, &path)) {
                continue;
            }
            let missing = *change == Some(FileChange::Deleted)
                || call.kind == ToolKind::Read && outcome.failed == Some(true);
            let score = call.score.or(outcome.score);
            self.seen.verdicts.retain(|known| known.path != path);
            newest::push(
                &mut self.seen.verdicts,
                MOST_VERDICTS,
                VerdictFile { path, score, missing },
            );
        }
    }

    pub(super) fn seen(self) -> SeenFacts {
        let verification = self.runs.all(self.changed, self.maybe);
        SeenFacts {
            verification,
            uncommitted: self.files.since(self.committed),
            files: self.files.all(),
            commands: once(self.seen.commands),
            failed: self.failures.all(),
            branch: self.repository.branch,
            good_commit: self.repository.good,
            ..self.seen
        }
    }
}

/// A command with the directory that it runs in.
fn command_line(run: &commands::ShellCommand<'_>, key: &RunKey) -> String {
    let line = match &*key.2 {
        "" => run.text.to_owned(),
        directory => format!("cd {directory} && {}", run.text),
    };
    one_line(&line, WHY * 2)
}

/// Each command with each of its ends once, the last time.
fn once(commands: Vec<SeenCommand>) -> Vec<SeenCommand> {
    let mut known = HashSet::new();
    let key = |ran: &SeenCommand| (ran.command.clone(), ran.exit, ran.by_user, ran.output.clone());
    let newest = commands.into_iter().rev().filter(|ran| known.insert(key(ran)));
    let mut kept: Vec<SeenCommand> = newest.collect();
    kept.reverse();
    kept
}
