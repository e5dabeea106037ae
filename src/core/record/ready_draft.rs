//! A draft that was written ahead of a handoff.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::HandoffId;
use super::insertion::Position;

/// A document of a conversation's work, written while the provider's cache was warm. It is in no transcript and no request: the
/// next free cut makes a handoff of it, and what the transcript has after it goes with it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyDraft {
    /// A UUIDv7.
    pub id: Uuid,
    pub document: String,
    /// The end of the transcript that it describes.
    pub covers: Position,
    /// The handoff that this transcript was cut at.
    pub cut: Option<HandoffId>,
    /// The last request before it: when, to which model with which effort, and its tokens. The cache is warm or cold by it.
    pub last: CachedHistory,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// A history as a provider has cached it with its last request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedHistory {
    /// The start of the request, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The model that it was sent to.
    pub model: String,
    /// Its effort as the request states it; empty where it states none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effort: String,
    /// Tokens of its input and output: what the next request begins with.
    pub tokens: u64,
    /// Tokens of the system prompt and the tools, of these.
    pub fixed: u64,
    /// Whether it was stored for the provider's long lifetime.
    pub long: bool,
}
