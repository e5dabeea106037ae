//! An insertion: what baton puts into the model's view of a transcript, and where.
//!
//! A hidden pair ([`HiddenPair`](super::HiddenPair)) and the cut after a turn ([`CutPoint`](super::CutPoint)) are
//! insertions with records of their own; [`Insertion`] is the record of every other one.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{HandoffId, Principal, WireId};

/// What every call fingerprint begins with.
pub const FINGERPRINT: &str = "~";

/// A position in the agent's transcript: after its first elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// How many elements are before it, without the leading system messages.
    pub turns: usize,
    /// Digest of those elements, in hexadecimal: another transcript, or an edited one, has another.
    pub digest: String,
}

/// Where something of ours is in the agent's transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertionPoint {
    /// In the turn of the sibling call. `offset` ≥ 0: that many parts after the sibling (0: right after it); `offset` <
    /// 0: that many before it (-1: right before).
    Beside {
        /// Id of a visible call of the same turn, as the agent echoes it. Where ids may be missing (Gemini, Ollama), a
        /// fingerprint of that call, which only its wire can match.
        sibling: String,
        /// Distance in visible parts, see above.
        offset: i32,
    },
    /// At the line `[[handoff-aside:ID]]`, ID being the insertion's own.
    Aside,
    /// After a turn of the user's or of a tool's.
    After(Position),
}

impl InsertionPoint {
    /// Its sibling call; empty for others.
    pub fn sibling(&self) -> &str {
        match self {
            Self::Beside { sibling, .. } => sibling,
            Self::Aside | Self::After(_) => "",
        }
    }

    /// How many parts after its sibling, or before it; 0 for others.
    pub(crate) fn offset(&self) -> i32 {
        match self {
            Self::Beside { offset, .. } => *offset,
            Self::Aside | Self::After(_) => 0,
        }
    }

    /// The lookup key of an insertion here: the sibling's id, the stable part of its fingerprint, or the digest of a
    /// position.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Beside { sibling, .. } => Some(sibling_key(sibling)),
            Self::After(position) => Some(&position.digest),
            Self::Aside => None,
        }
    }
}

/// What is put in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertionContent {
    /// A text: the last one of the user's message, or after the results of tools.
    Text(String),
}

/// A text in the model's view that the agent's transcript lacks. It is restored on every request whose transcript
/// contains its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insertion {
    pub id: Uuid,
    /// Who may see it.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// The wire of the transcript.
    pub wire: WireId,
    /// Its place.
    pub place: InsertionPoint,
    pub content: InsertionContent,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// The lookup key of a pair next to this sibling: its id, or the stable part of its call fingerprint.
pub fn sibling_key(sibling: &str) -> &str {
    match sibling.split_once(';') {
        Some((key, _)) if key.starts_with(FINGERPRINT) => key,
        _ => sibling,
    }
}

/// The position of a handoff in the agent's transcript, for when its sentinel is missing. An agent may abort the answer
/// with the sentinel, and omit that answer from its next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    pub handoff: HandoffId,
    /// Who may see it.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// The end of the transcript at that time.
    #[serde(flatten)]
    pub position: Position,
    /// Fingerprints of the texts since the cut before, for transcripts that come back as one text.
    pub texts: Vec<u32>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// Thinking in a request that upstream refused because its thinking did not fit its prefix.
///
/// The thinking that the model produced afterwards is bound to a transcript without it. So every later request that is
/// cut at the same handoff leaves out the thinking in front of this position, and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingOmission {
    /// The handoff at which the refused request was cut; [`Self::UNCUT`] where it was not cut.
    pub handoff: HandoffId,
    /// The end of the refused request's transcript.
    #[serde(flatten)]
    pub position: Position,
}

impl ThinkingOmission {
    /// In place of a handoff, for requests that are not cut.
    pub const UNCUT: HandoffId = Uuid::nil();
}
