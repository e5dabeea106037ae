//! The facts of a transcript, as values.

use serde::{Deserialize, Serialize};

use crate::agents::commands::CommandPurpose;
use crate::agents::files::FileChange;
use crate::agents::todo::{TodoItem, TodoState};
use crate::text::units::is_zero;

/// Facts of a transcript, oldest first. All strings are redacted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenFacts {
    /// Number of turns. Each begins with the user's words or with a carry-over prompt.
    pub turns: usize,
    /// The last run of each command that tests, builds or lints.
    pub verification: Vec<SeenVerification>,
    /// Every command with its end, each once.
    pub commands: Vec<SeenCommand>,
    /// The last run of each recognized command that does not test, build or lint.
    pub effects: Vec<SeenEffect>,
    /// Files with certain changes.
    pub files: Vec<SeenChange>,
    /// Changed files whose change may no longer exist.
    pub doubtful_files: Vec<SeenChange>,
    /// Files that were read, each with the last turn that read it.
    pub read: Vec<SeenStatement>,
    /// Calls that failed or read as failed, and that nothing has settled.
    pub failures: Vec<SeenFailure>,
    /// The newest state of the agent's to-do list.
    pub todos: Vec<TodoItem>,
    /// The turn of that list; 0 without a list.
    pub todos_turn: usize,
    /// The user's requests that the model reported as done, without those that were made again.
    pub finished: Vec<SeenStatement>,
    /// The turns of those whose steps may be due again.
    pub due_again: Vec<usize>,
    /// The user's sentences that ask for something before the current task, except for requests that the model left unfinished.
    pub done_requests: Vec<SeenStatement>,
    /// Unanswered questions to the user.
    pub questions: Vec<SeenStatement>,
    /// Sentences about decisions.
    pub decisions: Vec<SeenStatement>,
    /// Sentences about blockers.
    pub blockers: Vec<SeenStatement>,
    /// Sentences about failed attempts.
    pub attempts: Vec<SeenStatement>,
    /// The model's assumptions.
    pub assumptions: Vec<SeenStatement>,
    /// Commands that started a service that keeps running.
    pub services: Vec<SeenStatement>,
    /// Files with credentials: kind, path, use, and whether that succeeded.
    pub secrets: Vec<SeenStatement>,
    /// Files with a verification or a review that were read or written.
    pub verdicts: Vec<VerdictFile>,
    /// The branch that git or the agent named last.
    pub branch: Option<String>,
    /// The clean commit at which a verifying command last passed.
    pub good_commit: Option<String>,
    /// Files that changed after the last recorded commit; empty if there was none.
    pub uncommitted: Vec<String>,
}

named! {
    /// How a call ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CallEnd {
        Good = "went well",
        Failed = "**failed**, exit code unknown",
        ReadsFailed = "reads as failed",
        Running = "started in the background",
    }
}

/// The last run of a command that tests, builds or lints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenVerification {
    /// Purpose of the command.
    #[serde(skip)]
    pub purpose: CommandPurpose,
    /// The command as typed, with the directory if the line or the call changes to one.
    pub command: String,
    /// The command's own exit code, if known.
    pub exit: Option<i32>,
    /// Whether the run passed, by its exit code or by its output; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of the call, from 1; 0 if the user ran it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: usize,
    /// Whether the command still ran in the background when last seen.
    #[serde(default, rename = "running", skip_serializing_if = "std::ops::Not::not")]
    pub is_running: bool,
    /// Whether it is unknown which directory the command ran in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directory_unknown: bool,
    /// Whether a file changed after the run, so that its result may no longer hold; `None` if unknown.
    pub stale: Option<bool>,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenCommand {
    /// The whole line.
    pub command: String,
    /// The exit code of the line, if known.
    pub exit: Option<i32>,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of the call, from 1; 0 if the user ran it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: usize,
    /// Whether the user ran it, and not the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    /// Whether the command changed something in addition to the repository's history.
    #[serde(skip)]
    pub changes: bool,
    /// How the line ended, by other evidence than its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<CallEnd>,
    /// Lines of the output.
    ///
    /// The last ones if the command certainly failed. Otherwise the lines that name the change; a few lines if the user
    /// ran it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenChange {
    /// The path, relative to the agent's working directory if that is known.
    pub path: String,
    /// The net effect of all changes.
    pub change: FileChange,
    /// The model's sentence about the last change.
    pub why: Option<String>,
    /// The turn of the last change, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn: usize,
    /// The number of the call that made the last change, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: usize,
}

/// The last run of a command that may have a lasting effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEffect {
    pub purpose: CommandPurpose,
    /// The command as typed, with the directory if the line or the call changes to one.
    pub command: String,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of the call, from 1; 0 if the user ran it.
    pub call: usize,
    /// Whether the command succeeded; `None` if unknown.
    pub passed: Option<bool>,
    /// Whether the command still ran in the background when last seen.
    pub is_running: bool,
    /// Whether a command that keeps running may have ended since.
    pub may_have_ended: bool,
    /// Whether the command reports no change.
    pub is_idle: bool,
    /// Whether the line hides a failure of the command.
    pub hides_failure: bool,
    /// Lines of the output that name the change.
    pub lines: Vec<String>,
    pub by_user: bool,
}

/// A call that failed or reads as failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenFailure {
    /// The whole line, or the tool and the subject of the call.
    pub command: String,
    /// The exit code, if known; never 0.
    pub exit: Option<i32>,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of the call, from 1; 0 if the user ran it.
    pub call: usize,
    /// At most three lines of the error.
    pub lines: Vec<String>,
    /// Whether the user ran it, and not the model.
    pub by_user: bool,
    /// Whether the call ran something: a command, or a tool that no table lists.
    pub is_run: bool,
    /// The first purpose, in the order of the type, of the commands that may have failed.
    pub purpose: CommandPurpose,
    /// Whether the wire or the tool reports the failure; otherwise only the wording of the result indicates it.
    pub is_reported: bool,
    /// Whether the exit code and the directory are known, and no later call may have settled the failure.
    pub is_certain: bool,
    /// First turn that may have settled the failure unseen; `None` if there is none.
    pub unknown_since: Option<usize>,
}

/// A sentence with its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenStatement {
    /// The sentence, on one line.
    pub text: String,
    /// The turn, from 1 after the last handoff; 0 for statements of a carry-over prompt.
    pub turn: usize,
}

/// A file with a verification or a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictFile {
    pub path: String,
    /// The total score, in tenths.
    #[serde(skip)]
    pub score: Option<u32>,
    /// Whether the file could not be read, or was deleted.
    pub missing: bool,
}

impl SeenStatement {
    pub(crate) fn new(text: impl Into<String>, turn: usize) -> Self {
        let text = text.into();
        Self { text, turn }
    }
}

impl SeenEffect {
    /// Whether the command started a service, and nothing indicates that it has ended.
    pub(crate) fn serves(&self) -> bool {
        let is_up = self.passed == Some(true) || self.is_running;
        self.purpose == CommandPurpose::Serve && is_up && !self.may_have_ended
    }
}

impl SeenFailure {
    /// Whether the failure certainly leaves work: that of a check or of a change of the repository's history.
    pub(crate) fn leaves_work(&self) -> bool {
        let matters = self.purpose.verifies() || self.purpose == CommandPurpose::Git;
        matters && self.is_reported && self.unknown_since.is_none()
    }
}

impl SeenCommand {
    /// Whether the command failed or reads as failed.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.ended, Some(CallEnd::Failed | CallEnd::ReadsFailed))
    }
}

impl SeenVerification {
    /// Whether the run passed; `None` if unknown.
    pub fn has_passed(&self) -> Option<bool> {
        self.exit.map(|code| code == 0).or(self.passed)
    }

    /// How a failed run ended.
    pub(crate) fn failure(&self) -> String {
        match self.exit {
            Some(code) => format!("ended with {code} in turn {}", self.turn),
            None => format!("failed, as its output says, in turn {}", self.turn),
        }
    }
}

impl SeenFacts {
    /// The commands that certainly failed and have not succeeded since.
    pub fn failed(&self) -> impl Iterator<Item = &SeenFailure> {
        self.failures.iter().filter(|failure| failure.is_certain)
    }

    /// The active item of the to-do list, or else the first pending one.
    pub fn next_todo(&self) -> Option<&TodoItem> {
        let first = |state: TodoState| self.todos.iter().find(|todo| todo.state == state);
        first(TodoState::Active).or_else(|| first(TodoState::Pending))
    }
}
