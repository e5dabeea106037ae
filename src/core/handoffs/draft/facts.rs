//! Facts of a conversation: requests and their ends, files, commands, failures, sentences to keep. Each fact comes from
//! a call with its result or is a quotation; uncertain facts are omitted.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::anchors::{LeftOpen, anchors, is_kept, spoken};
use super::excerpt::{first_line, one_line, pieces};
use super::index::DraftIndex;
use super::markers::{AnchoredSentence, SENTENCE};
use super::message::{IndexedCall, IndexedItem, IndexedMessage, IndexedResult};
use super::todos;
use super::turns::{self, IndexedTurn, TurnEnd, answers, calls, claims_done};
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::files::FileChange;
use crate::agents::may_run_commands;
use crate::agents::secret_files::SecretFile;
use crate::agents::todo::TodoItem;
use crate::agents::tools::ToolKind;
use crate::handoffs::newest;
use crate::handoffs::replaced::{SpokenText, Statements};

/// Bytes of a reason.
pub(super) const WHY: usize = 140;

/// Failures that are remembered, the newest ones: each call is compared with them.
const MOST_FAILURES: usize = 128;

/// Commands of the user's that are remembered, the newest ones.
const MOST_PERSON_RUNS: usize = 20;

/// Files with credentials that are remembered, the newest ones.
const MOST_SECRETS: usize = 12;

/// Kinds of credentials that are reported.
const MOST_KINDS: usize = 12;

/// The facts of a conversation.
pub(super) struct DraftFacts<'i> {
    pub(super) messages: &'i [IndexedMessage],
    pub(super) turns: Vec<IndexedTurn<'i>>,
    /// The first turn of the current task.
    pub(super) current: usize,
    /// Nothing of the current task is open: the model wrote that all is done.
    pub(super) all_done: bool,
    /// Sentences to keep, oldest first, each with its turn's number.
    pub(super) anchors: Vec<(usize, Cow<'i, AnchoredSentence>)>,
    /// What later statements replaced.
    pub(super) statements: Statements<'i>,
    /// Files, by the first time that they are named.
    pub(super) files: Vec<NamedFile>,
    /// Commands that verify the work or have lasting effects: the last run of each.
    pub(super) runs: Vec<CommandFact>,
    /// Commands of the user's: the last run of each, oldest first.
    pub(super) user_runs: Vec<UserRun<'i>>,
    /// Failures without a later success, oldest first.
    pub(super) failures: Vec<CallFailure<'i>>,
    /// The newest to-do list, with its turn's number.
    pub(super) todos: Option<(usize, Cow<'i, [TodoItem]>)>,
    /// Files with credentials, each with the last call of each kind that named it, oldest first.
    pub(super) secrets: Vec<SecretFact<'i>>,
    /// Redacted credentials: kind and number of the first turn.
    pub(super) credentials: Vec<(String, usize)>,
}

/// A file that calls named.
#[derive(Debug, Clone)]
pub(super) struct NamedFile {
    pub(super) path: String,
    /// What was done to it last; `None` where it was only read.
    pub(super) change: Option<FileChange>,
    /// The last turn that names it.
    pub(super) turn: usize,
    /// What the model wrote before it changed it.
    pub(super) why: Option<String>,
}

/// A command that was run.
#[derive(Debug, Clone)]
pub(super) struct CommandFact {
    pub(super) purpose: CommandPurpose,
    pub(super) text: String,
    pub(super) turn: usize,
    /// Whether it went well; `None` where that is unknown.
    pub(super) good: Option<bool>,
    /// A file changed after it.
    pub(super) stale: bool,
    /// Lines of its output that name what it changed.
    pub(super) effects: Vec<String>,
    /// It is one of `user_runs`.
    pub(super) by_user: bool,
}

/// A command that the user ran, with its result where it has one.
#[derive(Debug, Clone)]
pub(super) struct UserRun<'i> {
    pub(super) turn: usize,
    pub(super) call: &'i IndexedCall,
    pub(super) outcome: Option<&'i IndexedResult>,
}

/// A file with credentials, and what a call did with it.
#[derive(Debug, Clone)]
pub(super) struct SecretFact<'i> {
    pub(super) file: &'i SecretFile,
    pub(super) turn: usize,
    /// Whether the call went well; `None` where that is unknown.
    pub(super) worked: Option<bool>,
}

impl SecretFact<'_> {
    /// The fact in words, with the file's path as it is to be shown.
    pub(super) fn text(&self, path: &str) -> String {
        let worked = match self.worked {
            Some(true) => "it worked",
            Some(false) => "it failed",
            None => "not known whether it worked",
        };
        let (kind, usage, turn) = (self.file.kind, self.file.usage.name(), self.turn);
        format!("{path} ({kind}): {usage} in turn {turn}; {worked}")
    }
}

/// A call that failed.
#[derive(Debug, Clone)]
pub(super) struct CallFailure<'i> {
    pub(super) turn: usize,
    pub(super) call: &'i IndexedCall,
    pub(super) outcome: &'i IndexedResult,
    /// It ran something, and is known to have failed or reads so: a command, or a tool that no table knows.
    pub(super) is_run: bool,
}

impl<'i> DraftFacts<'i> {
    pub(super) fn from_index(index: &'i DraftIndex) -> Self {
        let messages = &index.messages[..];
        let turns = turns::of(messages);
        let current = turns::current(&turns);
        let mut gathered = FactCollector::default();
        for turn in &turns {
            gathered.take(messages, turn);
        }
        let newest = todos::newest(messages, &turns);
        let todos = newest.as_ref().filter(|(turn, _)| *turn > current);
        let pending = todos.is_some_and(|(_, todos)| todos.iter().any(|todo| todo.state.is_open()));
        let answered = turns.last().filter(|turn| turn.ended == TurnEnd::Answered);
        let last = answered.and_then(|turn| turn.replies.last());
        let all_done = last.is_some_and(|spoken| claims_done(&spoken.text)) && !pending;
        let statements = Statements::from_texts(&spoken(&turns));
        Self {
            messages,
            anchors: anchors(&turns, &gathered.left_open, &statements),
            statements,
            credentials: credentials(messages, &turns),
            runs: gathered.runs(),
            user_runs: gathered.user_runs,
            secrets: gathered.secrets,
            failures: gathered.failures,
            files: gathered.files,
            todos: newest,
            current,
            all_done,
            turns,
        }
    }

    /// The requests before the current task.
    pub(super) fn earlier(&self) -> impl DoubleEndedIterator<Item = &IndexedTurn<'i>> {
        let turns = self.turns.iter().take(self.current);
        turns.filter(|turn| turn.is_from_user())
    }

    /// The requests of the current task.
    pub(super) fn of_task(&self) -> impl DoubleEndedIterator<Item = &IndexedTurn<'i>> {
        let turns = self.turns.iter().skip(self.current);
        turns.filter(|turn| turn.is_from_user())
    }

    /// What the user said in a turn, word for word, with marks where a later statement replaced one.
    pub(super) fn said(&self, turn: &IndexedTurn<'_>) -> String {
        let text = turn.user_text();
        let said = SpokenText::new(turn.n, true, &text);
        self.statements.marked(said).into_owned()
    }

    /// What the user said in a turn and still holds, unless each sentence of it is kept by itself; may be empty.
    pub(super) fn uncovered_user_text(&self, turn: &IndexedTurn<'_>) -> String {
        let text = turn.user_text();
        let said = self.statements.current(SpokenText::new(turn.n, true, &text));
        let from = self.anchors.partition_point(|(at, _)| *at < turn.n);
        let here = self.anchors[from..].iter().take_while(|(at, _)| *at == turn.n);
        let kept = here.filter(|(_, anchor)| is_kept(anchor));
        let kept: HashSet<&str> = kept.map(|(_, anchor)| &*anchor.text).collect();
        let is_listed = |sentence: &str| kept.contains(one_line(sentence, SENTENCE).as_str());
        let is_all = !kept.is_empty() && pieces(&said).all(|piece| is_listed(piece.text));
        match is_all {
            true => String::new(),
            false => said.into_owned(),
        }
    }

    /// Whether a turn belongs to the current task.
    pub(super) fn is_current(&self, turn: usize) -> bool {
        turn > self.current
    }
}

/// Collects facts turn by turn.
#[derive(Default)]
struct FactCollector<'i> {
    files: Vec<NamedFile>,
    by_path: HashMap<String, usize>,
    /// By purpose and text: the last run.
    ran: HashMap<(CommandPurpose, String), (usize, CommandFact)>,
    /// Where files changed last: counts calls.
    changed: usize,
    at: usize,
    failures: Vec<CallFailure<'i>>,
    user_runs: Vec<UserRun<'i>>,
    secrets: Vec<SecretFact<'i>>,
    /// The last call of the turn that failed.
    last_failed: Option<&'i IndexedCall>,
    left_open: LeftOpen<'i>,
}

impl<'i> FactCollector<'i> {
    fn take(&mut self, messages: &'i [IndexedMessage], turn: &IndexedTurn<'i>) {
        let answers = answers(messages, turn.messages.clone());
        let mut why: Option<&str> = None;
        self.last_failed = None;
        for at in turn.messages.clone() {
            for (i, item) in messages[at].items.iter().enumerate() {
                match item {
                    IndexedItem::Text(spoken) if messages[at].role == crate::wire::Role::Assistant => {
                        why = Some(&spoken.text);
                        self.left_open.add(spoken, self.last_failed);
                    }
                    IndexedItem::Call(call) => {
                        self.at += 1;
                        self.call(turn.n, call, answers.get(&(at, i)).copied(), why);
                    }
                    _ => {}
                }
            }
        }
    }

    fn call(
        &mut self,
        turn: usize,
        call: &'i IndexedCall,
        outcome: Option<&'i IndexedResult>,
        why: Option<&str>,
    ) {
        if call.kind == ToolKind::Own {
            return;
        }
        if call.by_user {
            self.user_ran(UserRun { turn, call, outcome });
        }
        // A call without an answer may have done nothing.
        let Some(outcome) = outcome.filter(|outcome| !outcome.not_run) else {
            return;
        };
        self.secrets(turn, call, outcome);
        match outcome.is_error() {
            true => self.failed(turn, call, outcome),
            false => self.went_well(call),
        }
        if !outcome.is_error() {
            let certain = outcome.failed == Some(false) || !matches!(call.kind, ToolKind::Shell);
            for (path, change) in &call.paths {
                self.file(turn, path, change.filter(|_| certain), why);
            }
        }
        if let Some(command) = &call.command {
            self.ran(turn, command, call.by_user, outcome);
        }
    }

    fn secrets(&mut self, turn: usize, call: &'i IndexedCall, outcome: &IndexedResult) {
        for file in &call.secrets {
            self.secrets
                .retain(|known| (&known.file.path, known.file.usage) != (&file.path, file.usage));
            let worked = match outcome.is_error() {
                true => Some(false),
                // What a tool for files does without an error has worked.
                false => (call.kind != ToolKind::Shell || outcome.failed == Some(false)).then_some(true),
            };
            newest::push(&mut self.secrets, MOST_SECRETS, SecretFact { file, turn, worked });
        }
    }

    fn user_ran(&mut self, run: UserRun<'i>) {
        self.user_runs.retain(|known| known.call.about != run.call.about);
        newest::push(&mut self.user_runs, MOST_PERSON_RUNS, run);
    }

    fn file(&mut self, turn: usize, path: &str, change: Option<FileChange>, why: Option<&str>) {
        let at = *self.by_path.entry(path.to_owned()).or_insert(self.files.len());
        if at == self.files.len() {
            self.files.push(NamedFile {
                path: path.to_owned(),
                change: None,
                turn,
                why: None,
            });
        }
        let file = &mut self.files[at];
        file.turn = turn;
        if let Some(change) = change {
            self.changed = self.at;
            file.change = match (file.change, change) {
                (Some(FileChange::Created), FileChange::Modified) => Some(FileChange::Created),
                _ => Some(change),
            };
            file.why = reason(why).or(file.why.take());
        }
    }

    fn ran(&mut self, turn: usize, command: &str, by_user: bool, outcome: &IndexedResult) {
        let runs = commands::runs(command);
        let last = runs.iter().rposition(|run| run.purpose.changes());
        for (at, run) in runs.iter().enumerate() {
            let effects = Some(&outcome.effects).filter(|_| last == Some(at));
            let ran = CommandFact {
                effects: effects.cloned().unwrap_or_default(),
                by_user,
                purpose: run.purpose,
                text: one_line(run.text, WHY),
                turn,
                good: run.passed_or_flagged(&outcome.end),
                stale: false,
            };
            self.ran.insert((run.purpose, ran.text.clone()), (self.at, ran));
        }
    }

    fn failed(&mut self, turn: usize, call: &'i IndexedCall, outcome: &'i IndexedResult) {
        let is_run =
            call.kind == ToolKind::Shell || call.kind == ToolKind::Other && may_run_commands(&call.name);
        self.last_failed = Some(call);
        if is_run && call.command.as_deref().is_some_and(looks) {
            return;
        }
        self.failures.retain(|failure| !is_same(failure.call, call));
        let failure = CallFailure {
            turn,
            call,
            outcome,
            is_run,
        };
        newest::push(&mut self.failures, MOST_FAILURES, failure);
    }

    /// Removes failures that this call settles.
    fn went_well(&mut self, call: &IndexedCall) {
        self.failures.retain(|failure| !settles(call, failure.call));
        self.left_open.settle(|failed| settles(call, failed));
    }

    fn runs(&mut self) -> Vec<CommandFact> {
        let mut all: Vec<_> = self.ran.drain().map(|(_, ran)| ran).collect();
        all.sort_by(|a, b| (a.0, a.1.purpose, &a.1.text).cmp(&(b.0, b.1.purpose, &b.1.text)));
        let changed = self.changed;
        for (at, ran) in &mut all {
            ran.stale = *at < changed;
        }
        all.into_iter().map(|(_, ran)| ran).collect()
    }
}

/// Why a file was changed: the first line of what the model wrote before.
pub(super) fn reason(text: Option<&str>) -> Option<String> {
    let line = text.map(|text| one_line(first_line(text, WHY * 2), WHY));
    line.filter(|line| !line.is_empty())
}

/// Commands that only search: an empty result is no failure.
pub(super) fn looks(command: &str) -> bool {
    const LOOKS: [&str; 12] = [
        "grep", "rg", "ls", "find", "test", "[", "diff", "cat", "head", "tail", "which", "stat",
    ];
    let mut words = command.split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&'));
    let first = words.find(|word| !word.is_empty() && *word != "cd");
    // The code is that of the last command: `… | grep` found nothing.
    let mut ends = [first, commands::last_command(command)].into_iter().flatten();
    ends.any(|word| LOOKS.contains(&word))
}

fn is_same(a: &IndexedCall, b: &IndexedCall) -> bool {
    a.name == b.name && a.about == b.about
}

/// Whether a successful call settles a failed one: the same call, the same command with fewer filters, or another
/// change of the same file.
pub(super) fn settles(good: &IndexedCall, failed: &IndexedCall) -> bool {
    if let (Some(good), Some(failed)) = (&good.command, &failed.command) {
        let rest = failed.strip_prefix(good.as_str());
        return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    }
    let path = |call: &IndexedCall| call.paths.first().map(|(path, _)| path.clone());
    is_same(good, failed)
        || good.kind.changes() && failed.kind.changes() && path(good).is_some() && path(good) == path(failed)
}

/// The kinds of credentials that were taken out, each with the first turn that had one.
fn credentials(messages: &[IndexedMessage], turns: &[IndexedTurn<'_>]) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut take = |text: &str, turn: usize| {
        for (at, mark) in text.match_indices("[redacted:") {
            let kind = text[at + mark.len()..].split(']').next().unwrap_or_default();
            if kind.len() < 40 && found.len() < MOST_KINDS && !found.iter().any(|(known, _)| known == kind) {
                found.push((kind.to_owned(), turn));
            }
        }
    };
    for turn in turns {
        let spoken = turn.opening.iter().chain(&turn.replies);
        spoken.for_each(|spoken| take(&spoken.text, turn.n));
        calls(messages, turn.messages.clone()).for_each(|(_, _, call)| take(&call.about, turn.n));
    }
    found
}
