//! One message of the index: what is kept of texts, calls and results.

use super::markers::AnchoredSentence;
use crate::agents::ending::LineEnd;
use crate::agents::files::FileChange;
use crate::agents::outcomes::GitReport;
use crate::agents::secret_files::SecretFile;
use crate::agents::todo::{TodoItem, TodoState};
use crate::agents::tools::ToolKind;
use crate::agents::wordings::UserText;
use crate::wire::Role;

/// The position of a call: message and item.
pub(crate) type ItemPosition = (usize, usize);

/// What is kept of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedMessage {
    pub(crate) role: Role,
    /// When it was made, as it is written there.
    pub(crate) time: Option<String>,
    pub(crate) items: Vec<IndexedItem>,
    /// It says that the user's text before it is a summary.
    pub(crate) summary_before: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IndexedItem {
    Text(IndexedText),
    Call(IndexedCall),
    Result(IndexedResult),
    Task(IndexedTodo),
    /// Calls of the model's are missing here.
    Gap,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedText {
    /// What it is in a user's place; the model's own words are `User` of an assistant's message.
    pub(crate) kind: UserText,
    pub(crate) text: String,
    pub(crate) anchors: Vec<AnchoredSentence>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedCall {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
    /// The user ran it, not the model.
    pub(crate) by_user: bool,
    /// A command, a path, a question: on one line.
    pub(crate) about: String,
    pub(crate) command: Option<String>,
    /// The command is not cut.
    pub(crate) whole: bool,
    /// The directory that a command runs in, where the call says.
    pub(crate) directory: Option<String>,
    /// The shell that runs it stays in the directory that a command changes to.
    pub(crate) stays: bool,
    /// Whether the whole command surely changes no file.
    pub(crate) is_read_only: bool,
    /// What it asks the user.
    pub(crate) questions: Vec<String>,
    /// The score of a review that it writes, in tenths.
    pub(crate) score: Option<u32>,
    /// The files that it names, with what it does to them where that is certain.
    pub(crate) paths: Vec<(String, Option<FileChange>)>,
    pub(crate) todos: Vec<TodoItem>,
    /// The new state of the to-do item that it changes.
    pub(crate) todo_state: Option<TodoState>,
    /// The files with credentials that it names; nothing of its result is quoted where there are any.
    pub(crate) secrets: Vec<SecretFile>,
}

/// An item of the to-do list that a call made or changed, as its result says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedTodo {
    pub(crate) number: String,
    /// The text of a new item.
    pub(crate) text: Option<String>,
    /// Its current state, where the call states it.
    pub(crate) state: Option<TodoState>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct IndexedResult {
    /// Position of its call.
    pub(crate) call: Option<ItemPosition>,
    /// Whether the tool failed, where that is known.
    pub(crate) failed: Option<bool>,
    /// How its line ended, with what its output says.
    pub(crate) end: LineEnd,
    /// It is not known to have failed, and reads as if it had.
    pub(crate) looks_failed: bool,
    /// One to three lines.
    pub(crate) lines: Vec<String>,
    /// Of a command that changes something: the lines that name it.
    pub(crate) effects: Vec<String>,
    /// More for errors, patches and traces.
    pub(crate) detail: Option<String>,
    pub(crate) bytes: usize,
    /// It says that the call did not run.
    pub(crate) not_run: bool,
    /// The directory that the shell has moved to.
    pub(crate) moved_to: Option<String>,
    /// It says that what was to prepare a command failed.
    pub(crate) unprepared: bool,
    /// Whether a call that changes files did, where the result says.
    pub(crate) changed: Option<bool>,
    /// Whether the file that was written is a new one, where the result says.
    pub(crate) made: Option<bool>,
    /// The last lines of a command that is known to have failed.
    pub(crate) tail: Vec<String>,
    /// What git says of its repository.
    pub(crate) git: Vec<GitReport>,
    /// The score of a review that was read, in tenths.
    pub(crate) score: Option<u32>,
}

/// Words for results that failed, and for those that read so.
pub(crate) const FAILED: &str = "FAILED";
pub(crate) const READS_FAILED: &str = "reads as failed";

impl IndexedResult {
    /// How the call ended, in a word.
    pub(crate) fn ended(&self) -> &'static str {
        match self.failed {
            _ if self.not_run => "not run",
            Some(false) => "went well",
            Some(true) => FAILED,
            None if self.looks_failed => READS_FAILED,
            None => "ended in a way that is not known",
        }
    }

    /// The lines that are shown of it: of a command that changed something those that name it.
    pub(crate) fn shown(&self) -> &[String] {
        match self.effects.is_empty() {
            true => &self.lines,
            false => &self.effects,
        }
    }

    /// Whether it is an error: known or by its looks.
    pub(crate) fn is_error(&self) -> bool {
        self.failed == Some(true) || self.failed.is_none() && self.looks_failed
    }
}

#[cfg(test)]
mod tests {
    use super::IndexedResult;

    #[test]
    fn what_reads_as_failed_is_said_where_nothing_is_known() {
        let ended = |failed, looks_failed| {
            IndexedResult {
                failed,
                looks_failed,
                ..IndexedResult::default()
            }
            .ended()
        };
        assert_eq!(ended(None, true), "reads as failed");
        assert_eq!(ended(None, false), "ended in a way that is not known");
        assert_eq!(ended(Some(false), true), "went well");
        assert_eq!(ended(Some(true), false), "FAILED");
    }
}
