//! Reads a transcript, and makes the document.

use super::value::{DocumentSettings, StoredHandoff};
use crate::state::files::repository;
use baton_core::handoffs::document::fields::{HandoffDocument, HandoffSource};
use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings, SeenFacts, Whereabouts};
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};

/// The document of a handoff. Without a transcript that can be read it states what the carry-over prompt says.
pub(super) fn compose_document(settings: &DocumentSettings, stored: StoredHandoff) -> HandoffDocument {
    let handoff = &stored.handoff;
    let mut index = DraftIndex::new(DraftIndexSettings {
        carry_overs: stored.carry_over.into_iter().collect(),
        ..settings.reading.clone()
    });
    let body = (stored.transcript)();
    let view = body.and_then(|body| wire::wire(handoff.wire).read(&body, Operation::Generate).ok());
    let (seen, whereabouts) = match &view {
        Some(view) => {
            let transcript = Transcript::of(view);
            index.extend(&transcript);
            let whereabouts = Whereabouts::of(&transcript);
            (index.seen(&whereabouts), whereabouts)
        }
        None => (SeenFacts::default(), Whereabouts::default()),
    };
    let checkout = settings.git_dir.as_deref().and_then(repository::checkout);
    HandoffDocument::of(&HandoffSource {
        handoff,
        seen: &seen,
        folder: whereabouts.folder.as_deref(),
        checkout: checkout.as_ref(),
        topic: settings.topic.as_deref(),
        exchange: stored.exchange.as_deref(),
        assumptions: &settings.reading.assumptions,
        bytes: stored.bytes,
        clean: &|text| index.clean(text),
    })
}
