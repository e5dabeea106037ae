//! What was seen, as a value.

use serde::{Deserialize, Serialize};

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
    /// Files that were changed by tools that say so.
    pub files: Vec<SeenChange>,
    /// Files that were read.
    pub read: Vec<String>,
    /// Commands that failed and have not succeeded since.
    pub failed: Vec<SeenFailure>,
    /// The agent's to-do list as it was last written.
    pub todos: Vec<TodoItem>,
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
    /// What the model wrote before it changed it last.
    pub why: Option<String>,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFailure {
    /// The whole line.
    pub command: String,
    /// Its exit code, which is not 0.
    pub exit: i32,
    /// The turn, from 1.
    pub turn: usize,
    /// At most three lines of its error.
    pub lines: Vec<String>,
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
    pub(in crate::handoffs) fn new(text: impl Into<String>, turn: usize) -> Self {
        let text = text.into();
        Self { text, turn }
    }
}

impl SeenVerification {
    /// Whether it passed; `None` where that is unknown.
    pub fn has_passed(&self) -> Option<bool> {
        self.exit.map(|code| code == 0).or(self.passed)
    }

    /// How one that failed did.
    pub(in crate::handoffs) fn failure(&self) -> String {
        match self.exit {
            Some(code) => format!("ended with {code} in turn {}", self.turn),
            None => format!("failed, as its output says, in turn {}", self.turn),
        }
    }
}

impl SeenFacts {
    /// The item of the to-do list that is under way, else the first one that is not begun.
    pub fn next_todo(&self) -> Option<&TodoItem> {
        let first = |state: TodoState| self.todos.iter().find(|todo| todo.state == state);
        first(TodoState::Active).or_else(|| first(TodoState::Pending))
    }
}
