//! Walks the calls and their results, and records the facts that they prove.

use std::collections::{HashMap, HashSet};

use super::anchors::LeftOpen;
use super::changed_files::{ChangedFiles, FileEdit};
use super::excerpt::{one_line, sentences};
use super::failures::{CompletedCall, Failures, settles};
use super::message::{IndexedCall, IndexedItem, IndexedMessage, IndexedResult};
use super::repository::RepositoryState;
use super::runs::{LastEffects, VerificationRuns};
use super::turns::{IndexedTurn, TurnEnd, answers};
use super::whereabouts::ShellDirectory;
use super::{SeenCommand, SeenFacts, SeenStatement, VerdictFile, Whereabouts};
use crate::agents::files::{self, FileChange};
use crate::agents::secret_files::SecretFile;
use crate::agents::tools::ToolKind;
use crate::text::newest;
use crate::text::prose::{file_name, list_item};
use crate::wire::Role;

/// Maximum number of remembered verdicts; the newest are kept.
const MAX_VERDICTS: usize = 50;

/// Maximum number of remembered files with credentials; the newest are kept.
const MAX_SECRETS: usize = 12;

/// Minimum number of words of a sentence that tells the reason of a change without naming the file.
const MIN_REASON_WORDS: usize = 6;

/// Maximum size of a reason, and of a command named in a line, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 140;

/// State of the work at one point of the transcript.
///
/// The unit of time is a group: calls that the model made at once, so that their order is not certain.
#[derive(Default)]
pub(crate) struct TranscriptWalk<'i> {
    pub(super) whereabouts: Whereabouts,
    verdict_paths: &'i [String],
    /// Number of the current group.
    pub(super) group: usize,
    /// Number of the current call, from 1.
    pub(super) call: usize,
    /// Number of the model's call, from 1, as locators show it; 0 for a command that the user ran.
    pub(super) number: usize,
    /// Number of the model's calls so far, without those of baton's tools.
    called: usize,
    /// Whether a result came after the last call, so that the next call begins a group.
    after_result: bool,
    /// The last group in which a file certainly changed.
    changed: Option<usize>,
    /// The last two calls that may have changed a file, each with its group.
    maybe: [Option<(usize, usize)>; 2],
    pub(super) runs: VerificationRuns,
    pub(super) effects: LastEffects,
    pub(super) shell_directory: ShellDirectory,
    /// Facts that are recorded as they are found.
    pub(super) seen: SeenFacts,
    pub(super) files: ChangedFiles,
    /// For each file that was read, its index in `seen.read`.
    was_read: HashMap<String, usize>,
    pub(super) failures: Failures<'i>,
    pub(super) repository: RepositoryState,
    /// The last group with a commit.
    pub(super) committed: Option<usize>,
    /// The uses of files with credentials: of each path and use the newest, as a line.
    secrets: Vec<(&'i SecretFile, SeenStatement)>,
    /// The sentences in which the model leaves something open.
    left_open: LeftOpen<'i>,
    /// The last failed call of the turn.
    last_failed: Option<&'i IndexedCall>,
    reply: LastReply<'i>,
    /// The model's words at the end of the last turn that it ended.
    report: &'i str,
}

/// The model's text directly before a call.
#[derive(Default)]
struct LastReply<'i> {
    text: Option<&'i str>,
    /// Whether a file was changed after it.
    is_used: bool,
}

impl<'i> TranscriptWalk<'i> {
    pub(crate) fn new(whereabouts: Whereabouts, verdict_paths: &'i [String]) -> Self {
        Self {
            repository: RepositoryState::on(whereabouts.branch.clone()),
            whereabouts,
            verdict_paths,
            ..Self::default()
        }
    }

    pub(crate) fn all(&mut self, messages: &'i [IndexedMessage], turns: &[IndexedTurn<'i>]) {
        let answers = answers(messages, 0..messages.len());
        for turn in turns {
            // The user has written since, so earlier questions may be answered.
            self.seen.questions.clear();
            self.last_failed = None;
            self.reply = LastReply::default();
            for at in turn.messages.clone() {
                let message = &messages[at];
                for (i, item) in message.items.iter().enumerate() {
                    match item {
                        IndexedItem::Text(reply) if message.role == Role::Assistant => {
                            self.left_open.add(reply, self.last_failed);
                            self.reply = LastReply {
                                text: Some(&reply.text),
                                is_used: false,
                            };
                        }
                        IndexedItem::Text(_) | IndexedItem::Task(_) | IndexedItem::TaskList(_) => {}
                        IndexedItem::Gap => self.gap(turn.n),
                        IndexedItem::Result(_) => {
                            self.after_result = true;
                            self.reply = LastReply::default();
                        }
                        IndexedItem::Call(call) => {
                            self.begin(call);
                            self.take(turn.n, call, answers.get(&(at, i)).copied());
                        }
                    }
                }
            }
            if matches!(turn.ended, TurnEnd::Answered | TurnEnd::Question) {
                self.report = turn.replies.last().map_or("", |reply| &reply.text);
                self.failures.report(self.report);
            }
        }
        self.seen.turns = turns.len();
    }

    /// Handles missing calls: the known state may be out of date.
    fn gap(&mut self, turn: usize) {
        self.runs.clear();
        self.failures.mark_all_unknown(turn);
        // The missing calls may have removed any file.
        self.files.undone(&[String::new()]);
        self.may_change(false);
    }

    fn begin(&mut self, call: &IndexedCall) {
        // Calls without a result in between were made at once.
        self.group += usize::from(self.after_result);
        self.after_result = false;
        self.call += 1;
        let is_counted = is_counted(call);
        self.called += usize::from(is_counted);
        self.number = if is_counted { self.called } else { 0 };
    }

    fn take(&mut self, turn: usize, call: &'i IndexedCall, outcome: Option<&'i IndexedResult>) {
        // Calls of baton's tools are not part of the work.
        if call.kind == ToolKind::Own {
            return;
        }
        let looks = matches!(call.kind, ToolKind::Todo | ToolKind::Search);
        let Some(outcome) = outcome else {
            self.add_questions(turn, call);
            // Without a result, the call may have done something, or may still be running.
            let asks = looks || matches!(call.kind, ToolKind::Read | ToolKind::Ask);
            return self.may_change(asks || call.is_read_only);
        };
        if outcome.not_run {
            return self.add_questions(turn, call);
        }
        let done = CompletedCall {
            turn,
            number: self.number,
            call,
            outcome,
        };
        self.settle(&done);
        self.add_secrets(&done);
        if looks {
            return;
        }
        self.verdict(call, outcome);
        match call.kind {
            ToolKind::Shell => self.shell(&done),
            ToolKind::Read => self.reads(&done),
            ToolKind::Ask => {}
            kind if kind.changes() => self.changes(&done),
            _ => self.may_change(false),
        }
    }

    /// Records whether a call settles failures, or failed itself. Shell lines are handled in `shell`, which knows more.
    fn settle(&mut self, done: &CompletedCall<'i>) {
        let is_line = done.call.kind == ToolKind::Shell && done.call.command.is_some();
        match done.outcome.is_error() {
            true => self.last_failed = Some(done.call),
            false => self.left_open.settle(|failed| settles(done.call, failed)),
        }
        if !is_line {
            self.failures.apply_call(done);
        }
    }

    fn add_questions(&mut self, turn: usize, call: &IndexedCall) {
        let questions = call.questions.iter();
        self.seen
            .questions
            .extend(questions.map(|text| SeenStatement::new(text, turn)));
    }

    fn add_secrets(&mut self, done: &CompletedCall<'i>) {
        let outcome = match done.outcome.is_error() {
            true => "it failed",
            // A file tool without an error has succeeded; a shell must report success.
            false if done.call.kind != ToolKind::Shell || done.outcome.failed == Some(false) => "it worked",
            false => "not known whether it worked",
        };
        for file in &done.call.secrets {
            self.secrets
                .retain(|(known, _)| (&known.path, known.usage) != (&file.path, file.usage));
            let (path, usage) = (self.whereabouts.relative(&file.path), file.usage.name());
            let line = format!("{path} ({}): {usage} in turn {}; {outcome}", file.kind, done.turn);
            let fact = (file, SeenStatement::new(line, done.turn));
            newest::push(&mut self.secrets, MAX_SECRETS, fact);
        }
    }

    /// Records that the current call may have changed any file, unless it surely did not.
    pub(super) fn may_change(&mut self, surely_not: bool) {
        if !surely_not {
            // Two are enough: `VerificationRuns::all` needs one call that is not the run itself.
            self.maybe = [Some((self.group, self.call)), self.maybe[0]];
            self.repository.changed();
        }
    }

    fn reads(&mut self, done: &CompletedCall<'_>) {
        if done.outcome.is_error() {
            return;
        }
        for (path, _) in &done.call.paths {
            let path = self.whereabouts.relative(path);
            let place = *self.was_read.entry(path.clone()).or_insert(self.seen.read.len());
            match self.seen.read.get_mut(place) {
                Some(read) => read.turn = done.turn,
                None => self.seen.read.push(SeenStatement::new(path, done.turn)),
            }
        }
    }

    fn changes(&mut self, done: &CompletedCall<'_>) {
        let CompletedCall {
            turn, call, outcome, ..
        } = *done;
        match outcome.changed {
            Some(false) => return,
            Some(true) => {}
            None => self.may_change(false),
        }
        for (path, change) in &call.paths {
            let path = self.whereabouts.relative(path);
            // A file that was read or changed before exists, so writing to it cannot create it.
            let known = self.was_read.contains_key(&path) || self.files.holds(&path);
            let change = match (call.kind, outcome.made) {
                (ToolKind::Write | ToolKind::Edit, Some(true)) => Some(FileChange::Created),
                // Without a statement in the result, an unknown file may have been created or overwritten.
                (ToolKind::Write, None) if !known => Some(FileChange::Written),
                _ => *change,
            };
            match (change, outcome.changed) {
                (Some(change), Some(_)) => self.file(path, change, turn),
                (Some(change), None) if !outcome.is_error() => {
                    let made = self.edit(&path, turn);
                    self.files.add_doubtful(path, change, made);
                }
                _ => {}
            }
        }
    }

    pub(super) fn file(&mut self, path: String, change: FileChange, turn: usize) {
        self.changed = Some(self.group);
        self.repository.changed();
        let made = self.edit(&path, turn);
        self.files.add(path, change, made);
    }

    fn edit(&mut self, path: &str, turn: usize) -> FileEdit {
        FileEdit {
            group: self.group,
            turn,
            call: self.number,
            why: self.reply.why(path),
        }
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
                MAX_VERDICTS,
                VerdictFile { path, score, missing },
            );
        }
    }

    /// The facts, and the sentences that leave something open.
    pub(crate) fn ended(self) -> (SeenFacts, LeftOpen<'i>) {
        let secrets = self.secrets.into_iter().map(|(_, line)| line);
        let effects = self.effects.all(self.seen.turns);
        let services = effects.iter().filter(|effect| effect.serves());
        let services =
            services.map(|effect| SeenStatement::new(one_line(&effect.command, MAX_LINE_BYTES), effect.turn));
        let seen = SeenFacts {
            verification: self.runs.all(self.changed, self.maybe),
            services: services.collect(),
            effects,
            uncommitted: self.files.since(self.committed),
            files: self.files.all(true),
            doubtful_files: self.files.all(false),
            commands: once(self.seen.commands),
            failures: self.failures.all(self.seen.turns, self.report),
            secrets: secrets.collect(),
            branch: self.repository.branch,
            good_commit: self.repository.good,
            ..self.seen
        };
        (seen, self.left_open)
    }
}

impl LastReply<'_> {
    /// The sentence about a file's change: one that names the file, or the last one if this is the first change after
    /// it.
    fn why(&mut self, path: &str) -> Option<String> {
        let text = self.text?;
        let name = file_name(path);
        let is_first = !std::mem::replace(&mut self.is_used, true);
        let named = sentences(text).find(|sentence| sentence.contains(name));
        // `Fix it.` and list items do not describe the change.
        let is_reason = |sentence: &&str| {
            list_item(sentence).is_none() && sentence.split_whitespace().nth(MIN_REASON_WORDS - 1).is_some()
        };
        let last = || sentences(text).filter(|_| is_first).last().filter(is_reason);
        let sentence = named.or_else(last)?;
        let line = one_line(sentence, MAX_LINE_BYTES);
        let line = line.trim_end_matches(':').trim_end();
        line.contains(char::is_alphanumeric).then(|| line.to_owned())
    }
}

/// Whether a locator counts the call: the model's, except for those of baton's tools.
fn is_counted(call: &IndexedCall) -> bool {
    call.kind != ToolKind::Own && !call.by_user
}

/// Each command with each of its ends once, at its last occurrence.
fn once(commands: Vec<SeenCommand>) -> Vec<SeenCommand> {
    let mut known = HashSet::new();
    let key = |ran: &SeenCommand| (ran.command.clone(), ran.exit, ran.by_user, ran.output.clone());
    let newest = commands.into_iter().rev().filter(|ran| known.insert(key(ran)));
    let mut kept: Vec<SeenCommand> = newest.collect();
    kept.reverse();
    kept
}
