//! Lookups that a model repeated after a handoff: calls in the journal's newest request, and questions in the
//! store.

use bytes::Bytes;

use super::journal::{BodySide, ExchangeFilter, JournalReader, JournalResult};
use super::store::records::Lookup;
use super::store::{SharedStore, StoreResult};
use baton_core::handoffs::carry;
use baton_core::record::{Handoff, HandoffId, HiddenPair, WireId};
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};

/// Number of requests examined per conversation. The newest ones may be side calls without its transcript.
const NEWEST: usize = 10;

impl JournalReader {
    /// Returns the files read again and commands run again within twenty requests after a handoff.
    ///
    /// Returns `None` if none of the newest requests in the journal contains the handoff.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn called_again(&self, conversation: &str, handoff: HandoffId) -> JournalResult<Option<Vec<String>>> {
        let filter = ExchangeFilter::newest(Some(conversation), NEWEST);
        // The newest request that contains the handoff decides.
        for row in self.list(&filter)? {
            let body = self.body(&row.id, BodySide::Received)?.map(Bytes::from);
            let wire = row.wire.as_deref().and_then(WireId::named).map(wire::wire);
            let request = wire.zip(body);
            let view = request.and_then(|(wire, body)| wire.read(&body, Operation::Generate).ok());
            let found = view.and_then(|view| carry::called_again(&Transcript::from_view(&view), handoff));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns the hidden calls since the handoff. Empty if the handoff is not the active one.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn pairs_since(store: &SharedStore, handoff: &Handoff) -> StoreResult<Vec<HiddenPair>> {
    let conversation = store.conversation(&handoff.conversation).await?;
    match conversation.filter(|conversation| conversation.active == Some(handoff.id)) {
        Some(conversation) => {
            let ids = Lookup::Ids(&conversation.pairs);
            store.placed(&handoff.principal, ids).await
        }
        None => Ok(Vec::new()),
    }
}
