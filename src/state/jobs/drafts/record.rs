//! The state of one draft.

use std::path::PathBuf;

use uuid::Uuid;

use crate::clock::now_ms;
use baton_core::handoffs::draft::{DraftMethod, DraftRequest, document_of};
use baton_core::record::{Handoff, HandoffId, HandoffOrigin, Position};

/// The prompt and options of a requested draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftOrder {
    /// Options of the draft.
    pub ask: DraftRequest,
    /// Carry-over prompt, if the caller supplies one. Then no draft is written.
    pub prompt: Option<String>,
}

impl From<DraftRequest> for DraftOrder {
    fn from(ask: DraftRequest) -> Self {
        Self { ask, prompt: None }
    }
}

baton_core::named! {
    /// State of a draft. The names are part of the API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum DraftState {
        /// The draft waits for the conversation's next request.
        Requested = "asked",
        /// The draft is being written.
        Writing = "writing",
        /// The draft is written and awaits the user's approval.
        Review = "review",
        /// A user accepted the draft. It takes effect with the conversation's next request.
        Accepted = "accepted",
        /// The draft became a handoff.
        Done = "done",
        /// The model wrote nothing.
        Empty = "empty",
        /// The agent disconnected, or the draft was cancelled.
        Cancelled = "cancelled",
        /// The draft failed.
        Failed = "failed",
        /// A user rejected the draft.
        Rejected = "rejected",
        /// No user decided in time.
        Expired = "expired",
        /// Another handoff took effect first.
        Dropped = "dropped",
    }
}

impl DraftState {
    /// Whether the draft blocks another one of the same conversation.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Requested | Self::Writing | Self::Review | Self::Accepted
        )
    }

    /// Describes the state of an open draft to the user.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Requested => "A handoff was requested; it is made with the next request",
            Self::Review => "A draft waits for your approval",
            Self::Accepted => "An accepted draft takes effect with the next request",
            _ => "A handoff is being written",
        }
    }

    /// Whether the conversation's next request makes the draft.
    pub fn waits(self) -> bool {
        matches!(self, Self::Requested | Self::Accepted)
    }
}

/// A draft: its order, its state and its result so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftRecord {
    /// Id of the draft, a version 7 UUID.
    pub id: Uuid,
    /// Key of the conversation.
    pub conversation: String,
    /// Principal that the conversation belongs to.
    pub principal: String,
    /// Order that requested the draft.
    pub wanted: DraftOrder,
    pub state: DraftState,
    pub result: DraftResult,
    /// Reason for the draft's end, in words.
    pub why: Option<String>,
    /// File that the document was saved to.
    pub saved_path: Option<PathBuf>,
    /// Idempotency key, which identifies a repeated call of the API.
    pub key: Option<String>,
    /// Creation time in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Time of the last change, in milliseconds since the Unix epoch.
    pub updated_ms: u64,
}

/// The result of a draft so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftResult {
    /// Method that made the draft, once it is made.
    pub method: Option<DraftMethod>,
    /// Document, once it is written.
    pub document: Option<String>,
    /// Position in the transcript where the draft was made, once it awaits approval.
    pub made_at: Option<Position>,
    /// Handoff that the draft became.
    ///
    /// In review this is the stored handoff, which has the draft's id and is not active in any conversation.
    pub handoff: Option<HandoffId>,
    /// Name of the failure, as in logs and metrics.
    pub failure: Option<&'static str>,
}

impl DraftRecord {
    /// Rebuilds the draft of a stored handoff that awaits approval. Returns `None` if the model made the
    /// handoff itself.
    pub fn stored(handoff: &Handoff) -> Option<Self> {
        let (origin, method) = match handoff.origin {
            HandoffOrigin::Model => return None,
            HandoffOrigin::Oneshot => (HandoffOrigin::User, Some(DraftMethod::Oneshot)),
            HandoffOrigin::Bundle => (HandoffOrigin::User, Some(DraftMethod::Bundle)),
            HandoffOrigin::Local => (HandoffOrigin::User, Some(DraftMethod::Local)),
            HandoffOrigin::User => (HandoffOrigin::User, None),
            // These origins do not tell the method, so the usual one is assumed.
            origin @ (HandoffOrigin::Auto | HandoffOrigin::Api) => (origin, Some(DraftMethod::Oneshot)),
        };
        let ask = DraftRequest {
            origin,
            method,
            ..DraftRequest::default()
        };
        let (conversation, principal) = (&handoff.conversation, &handoff.principal);
        Some(Self {
            id: handoff.id,
            result: DraftResult {
                method,
                document: Some(document_of(&handoff.prompt).to_owned()),
                made_at: handoff.kept.as_ref().map(|kept| kept.from.clone()),
                handoff: Some(handoff.id),
                failure: None,
            },
            created_ms: handoff.created_ms,
            updated_ms: handoff.created_ms,
            ..Self::new(conversation, principal, ask.into(), DraftState::Review)
        })
    }

    pub(super) fn new(conversation: &str, principal: &str, wanted: DraftOrder, state: DraftState) -> Self {
        let now_ms = now_ms();
        Self {
            id: Uuid::now_v7(),
            conversation: conversation.to_owned(),
            principal: principal.to_owned(),
            wanted,
            state,
            result: DraftResult::default(),
            why: None,
            saved_path: None,
            key: None,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}
