//! Reads a transcript, and makes the document.

use std::path::Path;

use super::value::{DocumentSettings, StoredHandoff};
use crate::files::{repository, runs};
use crate::journal::JournalReader;
use baton_core::handoffs::document::{Checkout, ContextTokens, HandoffDocument, HandoffSource};
use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings, SeenFacts, Whereabouts};
use baton_core::record::{Handoff, LOCAL};
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};

/// Where the work of a session was.
#[derive(Default)]
struct WorkPlace {
    directory: Option<String>,
    /// Its repository as git has it.
    checkout: Option<Checkout>,
    /// Whether there is more to be seen than was looked at.
    is_unread: bool,
}

/// The directory that the agent states, else one that its calls name below the directory of its run, else the configured one.
fn work_place(
    settings: &DocumentSettings,
    stored: &StoredHandoff,
    whereabouts: &Whereabouts,
    seen: &SeenFacts,
) -> WorkPlace {
    let read = |dir: &Path| {
        let checkout = repository::checkout(dir);
        WorkPlace {
            directory: Some(dir.to_string_lossy().into_owned()),
            is_unread: checkout.is_err(),
            checkout: checkout.ok().flatten(),
        }
    };
    if let Some(directory) = &whereabouts.directory {
        let directory = Some(directory.clone()).filter(|_| whereabouts.is_stated);
        // A client's directory is on the client's machine.
        if stored.handoff.principal != LOCAL {
            return WorkPlace {
                directory,
                ..WorkPlace::default()
            };
        }
        let root = stored
            .run
            .as_deref()
            .and_then(|run| runs::directory(&settings.state_dir, run));
        return match repository::of_session(whereabouts, root.as_deref()) {
            Some(dir) => read(&dir),
            None => WorkPlace {
                is_unread: directory
                    .as_deref()
                    .is_none_or(|directory| Path::new(directory).is_dir()),
                directory,
                checkout: None,
            },
        };
    }
    let Some(configured) = settings.git_dir.as_deref() else {
        return WorkPlace::default();
    };
    let place = read(configured);
    let is_other = place.checkout.as_ref().zip(seen.branch.as_ref());
    // On another branch was another session.
    match is_other.is_some_and(|(checkout, branch)| *branch != checkout.branch) {
        true => WorkPlace::default(),
        false => place,
    }
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
pub fn compose(settings: &DocumentSettings, mut stored: StoredHandoff) -> HandoffDocument {
    let body = std::mem::replace(&mut stored.transcript, Box::new(|| None))();
    let handoff = &stored.handoff;
    let reading = DraftIndexSettings {
        carry_overs: stored.carry_over.iter().cloned().collect(),
        ..settings.reading.clone()
    };
    let view = body.and_then(|body| wire::wire(handoff.wire).read(&body, Operation::Generate).ok());
    let (index, seen, whereabouts) = match &view {
        Some(view) => {
            let transcript = Transcript::from_view(view);
            let index = DraftIndex::from_transcript(reading, &transcript);
            let whereabouts = Whereabouts::from_transcript(&transcript).or_of_calls(&index);
            let seen = index.seen(&whereabouts);
            (index, seen, whereabouts)
        }
        None => (
            DraftIndex::new(reading),
            SeenFacts::default(),
            Whereabouts::default(),
        ),
    };
    let place = work_place(settings, &stored, &whereabouts, &seen);
    HandoffDocument::from_source(&HandoffSource {
        handoff,
        seen: &seen,
        directory: place.directory.as_deref(),
        checkout: place.checkout.as_ref(),
        is_unread: place.is_unread,
        topic: stored.topic.as_deref().or(settings.topic.as_deref()),
        exchange: stored.exchange.as_deref(),
        assumptions: &settings.reading.assumptions,
        context: context(settings, handoff, stored.context_tokens),
        bytes: stored.bytes,
        clean: &|text| index.clean(text),
    })
}
