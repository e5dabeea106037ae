//! Drafts that wait for a user, as the store has them: an earlier process wrote them, or another replica.

use uuid::Uuid;

use super::{CancelRefusal, DraftQueue, DraftRecord, DraftState};
use crate::clock::ago_ms;
use crate::store::records::Lookup;
use crate::store::{HandoffFilter, SharedStore, StoreError, StoreResult};
use baton_core::record::{CutPoint, Handoff, HandoffOrigin};

/// Bits of a UUIDv7 that are not its time.
const RANDOM_BITS: u32 = 80;

impl DraftQueue {
    /// The open draft of a conversation; where none is known here, the one that waits for a user by the store.
    ///
    /// # Errors
    /// The store cannot be read.
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
        // A draft that was decided here a moment ago is recorded as such, and not restored.
        if self.get(handoff.id).is_none()
            && let Some(draft) = DraftRecord::stored(&handoff)
        {
            // Another one that was begun meanwhile is the open one.
            let _ = self.restore(draft);
        }
        Ok(self.open_in(conversation))
    }

    /// Rejects a draft that waits for a user, and archives its handoff.
    ///
    /// # Errors
    /// It does not wait for a user, or the store cannot be written.
    pub async fn reject_in(&self, store: &SharedStore, id: Uuid) -> Result<DraftRecord, DecisionFailure> {
        let draft = self.reject(id)?;
        store.archive(&draft.principal, id, true).await?;
        Ok(draft)
    }

    /// Cancels an open draft. One that waits for a user is in the store, and would be restored: it is archived.
    ///
    /// # Errors
    /// It has ended, or the store cannot be written.
    pub async fn cancel_in(&self, store: &SharedStore, id: Uuid) -> Result<(), DecisionFailure> {
        let waiting = self.get(id).filter(DraftRecord::is_for_review);
        self.cancel(id)?;
        if let Some(draft) = waiting {
            store.archive(&draft.principal, id, true).await?;
        }
        Ok(())
    }

    /// The newest handoff of a conversation, where it was stored for a user's approval and has taken effect nowhere. An older one was
    /// dropped when a later one took effect.
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
        let points: Vec<CutPoint> = store.placed(&newest.principal, Lookup::Ids(&[newest.id])).await?;
        Ok(points.is_empty().then_some(newest))
    }

    /// The least id of a draft that has not expired.
    fn oldest(&self) -> Uuid {
        let since = u128::from(ago_ms(self.expires));
        Uuid::from_u128(since << RANDOM_BITS)
    }
}

/// Why a decision on a draft was not carried out.
#[derive(Debug)]
pub enum DecisionFailure {
    /// The draft is not one that may be decided on.
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

/// Whether a stored handoff was made in its conversation, and not by a command of the CLI, whose drafts are not
/// reviewed.
fn is_of_the_chat(handoff: &Handoff) -> bool {
    handoff.spelled_out.is_some()
}

impl DraftRecord {
    /// Whether a user can decide on it.
    pub fn is_for_review(&self) -> bool {
        matches!(self.state, DraftState::Review | DraftState::Accepted)
    }
}
