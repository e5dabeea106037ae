//! Reads a transcript, and makes the document.

use std::path::Path;

use super::value::{DocumentSettings, StoredHandoff};
use crate::files::repository;
use crate::journal::JournalReader;
use baton_core::handoffs::document::{Checkout, ContextTokens, HandoffDocument, HandoffSource};
use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings, SeenFacts, Whereabouts};
use baton_core::record::{Handoff, LOCAL};
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};

/// The folder of the work, and its repository as git has it: the folder that the agent names, else the one that its calls name,
/// else the configured one.
fn work_folder(
    settings: &DocumentSettings,
    handoff: &Handoff,
    whereabouts: &Whereabouts,
    seen: &SeenFacts,
) -> (Option<String>, Option<Checkout>) {
    if let Some(folder) = &whereabouts.folder {
        // A client's folder is on the client's machine.
        let is_here = handoff.principal == LOCAL;
        let here = Some(Path::new(folder)).filter(|dir| is_here && dir.is_dir());
        return (Some(folder.clone()), here.and_then(repository::checkout));
    }
    let configured = settings.git_dir.as_deref();
    let checkout = configured.and_then(repository::checkout);
    let is_other = checkout.as_ref().zip(seen.branch.as_ref());
    // On another branch was another session.
    if is_other.is_some_and(|(checkout, branch)| *branch != checkout.branch) {
        return (None, None);
    }
    (configured.map(|dir| dir.to_string_lossy().into_owned()), checkout)
}

/// What the last answer before a handoff took of its model's context. A journal that cannot be read has nothing of it.
fn context(settings: &DocumentSettings, handoff: &Handoff, counted: Option<u64>) -> Option<ContextTokens> {
    let journaled = || {
        let journal = JournalReader::open(&settings.state_dir).ok()??;
        journal.context_tokens(&handoff.conversation).ok()?
    };
    let (used, model) = match counted {
        Some(used) => (used, handoff.model.clone()),
        None => journaled()?,
    };
    let window = model.and_then(|model| settings.windows.holding(&model, used));
    Some(ContextTokens { used, window })
}

/// The document of a handoff. Without a transcript that can be read it states what the carry-over prompt says.
pub fn compose(settings: &DocumentSettings, stored: StoredHandoff) -> HandoffDocument {
    let handoff = &stored.handoff;
    let reading = DraftIndexSettings {
        carry_overs: stored.carry_over.into_iter().collect(),
        ..settings.reading.clone()
    };
    let body = (stored.transcript)();
    let view = body.and_then(|body| wire::wire(handoff.wire).read(&body, Operation::Generate).ok());
    let (index, seen, whereabouts) = match &view {
        Some(view) => {
            let transcript = Transcript::of(view);
            let index = DraftIndex::of(reading, &transcript);
            let whereabouts = Whereabouts::of(&transcript).or_of_calls(&index);
            let seen = index.seen(&whereabouts);
            (index, seen, whereabouts)
        }
        None => (
            DraftIndex::new(reading),
            SeenFacts::default(),
            Whereabouts::default(),
        ),
    };
    let (folder, checkout) = work_folder(settings, handoff, &whereabouts, &seen);
    HandoffDocument::of(&HandoffSource {
        handoff,
        seen: &seen,
        folder: folder.as_deref(),
        checkout: checkout.as_ref(),
        topic: stored.topic.as_deref().or(settings.topic.as_deref()),
        exchange: stored.exchange.as_deref(),
        assumptions: &settings.reading.assumptions,
        context: context(settings, handoff, stored.context_tokens),
        bytes: stored.bytes,
        clean: &|text| index.clean(text),
    })
}
