//! An indexed message: the kept facts of its text, calls and results.

use super::CallEnd;
use super::markers::AnchoredSentence;
use crate::agents::background::{BackgroundCall, BackgroundEnd};
use crate::agents::ending::LineEnd;
use crate::agents::files::FileChange;
use crate::agents::outcomes::GitReport;
use crate::agents::secret_files::SecretFile;
use crate::agents::todo::{NumberedTodo, TodoItem, TodoState};
use crate::agents::tools::ToolKind;
use crate::agents::wordings::UserText;
use crate::wire::Role;

/// Position of an item: the message and the item's index in it.
pub(crate) type ItemPosition = (usize, usize);

/// The kept facts of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedMessage {
    pub(crate) role: Role,
    /// When the message was created, as written in it.
    pub(crate) time: Option<String>,
    pub(crate) items: Vec<IndexedItem>,
    /// Whether the message shows that the user's text before it is a summary.
    pub(crate) summary_before: bool,
    /// The ends of earlier commands in the background.
    pub(crate) ended: Vec<BackgroundEnd>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IndexedItem {
    Text(IndexedText),
    Call(IndexedCall),
    Result(IndexedResult),
    Task(IndexedTodo),
    /// The to-do list that a call showed.
    TaskList(Vec<NumberedTodo>),
    /// Calls of the model are missing here.
    Gap,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedText {
    /// The kind of text in a user turn. In an assistant's message, `User` stands for the model's words.
    pub(crate) kind: UserText,
    pub(crate) text: String,
    pub(crate) anchors: Vec<AnchoredSentence>,
    /// Whether the user answers a question that the model asked with a tool.
    pub(crate) answers: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedCall {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
    /// Whether the user ran it, and not the model.
    pub(crate) by_user: bool,
    /// Subject on one line: a command, a path or a question.
    pub(crate) about: String,
    pub(crate) command: Option<String>,
    /// Whether the command is complete, and not cut.
    pub(crate) whole: bool,
    /// The directory that the command runs in, if the call states it.
    pub(crate) directory: Option<String>,
    /// Whether the shell stays in the directory that the command changes to.
    pub(crate) stays: bool,
    /// Whether the whole command certainly changes no file.
    pub(crate) is_read_only: bool,
    /// Questions to the user.
    pub(crate) questions: Vec<String>,
    /// The score of a review that the call writes, in tenths.
    pub(crate) score: Option<u32>,
    /// The named files, with their changes if those are certain.
    pub(crate) paths: Vec<(String, Option<FileChange>)>,
    pub(crate) todos: Vec<TodoItem>,
    /// The command in the background that the call is about.
    pub(crate) background: Option<BackgroundCall>,
    /// The new state of the to-do item that the call changes.
    pub(crate) todo_state: Option<TodoState>,
    /// Named files with credentials. If there are any, nothing of the result is quoted.
    pub(crate) secrets: Vec<SecretFile>,
}

/// An item of the to-do list that a call created or changed, from its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedTodo {
    pub(crate) number: String,
    /// The text of a new item.
    pub(crate) text: Option<String>,
    /// The current state, if the call states it.
    pub(crate) state: Option<TodoState>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct IndexedResult {
    /// Position of the call.
    pub(crate) call: Option<ItemPosition>,
    /// Whether the tool failed, if known.
    pub(crate) failed: Option<bool>,
    /// How the line ended, including evidence from its output.
    pub(crate) end: LineEnd,
    /// Whether the result reads like a failure although none is reported.
    pub(crate) looks_failed: bool,
    /// Up to three lines of the result.
    pub(crate) lines: Vec<String>,
    /// For a command that changes something: the lines that name the change.
    pub(crate) effects: Vec<String>,
    /// A longer excerpt of an error, a patch or a trace.
    pub(crate) detail: Option<String>,
    pub(crate) bytes: usize,
    /// Whether the result states that the call did not run.
    pub(crate) not_run: bool,
    /// The directory that the shell has moved to.
    pub(crate) moved_to: Option<String>,
    /// Whether the result states that the preparation of a command failed.
    pub(crate) unprepared: bool,
    /// Whether a call that changes files did so, if the result states it.
    pub(crate) changed: Option<bool>,
    /// Whether the written file is new, if the result states it.
    pub(crate) made: Option<bool>,
    /// The last lines of a command that certainly failed.
    pub(crate) tail: Vec<String>,
    /// Git's reports about the repository.
    pub(crate) git: Vec<GitReport>,
    /// The score of a review that was read, in tenths.
    pub(crate) score: Option<u32>,
    /// Identity of the command, if it still runs in the background.
    pub(crate) session: Option<String>,
    /// Whether a server did not answer the command.
    pub(crate) refuses: bool,
    /// Whether the command has ended that an earlier result left in the background.
    pub(crate) is_over: bool,
}

impl IndexedResult {
    /// How the call ended, if known.
    pub(crate) fn ended(&self) -> Option<CallEnd> {
        Some(match self.failed {
            Some(false) => CallEnd::Good,
            Some(true) => CallEnd::Failed,
            None if self.end.is_running => CallEnd::Running,
            None if self.looks_failed => CallEnd::ReadsFailed,
            None => return None,
        })
    }

    /// The lines to show: those that name a change, if there are any.
    pub(crate) fn shown(&self) -> &[String] {
        match self.effects.is_empty() {
            true => &self.lines,
            false => &self.effects,
        }
    }

    /// Whether this is an error, reported or by its wording.
    pub(crate) fn is_error(&self) -> bool {
        self.failed == Some(true) || self.failed.is_none() && self.looks_failed
    }
}

#[cfg(test)]
mod tests {
    use super::{CallEnd, IndexedResult};

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
        assert_eq!(ended(None, true), Some(CallEnd::ReadsFailed));
        assert_eq!(ended(None, false), None);
        assert_eq!(ended(Some(false), true), Some(CallEnd::Good));
        assert_eq!(ended(Some(true), false), Some(CallEnd::Failed));
    }
}
