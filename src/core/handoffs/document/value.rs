//! The document as a value, and what it is made from.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::agents::todo::TodoItem;
use crate::record::{Handoff, HandoffStatus};
use crate::work::{
    SeenChange, SeenClaim, SeenCommand, SeenFacts, SeenStatement, SeenVerification, VerdictFile,
};

/// The version of the format, as `version` has it.
pub const VERSION: u32 = 1;

/// Placeholder for a next action that nobody recorded.
pub const NO_NEXT_ACTION: &str = "no next_action recorded; needs a human";

/// A handoff as a document. The names are API; members that are unknown are errors when it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffDocument {
    /// [`VERSION`].
    pub version: u32,
    /// The handoff's id.
    pub id: Uuid,
    /// Whether it is sufficient to continue from.
    pub kind: HandoffKind,
    /// Whether it is the newest of its repository, branch and topic.
    pub status: HandoffStatus,
    /// When the handoff was made, RFC 3339.
    pub created_at: String,
    /// A paragraph.
    pub summary: String,
    /// Files that were changed, in the order of their first change.
    pub changed_files: Vec<SeenChange>,
    /// The last commands, those of the user, and every one that failed or changed something; oldest first.
    pub commands_run: Vec<SeenCommand>,
    /// How many more commands there were.
    pub commands_left_out: usize,
    /// A failed attempt.
    pub failed_attempts: Vec<FailedAttempt>,
    /// Risks, the worst first.
    pub open_risks: Vec<Risk>,
    /// What is to be done first; `None` makes it a status report.
    pub next_action: Option<String>,
    /// Files with a verification and a review.
    pub verdict_pointer: VerdictPointer,
    /// The last run of each command that tests, builds or lints, as it was seen.
    pub verification: Vec<SeenVerification>,
    /// Unproven claims of the carry-over prompt.
    pub claims: Vec<SeenClaim>,
    /// The agent's to-do list.
    pub todo: Vec<TodoItem>,
    /// Sentences about what was decided.
    pub decisions: Vec<SeenStatement>,
    /// Unconfirmed assumptions.
    pub assumptions_to_validate: Vec<SeenStatement>,
    /// Questions that were put to the user and have no answer.
    pub questions_for_human: Vec<SeenStatement>,
    /// What is to be loaded or started first.
    pub prerequisites: Vec<Prerequisite>,
    /// The directory that the agent worked in; empty where it is unknown.
    pub repository: String,
    /// The branch; empty where it is unknown.
    pub branch: String,
    /// What it is about: the session, unless the config names another.
    pub topic: String,
    /// The commit that was checked out, with nothing changed, at the last verification that passed; empty where none is
    /// known.
    pub last_known_good_commit: String,
    /// The handoff before it.
    pub parent: Option<Uuid>,
    /// Who began the handoff.
    pub origin: String,
    /// The wire that it fired on.
    pub wire: String,
    /// The model, as the request named it.
    pub model: Option<String>,
    /// Key of the conversation.
    pub conversation: String,
    /// The exchange in which it fired; the journal has all of it.
    pub exchange: Option<String>,
    /// Turns since the last handoff.
    pub turns: usize,
    /// Tokens of the last answer before it, as the provider counted them; `None` where none is known.
    pub context: Option<ContextTokens>,
    /// Estimated tokens of the model's view.
    pub tokens: HandoffSize,
    /// Bytes of the same.
    pub bytes: HandoffSize,
    /// The carry-over prompt, redacted.
    pub prompt: String,
}

/// Whether a document is sufficient to continue from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffKind {
    /// It names a next action.
    Handoff,
    /// It names no next action.
    StatusReport,
}

impl HandoffKind {
    pub(super) fn from_next_action(next_action: Option<&str>) -> Self {
        match next_action {
            Some(_) => Self::Handoff,
            None => Self::StatusReport,
        }
    }
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedAttempt {
    /// A command, or what the model wrote of it.
    pub tried: String,
    /// Lines of its error; empty where there are none.
    pub why: String,
}

/// A risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    /// How bad it is.
    pub severity: Severity,
    pub detail: String,
}

named! {
    /// How bad a risk is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// It blocks all further work.
        Block = "block",
        /// It needs attention.
        Warn = "warn",
        /// For information.
        Info = "info",
    }
}

/// Files with a verification and a review (`handoff.verdict_paths`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictPointer {
    /// The last one that was read or written.
    pub verification: Option<VerdictFile>,
    /// The same of a review.
    pub review: Option<VerdictFile>,
}

/// What is to be loaded or started first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prerequisite {
    pub kind: PrerequisiteKind,
    /// A path, a handoff's id, a command, what was done with a file.
    pub what: String,
}

named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PrerequisiteKind {
        /// A file to read.
        File = "file",
        /// Another handoff.
        Handoff = "handoff",
        /// Something that a command started.
        Service = "service",
        /// A file with credentials.
        Credentials = "credentials",
    }
}

/// What an answer took of its model's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextTokens {
    /// Tokens of its input, cached ones included, and of its output.
    pub used: u64,
    /// The model's window, where it is known.
    pub window: Option<u64>,
}

/// Sizes of the request before the handoff and of the first one after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffSize {
    pub before: u64,
    /// Tokens after the handoff.
    pub after: u64,
}

/// The inputs of a document.
pub struct HandoffSource<'s> {
    pub handoff: &'s Handoff,
    /// What was seen since the handoff before it.
    pub seen: &'s SeenFacts,
    /// The directory that the agent worked in.
    pub directory: Option<&'s str>,
    /// The repository of the work as git has it.
    pub checkout: Option<&'s Checkout>,
    /// Whether there is a repository that was not looked at.
    pub is_unread: bool,
    /// What it is about; without one it is the session.
    pub topic: Option<&'s str>,
    /// The exchange in which it fired.
    pub exchange: Option<&'s str>,
    /// Words by which a sentence of the prompt is an assumption, in lower case.
    pub assumptions: &'s [String],
    /// What the last answer before it took of the model's context.
    pub context: Option<ContextTokens>,
    /// Bytes of the request before the handoff and of the first one after it.
    pub bytes: HandoffSize,
    /// Takes credentials out of a text.
    pub clean: &'s dyn Fn(&str) -> String,
}

/// A repository as git has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkout {
    /// The branch; empty where none is checked out.
    pub branch: String,
    /// The commit.
    pub head: String,
    /// Files that differ from it or are new.
    pub changed: Vec<String>,
}
