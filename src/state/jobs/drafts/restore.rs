//! Drafts awaiting approval that only the store has, because an earlier process or another replica wrote
//! them.

use uuid::Uuid;

use super::{CancelRefusal, DraftQueue, DraftRecord, DraftState};
use crate::clock::ago_ms;
use crate::store::records::Lookup;
use crate::store::{HandoffFilter, SharedStore, StoreError, StoreResult};
use baton_core::record::{CutPoint, Handoff, HandoffOrigin};

/// Bits of a version 7 UUID below its timestamp.
const RANDOM_BITS: u32 = 80;

impl DraftQueue {
    /// Returns the open draft of a conversation. If there is none in memory, restores one that awaits
    /// approval.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn restored_in(
        &self,
        store: &SharedStore,
        conversation: &str,
    ) -> StoreResult<Option<DraftRecord>> {
        if let Some(open) = self.open_in(conversation) {
            return Ok(Some(open));
        }
        let Some(handoff) = self.waiting(store, conversation).await? else {
            return Ok(None);
        };
        // A draft decided in this process a moment ago keeps its decision: the store may not have it yet.
        if self.get(handoff.id).is_none()
            && let Some(draft) = DraftRecord::stored(&handoff)
        {
            // If another draft was begun meanwhile, that one stays the open draft.
            let _ = self.restore(draft);
        }
        Ok(self.open_in(conversation))
    }

    /// Rejects a draft that awaits approval, and archives its handoff.
    ///
    /// # Errors
    /// Returns an error if the draft does not await approval, or the store cannot be written.
    pub async fn reject_in(&self, store: &SharedStore, id: Uuid) -> Result<DraftRecord, DecisionFailure> {
        let draft = self.reject(id)?;
        store.archive(&draft.principal, id, true).await?;
        Ok(draft)
    }

    /// Cancels an open draft. If it awaits approval, its stored handoff is archived, or else it would be
    /// restored.
    ///
    /// # Errors
    /// Returns an error if the draft has ended, or the store cannot be written.
    pub async fn cancel_in(&self, store: &SharedStore, id: Uuid) -> Result<(), DecisionFailure> {
        let waiting = self.get(id).filter(DraftRecord::is_for_review);
        self.cancel(id)?;
        if let Some(draft) = waiting {
            store.archive(&draft.principal, id, true).await?;
        }
        Ok(())
    }

    /// Returns a conversation's newest handoff if it awaits approval and has not taken effect.
    ///
    /// Only the newest counts: an older one was dropped when a later one took effect.
    async fn waiting(&self, store: &SharedStore, conversation: &str) -> StoreResult<Option<Handoff>> {
        let filter = HandoffFilter {
            conversation: Some(conversation.to_owned()),
            ids: Some((self.oldest(), Uuid::max())),
            ..HandoffFilter::default()
        };
        let Some(newest) = store.handoffs(&filter).await?.into_iter().find(is_of_the_chat) else {
            return Ok(None);
        };
        if newest.origin == HandoffOrigin::Model {
            return Ok(None);
        }
        // A cut point is written when a handoff takes effect, so an accepted draft has one.
        let points: Vec<CutPoint> = store.placed(&newest.principal, Lookup::Ids(&[newest.id])).await?;
        Ok(points.is_empty().then_some(newest))
    }

    /// Returns the smallest id that a draft can have without being expired.
    fn oldest(&self) -> Uuid {
        let since = u128::from(ago_ms(self.expires));
        Uuid::from_u128(since << RANDOM_BITS)
    }
}

/// The reason why a decision on a draft failed.
#[derive(Debug)]
pub enum DecisionFailure {
    /// The draft is not in a state that allows the decision.
    Refused(CancelRefusal),
    /// The store cannot be written.
    Store(StoreError),
}

impl From<CancelRefusal> for DecisionFailure {
    fn from(why: CancelRefusal) -> Self {
        Self::Refused(why)
    }
}

impl From<StoreError> for DecisionFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether a handoff was made within its conversation, and not by a CLI command, whose drafts are not reviewed.
fn is_of_the_chat(handoff: &Handoff) -> bool {
    handoff.spelled_out.is_some()
}

impl DraftRecord {
    /// Whether the user can still decide on the draft.
    pub fn is_for_review(&self) -> bool {
        matches!(self.state, DraftState::Review | DraftState::Accepted)
    }
}
