//! What a model looked up again after a handoff: calls by the conversation's newest request in the journal, questions by the store.

use bytes::Bytes;

use super::journal::{BodySide, ExchangeFilter, JournalError, JournalReader};
use super::store::{SharedStore, StoreError};
use baton_core::handoffs::carry;
use baton_core::record::{Handoff, HandoffId, WireId};
use baton_core::redact::Redactor;
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};

/// Requests of a conversation that are looked at: the newest ones may be side calls, without its transcript.
const NEWEST: usize = 10;

impl JournalReader {
    /// Files read again and commands run again within twenty requests after a handoff; `None`: no request that is kept shows it.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn looked_up_again(
        &self,
        conversation: &str,
        handoff: HandoffId,
    ) -> Result<Option<Vec<String>>, JournalError> {
        let filter = ExchangeFilter {
            conversation: Some(conversation.to_owned()),
            limit: NEWEST,
            ..ExchangeFilter::default()
        };
        for row in self.list(&filter)? {
            let body = self.body(&row.id, BodySide::Received)?.map(Bytes::from);
            let wire = row.wire.as_deref().and_then(WireId::named).map(wire::wire);
            let view = wire
                .zip(body)
                .and_then(|(wire, body)| wire.read(&body, Operation::Generate).ok());
            let found = view.and_then(|view| carry::looked_up_again(&Transcript::of(&view), handoff));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// The questions to `session_recall` since the active handoff, with whether anything was found; none of an earlier handoff.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn searched_again(
    store: &SharedStore,
    handoff: &Handoff,
) -> Result<Vec<String>, StoreError> {
    let Some(conversation) = store.conversation(&handoff.conversation).await? else {
        return Ok(Vec::new());
    };
    if conversation.active != Some(handoff.id) {
        return Ok(Vec::new());
    }
    let pairs = store.pairs(&handoff.principal, &conversation.pairs).await?;
    let redactor = Redactor::lazy(&[]);
    let questions = pairs.iter().filter_map(carry::searched_again);
    Ok(questions.map(|text| redactor.text(&text).into_owned()).collect())
}
