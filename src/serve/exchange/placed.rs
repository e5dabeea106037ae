//! The value of the third stage: a request with the places of the texts to insert.

use uuid::Uuid;

use super::pin::{Pin, RequestScope};
use super::read::AgentRequest;
use baton_core::record::HiddenPair;
use baton_core::rewrite::PlacedInsertion;

/// The records with a place in a request's transcript.
#[derive(Clone, Default)]
pub(super) struct Places {
    /// Hidden pairs that may have their place in the transcript.
    pub(super) pairs: Vec<HiddenPair>,
    /// The pairs next to calls of this transcript: others belong to branches that the transcript may not have.
    pub(super) beside_calls: Vec<Uuid>,
    /// Searches that were made after an undone handoff: left out deliberately.
    pub(super) without_searches: Vec<Uuid>,
    /// Texts of ours.
    pub(super) insertions: Vec<PlacedInsertion>,
    /// The turn up to which thinking after the cut is left out, since upstream has refused it.
    pub(super) omitted: Option<usize>,
}

impl Places {
    /// Whether there are hidden calls or texts of ours. They were made while the tool was offered, and the provider
    /// accepts them only with it.
    pub(super) fn are_any(&self) -> bool {
        !self.pairs.is_empty() || !self.insertions.is_empty()
    }
}

/// A pinned request with the places of what is added to it.
pub(super) struct Placed {
    pub(super) agent: AgentRequest,
    pub(super) pin: Pin,
    pub(super) places: Places,
    pub(super) scope: RequestScope,
}
