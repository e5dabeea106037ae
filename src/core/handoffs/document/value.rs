//! The document as a value, and its inputs.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::agents::todo::TodoItem;
use crate::record::{Handoff, HandoffStatus};
use crate::text::units::is_zero;
use crate::work::{
    SeenChange, SeenClaim, SeenCommand, SeenFacts, SeenStatement, SeenVerification, VerdictFile,
};

/// Version of the format, as in the member `version`.
pub const VERSION: u32 = 1;

/// Placeholder for a next action that nobody recorded.
pub const NO_NEXT_ACTION: &str = "no next step is recorded; ask the user";

/// A handoff as a document. The names are API; reading fails for unknown members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffDocument {
    /// [`VERSION`].
    pub version: u32,
    /// The handoff's id.
    pub id: Uuid,
    /// Whether the document is sufficient to continue from.
    pub kind: HandoffKind,
    /// Whether the handoff is the newest of its repository, branch and topic.
    pub status: HandoffStatus,
    /// When the handoff was made, RFC 3339.
    pub created_at: String,
    /// Summary in one paragraph.
    pub summary: String,
    /// Changed files, in the order of their first change.
    pub changed_files: Vec<SeenChange>,
    /// Files that calls changed, and that may not be as they left them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful_files: Vec<SeenChange>,
    /// The last commands, those of the user, and every one that failed or changed something; oldest first.
    pub commands_run: Vec<SeenCommand>,
    /// Number of omitted commands.
    pub commands_left_out: usize,
    /// Failed attempts.
    pub failed_attempts: Vec<FailedAttempt>,
    /// Risks, the worst first.
    pub open_risks: Vec<Risk>,
    /// The first step of the next session; without one this is a status report.
    pub next_action: Option<String>,
    /// Files with a verification and a review.
    pub verdict_pointer: VerdictPointer,
    /// The last observed run of each command that tests, builds or lints.
    pub verification: Vec<SeenVerification>,
    /// Unproven claims of the carry-over prompt.
    pub claims: Vec<SeenClaim>,
    /// The agent's to-do list.
    pub todo: Vec<TodoItem>,
    /// Sentences about decisions.
    pub decisions: Vec<SeenStatement>,
    /// Unconfirmed assumptions.
    pub assumptions_to_validate: Vec<SeenStatement>,
    /// Unanswered questions to the user.
    pub questions_for_human: Vec<SeenStatement>,
    /// Things to load or start first.
    pub prerequisites: Vec<Prerequisite>,
    /// The directory that the agent worked in; empty if unknown.
    pub repository: String,
    /// The branch; empty if unknown.
    pub branch: String,
    /// The topic: the session, unless another is configured.
    pub topic: String,
    /// The clean commit at the last verification that passed; empty if unknown.
    pub last_known_good_commit: String,
    /// The previous handoff.
    pub parent: Option<Uuid>,
    /// The origin of the handoff: who began it.
    pub origin: String,
    /// The wire of the request that handed over.
    pub wire: String,
    /// The model, as the request named it.
    pub model: Option<String>,
    /// Key of the conversation.
    pub conversation: String,
    /// Client that made the handoff. `None` if the proxy has no clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The exchange in which the handoff fired; the journal has all of it.
    pub exchange: Option<String>,
    /// Turns since the previous handoff.
    pub turns: usize,
    /// Tokens of the last response before the handoff, by the provider's count; `None` if unknown.
    pub context: Option<ContextTokens>,
    /// Estimated tokens of the model's view.
    pub tokens: HandoffSize,
    /// Bytes of the model's view.
    pub bytes: HandoffSize,
    /// The carry-over prompt, redacted.
    pub prompt: String,
}

/// Whether a document is sufficient to continue from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffKind {
    /// A document with a next action.
    Handoff,
    /// A document without a next action.
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
    /// A command, or the model's description of the attempt.
    pub tried: String,
    /// Lines of the error; empty if there are none.
    pub why: String,
    /// The turn, from 1; 0 for an attempt of a carry-over prompt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn: usize,
    /// The number of the call, from 1; 0 for a description.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    pub severity: Severity,
    pub detail: String,
}

named! {
    /// Severity of a risk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// Blocks all further work.
        Block = "block",
        /// Needs attention.
        Warn = "warn",
        /// For information.
        Info = "info",
    }
}

/// Files with a verification and a review (`handoff.verdict_paths`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictPointer {
    /// The last verification that was read or written.
    pub verification: Option<VerdictFile>,
    /// The last review that was read or written.
    pub review: Option<VerdictFile>,
}

/// Something to load or start first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prerequisite {
    pub kind: PrerequisiteKind,
    /// A path, a handoff's id, a command, or the use of a file.
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
        /// A process that a command started.
        Service = "service",
        /// A file with credentials.
        Credentials = "credentials",
    }
}

/// Use of a model's context by a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextTokens {
    /// Tokens of the input, including cached ones, and of the output.
    pub used: u64,
    /// The model's window, if known.
    pub window: Option<u64>,
}

/// Sizes of the request before the handoff and of the first one after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffSize {
    pub before: u64,
    pub after: u64,
}

/// The inputs of a document.
pub struct HandoffSource<'s> {
    pub handoff: &'s Handoff,
    /// The facts since the previous handoff.
    pub seen: &'s SeenFacts,
    /// The directory that the agent worked in.
    pub directory: Option<&'s str>,
    /// The work's repository, as git reports it.
    pub checkout: Option<&'s Checkout>,
    /// Whether a repository exists that was not examined.
    pub is_unread: bool,
    /// The topic; by default the session.
    pub topic: Option<&'s str>,
    /// The exchange in which the handoff fired.
    pub exchange: Option<&'s str>,
    /// Words that make a sentence of the prompt an assumption, in lower case.
    pub assumptions: &'s [String],
    /// Context use of the last response before the handoff.
    pub context: Option<ContextTokens>,
    /// Bytes of the request before the handoff and of the first one after it.
    pub bytes: HandoffSize,
    /// Redacts credentials from a string.
    pub clean: &'s dyn Fn(&str) -> String,
}

/// A repository, as git reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkout {
    /// The branch; empty if none is checked out.
    pub branch: String,
    /// The checked-out commit.
    pub head: String,
    /// Files that differ from the commit or are new.
    pub changed: Vec<String>,
}
