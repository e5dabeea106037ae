//! Insertions: content that baton adds to the model's view of a transcript, and its position.
//!
//! A hidden pair ([`HiddenPair`](super::HiddenPair)) and the cut after a turn ([`CutPoint`](super::CutPoint))
//! are insertions with records of their own. [`Insertion`] is the record of all others.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{HandoffId, Principal, WireId};

/// Prefix of every call fingerprint.
pub const FINGERPRINT: &str = "~";

/// A position in the agent's transcript: after its first elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of elements before the position, without the leading system messages.
    pub turns: usize,
    /// Digest of those elements, in hexadecimal. A different or edited transcript has a different one.
    pub digest: String,
}

/// Position of an insertion in the agent's transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertionPoint {
    /// In the turn of the sibling call. With `offset` ≥ 0, that many parts after the sibling (0: right after
    /// it). With `offset` < 0, that many parts before it (-1: right before).
    Beside {
        /// Id of a visible call of the same turn, as the agent echoes it. On wires where ids may be missing
        /// (Gemini, Ollama), a fingerprint that only the wire can match.
        sibling: String,
        /// Distance in visible parts, see above.
        offset: i32,
    },
    /// At the line `[[handoff-aside:ID]]`, whose id is the insertion's.
    Aside,
    /// After a user or tool turn.
    After(Position),
}

impl InsertionPoint {
    /// Sibling call; empty for other positions.
    pub fn sibling(&self) -> &str {
        match self {
            Self::Beside { sibling, .. } => sibling,
            Self::Aside | Self::After(_) => "",
        }
    }

    /// Number of parts after the sibling, or before it; 0 for other positions.
    pub(crate) fn offset(&self) -> i32 {
        match self {
            Self::Beside { offset, .. } => *offset,
            Self::Aside | Self::After(_) => 0,
        }
    }

    /// Lookup key of the insertion: the sibling's id, the stable part of its fingerprint, or the digest of
    /// the position.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Beside { sibling, .. } => Some(sibling_key(sibling)),
            Self::After(position) => Some(&position.digest),
            Self::Aside => None,
        }
    }
}

/// Content of an insertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertionContent {
    /// A notice: the last block of a user message, or a message after tool results.
    Text(String),
}

/// A notice in the model's view that the agent's transcript lacks. Every request whose transcript contains
/// its position gets it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insertion {
    pub id: Uuid,
    /// Owner.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// Wire of the transcript.
    pub wire: WireId,
    /// Position in the transcript.
    pub place: InsertionPoint,
    pub content: InsertionContent,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// Lookup key of a pair next to this sibling: the id, or the stable part of the call fingerprint.
pub fn sibling_key(sibling: &str) -> &str {
    match sibling.split_once(';') {
        Some((key, _)) if key.starts_with(FINGERPRINT) => key,
        _ => sibling,
    }
}

/// Position of a handoff in the agent's transcript, used if its sentinel is missing.
///
/// An agent may abort the response with the sentinel, and omit that response from its next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    pub handoff: HandoffId,
    /// Owner.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// End of the transcript at that time.
    #[serde(flatten)]
    pub position: Position,
    /// Fingerprints of the messages since the previous cut, for transcripts that return as a single string.
    pub texts: Vec<u32>,
    /// Whether the user's command that made the handoff comes next in the agent's transcript. Without it, the user
    /// has gone back to before the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_command: bool,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// Thinking in a request that upstream refused because it did not fit its prefix.
///
/// The thinking that the model produced afterwards is bound to a transcript without it. Every later request
/// that is cut at the same handoff therefore omits exactly the thinking before this position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingOmission {
    /// Handoff that cut the refused request, or [`Self::UNCUT`].
    pub handoff: HandoffId,
    /// End of the refused request's transcript.
    #[serde(flatten)]
    pub position: Position,
}

impl ThinkingOmission {
    /// Stands for a handoff in requests that are not cut.
    pub const UNCUT: HandoffId = Uuid::nil();
}
