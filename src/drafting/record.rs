//! What is known of one draft.

use uuid::Uuid;

use crate::draft::{DraftAsk, Method};
use crate::record::HandoffId;

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What was asked for.
    pub ask: DraftAsk,
    /// The carry-over prompt, where who asks brings it: nothing is to be written then.
    pub prompt: Option<String>,
}

impl From<DraftAsk> for Wanted {
    fn from(ask: DraftAsk) -> Self {
        Self { ask, prompt: None }
    }
}

/// How far a draft is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for the conversation's next request.
    Asked,
    /// It is being written.
    Writing,
    /// It is a handoff.
    Done,
    /// The model wrote nothing.
    Empty,
    /// The agent left, or somebody cancelled it.
    Cancelled,
    /// It failed.
    Failed,
    /// Another handoff took effect before.
    Dropped,
}

impl State {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Writing => "writing",
            Self::Done => "done",
            Self::Empty => "empty",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }

    /// Whether another draft of the conversation has to wait.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Asked | Self::Writing)
    }
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// A UUIDv7.
    pub id: Uuid,
    /// Key of the conversation.
    pub conversation: String,
    /// Whose that is.
    pub principal: String,
    /// What was asked for.
    pub wanted: Wanted,
    /// How far it is.
    pub state: State,
    /// How it was made, once it is.
    pub method: Option<Method>,
    /// The document, once it is written.
    pub document: Option<String>,
    /// The handoff that it became.
    pub handoff: Option<HandoffId>,
    /// The failure's name.
    pub failure: Option<&'static str>,
    /// Why it ended as it did.
    pub why: Option<String>,
    /// By which a repeated call of the API is recognised.
    pub key: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_ms: u64,
}

impl Draft {
    pub(super) fn new(conversation: &str, principal: &str, wanted: Wanted, state: State) -> Self {
        let now_ms = super::now_ms();
        Self {
            id: Uuid::now_v7(),
            conversation: conversation.to_owned(),
            principal: principal.to_owned(),
            wanted,
            state,
            method: None,
            document: None,
            handoff: None,
            failure: None,
            why: None,
            key: None,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}
