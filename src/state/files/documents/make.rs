//! Reads a transcript and composes the document.

use std::path::Path;

use super::value::{DocumentSettings, StoredHandoff};
use crate::files::{repository, runs};
use crate::journal::JournalReader;
use baton_core::handoffs::document::{Checkout, ContextTokens, HandoffDocument, HandoffSource};
use baton_core::record::{Handoff, LOCAL};
use baton_core::transcript::Transcript;
use baton_core::wire::{self, Operation};
use baton_core::work::{DraftIndex, DraftIndexSettings, SeenFacts, Whereabouts};

/// Where a session worked.
#[derive(Default)]
struct WorkPlace {
    directory: Option<String>,
    /// State of the repository, as read by git.
    checkout: Option<Checkout>,
    /// Whether the session had a repository or directory whose state baton did not read.
    is_unread: bool,
}

/// Finds where the session worked.
///
/// The directory that the agent states wins over one that its calls name below the run's directory. The
/// configured one comes last.
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
        // A client's directory is on the client's machine, so its repository cannot be read here.
        if stored.handoff.principal != LOCAL {
            return WorkPlace {
                directory,
                ..WorkPlace::default()
            };
        }
        let run = stored.run.as_deref();
        let root = run.and_then(|run| runs::directory(&settings.state_dir, run));
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
    // The configured repository is on another branch than the session was. Its state would describe other
    // work.
    match is_other.is_some_and(|(checkout, branch)| *branch != checkout.branch) {
        true => WorkPlace::default(),
        false => place,
    }
}

/// Returns how much of the model's context the last response before a handoff used.
///
/// Uses the journal if the count is unknown. A journal that cannot be read counts as empty.
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

/// Composes the document of a handoff.
///
/// If the transcript cannot be read, the document states only what the carry-over prompt contains.
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
            let (seen, whereabouts) = (index.seen(), index.whereabouts());
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
