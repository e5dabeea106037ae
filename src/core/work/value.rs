//! What was seen, as a value.

use serde::{Deserialize, Serialize};

use super::message::{FAILED, READS_FAILED};
use crate::agents::commands::CommandPurpose;
use crate::agents::files::FileChange;
use crate::agents::todo::{TodoItem, TodoState};

/// Facts of a transcript, oldest first. All texts are redacted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenFacts {
    /// Turns of the transcript: each begins with words of the user's, or with a carry-over prompt.
    pub turns: usize,
    /// The last run of each command that tests, builds or lints.
    pub verification: Vec<SeenVerification>,
    /// Every command with its end, each once.
    pub commands: Vec<SeenCommand>,
    /// The last run of each known command that tests, builds or lints nothing.
    pub effects: Vec<SeenEffect>,
    /// Files that were changed by tools that say so.
    pub files: Vec<SeenChange>,
    /// Changed files of which it is not known whether the change is still there.
    pub doubtful_files: Vec<SeenChange>,
    /// Files that were read, each with the last turn that read it.
    pub read: Vec<SeenStatement>,
    /// Calls that failed, or read as failed, and that nothing has settled.
    pub failures: Vec<SeenFailure>,
    /// The agent's to-do list as it was last written.
    pub todos: Vec<TodoItem>,
    /// The turn in which it was; 0 without a list.
    pub todos_turn: usize,
    /// Requests of the user's after which the model said that all was done; none that was made again.
    pub finished: Vec<SeenStatement>,
    /// Questions to the user without an answer.
    pub questions: Vec<SeenStatement>,
    /// Sentences about what was decided.
    pub decisions: Vec<SeenStatement>,
    /// Sentences about what stops the work.
    pub blockers: Vec<SeenStatement>,
    /// Sentences about what did not work.
    pub attempts: Vec<SeenStatement>,
    /// What the model took for granted, and no later result repeats.
    pub assumptions: Vec<SeenStatement>,
    /// Commands that started something that stays.
    pub services: Vec<SeenStatement>,
    /// Files with credentials: kind, place, what was done with them and whether it worked.
    pub secrets: Vec<SeenStatement>,
    /// Files with a verification or a review that were read or written.
    pub verdicts: Vec<VerdictFile>,
    /// The branch that git or the agent named last.
    pub branch: Option<String>,
    /// The commit that was checked out, with nothing changed, when a command that verifies passed last.
    pub good_commit: Option<String>,
    /// Files that were changed after the last commit that was seen; empty where none was.
    pub uncommitted: Vec<String>,
}

/// The last run of a command that tests, builds or lints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenVerification {
    /// What it is for.
    #[serde(skip)]
    pub purpose: CommandPurpose,
    /// As typed, with the directory if the line or the call changes to one.
    pub command: String,
    /// Its own exit code, where it is known.
    pub exit: Option<i32>,
    /// Whether it passed, by its exit code or by its own output; `None` where that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of its call, from 1.
    #[serde(skip)]
    pub call: usize,
    /// Whether a file changed after it; `None` where that is unknown.
    pub stale: Option<bool>,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenCommand {
    /// The whole line.
    pub command: String,
    /// The exit code of the line, where it is known.
    pub exit: Option<i32>,
    /// The turn, from 1.
    pub turn: usize,
    /// The user ran it, not the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    /// It changed something besides the repository's history.
    #[serde(skip)]
    pub changes: bool,
    /// How it ended, in words.
    #[serde(skip)]
    pub ended: &'static str,
    /// The last lines of its output, where it is known to have failed; else those that name what it changed, and of the
    /// user's a few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenChange {
    /// Its path, from the directory that the agent works in where that is known.
    pub path: String,
    /// The net effect of all changes.
    pub change: FileChange,
    /// The sentence of the model's that belongs to its last change.
    pub why: Option<String>,
    /// The turn of its last change, from 1.
    #[serde(skip)]
    pub turn: usize,
    /// The number of the call that changed it last, from 1.
    #[serde(skip)]
    pub call: usize,
}

/// The last run of a command that may have a lasting effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEffect {
    pub purpose: CommandPurpose,
    /// As typed, with the directory if the line or the call changes to one.
    pub command: String,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of its call, from 1.
    pub call: usize,
    /// Whether it went well; `None` if that is unknown.
    pub passed: Option<bool>,
    /// Lines of its output that name what it changed.
    pub lines: Vec<String>,
    pub by_user: bool,
}

/// A call that failed, or that reads as failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenFailure {
    /// The whole line, or the tool and what it was called for.
    pub command: String,
    /// Its exit code, if one is known; never 0.
    pub exit: Option<i32>,
    /// The turn, from 1.
    pub turn: usize,
    /// The number of its call, from 1.
    pub call: usize,
    /// At most three lines of its error.
    pub lines: Vec<String>,
    /// The user ran it, not the model.
    pub by_user: bool,
    /// It ran something: a command, or a tool that no table knows.
    pub is_run: bool,
    /// The wire or the tool says that it failed; otherwise its result reads so.
    pub is_reported: bool,
    /// Its exit code and its directory are known, and no later call may have settled it.
    pub is_certain: bool,
    /// The turn since which it is not known whether it still fails.
    pub unknown_since: Option<usize>,
}

/// A sentence with its turn, from 1 after the last handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenStatement {
    /// The sentence, on one line.
    pub text: String,
    /// The turn; 0 for statements of a carry-over prompt.
    pub turn: usize,
}

/// A file with a verification or a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictFile {
    pub path: String,
    /// The total that it gives, in tenths.
    #[serde(skip)]
    pub score: Option<u32>,
    /// It could not be read, or was deleted.
    pub missing: bool,
}

impl SeenStatement {
    pub(crate) fn new(text: impl Into<String>, turn: usize) -> Self {
        let text = text.into();
        Self { text, turn }
    }
}

impl SeenCommand {
    /// Whether it failed, or reads as failed.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.ended, FAILED | READS_FAILED)
    }
}

impl SeenVerification {
    /// Whether it passed; `None` where that is unknown.
    pub fn has_passed(&self) -> Option<bool> {
        self.exit.map(|code| code == 0).or(self.passed)
    }

    /// How a failed one ended.
    pub(crate) fn failure(&self) -> String {
        match self.exit {
            Some(code) => format!("ended with {code} in turn {}", self.turn),
            None => format!("failed, as its output says, in turn {}", self.turn),
        }
    }
}

impl SeenFacts {
    /// The commands that surely failed and have not succeeded since.
    pub fn failed(&self) -> impl Iterator<Item = &SeenFailure> {
        self.failures.iter().filter(|failure| failure.is_certain)
    }

    /// The item of the to-do list that is under way, else the first one that is not begun.
    pub fn next_todo(&self) -> Option<&TodoItem> {
        let first = |state: TodoState| self.todos.iter().find(|todo| todo.state == state);
        first(TodoState::Active).or_else(|| first(TodoState::Pending))
    }
}
