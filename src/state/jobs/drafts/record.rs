//! The state of one draft.

use std::path::PathBuf;

use uuid::Uuid;

use crate::clock::now_ms;
use baton_core::handoffs::draft::{DraftMethod, DraftRequest, document_of};
use baton_core::record::{Handoff, HandoffId, HandoffOrigin, Position};

/// The prompt and options of a requested draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftOrder {
    /// The request for it.
    pub ask: DraftRequest,
    /// The carry-over prompt, if the caller supplies it: then no draft is written.
    pub prompt: Option<String>,
}

impl From<DraftRequest> for DraftOrder {
    fn from(ask: DraftRequest) -> Self {
        Self { ask, prompt: None }
    }
}

baton_core::named! {
    /// How far a draft is; the names are API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum DraftState {
        /// It waits for the conversation's next request.
        Requested = "asked",
        /// It is being written.
        Writing = "writing",
        /// It is written, and waits for a user's approval.
        Review = "review",
        /// A user accepted it: it takes effect with the conversation's next request.
        Accepted = "accepted",
        /// The draft became a handoff.
        Done = "done",
        /// The model wrote nothing.
        Empty = "empty",
        /// The agent left, or the draft was cancelled.
        Cancelled = "cancelled",
        /// It failed.
        Failed = "failed",
        /// A user rejected it.
        Rejected = "rejected",
        /// No user answered in time.
        Expired = "expired",
        /// Another handoff took effect before.
        Dropped = "dropped",
    }
}

impl DraftState {
    /// Whether another draft of the conversation has to wait.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Requested | Self::Writing | Self::Review | Self::Accepted
        )
    }

    /// How far an open draft is, for a user.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Requested => "A handoff was requested; it is made with the next request",
            Self::Review => "A draft waits for your approval",
            Self::Accepted => "An accepted draft takes effect with the next request",
            _ => "A handoff is being written",
        }
    }

    /// Whether it is made with the conversation's next request.
    pub fn waits(self) -> bool {
        matches!(self, Self::Requested | Self::Accepted)
    }
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftRecord {
    /// A UUIDv7.
    pub id: Uuid,
    /// Key of the conversation.
    pub conversation: String,
    /// Whose that is.
    pub principal: String,
    /// The request for it.
    pub wanted: DraftOrder,
    /// How far it is.
    pub state: DraftState,
    /// How it was made, once it is.
    pub method: Option<DraftMethod>,
    /// The document, once it is written.
    pub document: Option<String>,
    /// Where in the transcript it was made, once it waits for a user.
    pub made_at: Option<Position>,
    /// The handoff that it became; in review the stored one, which has the draft's id and is active nowhere.
    pub handoff: Option<HandoffId>,
    /// The failure's name.
    pub failure: Option<&'static str>,
    /// Why it ended as it did.
    pub why: Option<String>,
    /// The file that it was saved as.
    pub saved_path: Option<PathBuf>,
    /// The key by which a repeated call of the API is recognised.
    pub key: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_ms: u64,
}

impl DraftRecord {
    /// A draft whose handoff is stored and waits for a user's approval; `None` where the model made the handoff itself.
    pub fn stored(handoff: &Handoff) -> Option<Self> {
        let (origin, method) = match handoff.origin {
            HandoffOrigin::Model => return None,
            HandoffOrigin::Oneshot => (HandoffOrigin::User, Some(DraftMethod::Oneshot)),
            HandoffOrigin::Bundle => (HandoffOrigin::User, Some(DraftMethod::Bundle)),
            HandoffOrigin::Local => (HandoffOrigin::User, Some(DraftMethod::Local)),
            HandoffOrigin::User => (HandoffOrigin::User, None),
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
            method,
            document: Some(document_of(&handoff.prompt).to_owned()),
            made_at: handoff.kept.as_ref().map(|kept| kept.from.clone()),
            handoff: Some(handoff.id),
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
            method: None,
            document: None,
            made_at: None,
            handoff: None,
            failure: None,
            why: None,
            saved_path: None,
            key: None,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}
