//! Secrets are not shown; documents are completed.

mod budgets;
mod documents;
mod finished;
mod goals;
mod replaced;
mod rerun;
mod same;
mod secrets;
mod settled;
mod unasked;
mod user;
mod wider;

use serde_json::{Value, json};

use super::{DraftSpec, Preset};
use crate::handoffs::document::{HandoffDocument, HandoffSize, HandoffSource};
use crate::handoffs::testing::{called, draft_request as request, failing, model, ran, user, view};
use crate::record::{CarriedItem, CarriedKind, CarriedState, Handoff, WireId};
use crate::redact::Redactor;
use crate::text::testing::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::transcript::Transcript;
use crate::wire::{self, Operation};
use crate::work::{DraftIndex, DraftIndexSettings};

fn settings() -> DraftIndexSettings {
    DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    }
}

fn indexed(messages: &[Value]) -> DraftIndex {
    DraftIndex::from_transcript(settings(), &Transcript::from_view(&view(messages)))
}

/// The document of a handoff after these messages.
pub(crate) fn document(index: &DraftIndex) -> HandoffDocument {
    document_of(index, "x", &[])
}

/// The document of a handoff with this prompt, and with what was appended to it.
fn document_of(index: &DraftIndex, prompt: &str, carried: &[CarriedItem]) -> HandoffDocument {
    HandoffDocument::from_source(&HandoffSource {
        handoff: &Handoff {
            id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".parse().unwrap(),
            principal: "local".into(),
            conversation: "c0ffee".into(),
            prompt: prompt.into(),
            carried: carried.to_vec(),
            ..Handoff::default()
        },
        seen: &index.seen(),
        directory: None,
        checkout: None,
        is_unread: false,
        topic: None,
        exchange: None,
        assumptions: &[],
        context: None,
        bytes: HandoffSize::default(),
        clean: &|text| index.clean(text),
    })
}
