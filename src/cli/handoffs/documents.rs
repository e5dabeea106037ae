//! The documents of handoffs in the store, as the commands read and change them.

use std::collections::HashMap;

use super::lookup::all;
use crate::cli::exit::CommandFailure;
use crate::cli::output::Out;
use crate::state::files::documents::{self, document_of};
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::document::fields::HandoffDocument;
use baton_core::record::{DocumentRecord, Handoff, HandoffId, HandoffStatus};

/// The record and the document of a handoff; the document is absent if another version wrote it.
pub(super) async fn of_handoff(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
) -> Option<(DocumentRecord, Option<HandoffDocument>)> {
    let record = documents::find(store, principal, id).await.ok()??;
    let document = document_of(&record);
    Some((record, document))
}

/// The records of all documents, by their handoffs.
pub(super) async fn of_all(
    store: &SharedStore,
    without_documents: bool,
) -> Result<HashMap<HandoffId, DocumentRecord>, CommandFailure> {
    let documents = all(store, without_documents).await?.into_iter();
    Ok(documents.map(|document| (document.handoff, document)).collect())
}

/// How many handoffs the store has, archived ones included.
pub(super) async fn count(store: &SharedStore) -> Result<usize, CommandFailure> {
    let handoffs = store.handoffs(&HandoffFilter::everything()).await;
    let handoffs = handoffs?.len();
    Ok(handoffs.max(all(store, true).await?.len()))
}

/// Sets the status of a handoff's document, where it has one, and returns the handoffs that it supersedes.
pub(super) async fn set_status(
    store: &SharedStore,
    handoff: &Handoff,
    status: HandoffStatus,
) -> Result<Vec<HandoffId>, CommandFailure> {
    let done = documents::set_status(store, &handoff.principal, handoff.id, status).await;
    let done = done?;
    Ok(done.map_or_else(Vec::new, |done| done.superseded))
}

/// Makes a handoff that is resumed the active one of its work, and reports that on standard error.
pub(super) async fn activate(store: &SharedStore, handoff: &Handoff) -> Result<(), CommandFailure> {
    let active = HandoffStatus::Active;
    let done = documents::set_status(store, &handoff.principal, handoff.id, active).await;
    let done = done?;
    if let Some(done) = done.filter(|done| done.before != active) {
        let mut out = Out::stderr();
        out.line(format_args!(
            "baton: the handoff was {}; it is active again",
            done.before.name()
        ))?;
        for id in done.superseded {
            out.line(format_args!("baton: superseded: {id}"))?;
        }
    }
    Ok(())
}
