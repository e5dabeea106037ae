//! The handoffs that the sessions of a `baton run` leave when their agent has exited: made from the journal, without a
//! model.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::draft::{self as drafting, Work};
use crate::cli::exit::CommandFailure;
use crate::cli::log::open;
use crate::cli::output::{Out, visible};
use crate::cli::runtime;
use crate::cli::sharing::JournalState;
use crate::state::config::{Config, StoreKind};
use crate::state::files::documents;
use crate::state::files::repository;
use crate::state::journal::JournalReader;
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::draft::{self, DraftSpec, Whereabouts};
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::transcript::Transcript;

/// What a proxy that goes on may take to write its journal: it gathers notes for a quarter of a second.
const WRITTEN: Duration = Duration::from_millis(400);

/// Longest wait for exchanges that are under way: they may be another agent's.
const ENDED: Duration = Duration::from_secs(2);

/// Pause between two looks at the journal.
const LOOK: Duration = Duration::from_millis(25);

/// Handoffs of a conversation that are looked through for the newest one with a document.
const LATEST: usize = 8;

/// Characters of an id that a person types.
const ID: usize = 13;

/// Writes a handoff with its document for each conversation of a run that has work since its last one, and names their
/// folders. A failure is reported, and changes nothing else: the agent has ended.
pub(in crate::cli) fn at_exit(config: &Config, run: &str, journal: JournalState) {
    let policy = &config.documents;
    if !(policy.enabled && policy.at_exit) || config.store.kind == StoreKind::Memory {
        return;
    }
    if let Err(failure) = write_all(config, run, journal) {
        tell_failure(&failure);
    }
}

/// The terminal may be closed.
pub(super) fn tell_failure(failure: &CommandFailure) {
    if !failure.message.is_empty() {
        let _ = Out::stderr().line(format_args!("baton: no handoff at exit: {}", failure.message));
    }
}

fn write_all(config: &Config, run: &str, journal: JournalState) -> Result<(), CommandFailure> {
    let Some(query) = open(&config.state_dir)? else {
        return Ok(());
    };
    if journal == JournalState::InUse {
        settle(&query, run)?;
    }
    let conversations = query.conversations_of_run(run)?;
    if conversations.is_empty() {
        return Ok(());
    }
    let store = drafting::for_writing(config)?;
    runtime()?.block_on(async {
        for key in conversations {
            match write(config, &query, &store, &key).await {
                Ok(None) => {}
                Ok(Some((handoff, folder))) => {
                    let (folder, id) = (folder.display().to_string(), handoff.id.to_string());
                    let _ = Out::stderr().line(format_args!(
                        "baton: this session's handoff is in {}; `baton handoffs resume {}` continues it",
                        visible(&folder),
                        &id[..ID]
                    ));
                }
                Err(failure) => tell_failure(&failure),
            }
        }
        Ok(())
    })
}

/// Waits until the exchanges of a run whose agent has ended are in the journal.
fn settle(query: &JournalReader, run: &str) -> Result<(), CommandFailure> {
    let began = Instant::now();
    loop {
        let is_open = query.has_open_after(run)?;
        let least = if is_open { ENDED } else { WRITTEN };
        if began.elapsed() >= least {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// The handoff of a conversation with its folder; `None` where there is no work since its last one.
async fn write(
    config: &Config,
    query: &JournalReader,
    store: &SharedStore,
    key: &str,
) -> Result<Option<(Handoff, PathBuf)>, CommandFailure> {
    let work = Work::of(query, store, key).await?;
    if !work.newest.of_loop || is_handed_over(query, store, key, &work).await? {
        return Ok(None);
    }
    let Some(handoff) = handoff_of(config, &work, key)? else {
        return Ok(None);
    };
    let folder = drafting::leave(config, store, &handoff, &work).await?;
    Ok(folder.map(|folder| (handoff, folder)))
}

/// The handoff of a session's work, made without a model and not yet stored; `None` where there is too little of it.
pub(super) fn handoff_of(config: &Config, work: &Work, key: &str) -> Result<Option<Handoff>, CommandFailure> {
    let newest = &work.newest;
    let index = drafting::indexed(config, work);
    if !draft::enough(index.spoken()) {
        return Ok(None);
    }
    let whereabouts = Whereabouts::of(&Transcript::of(&newest.view)).or_of_calls(&index);
    let here = whereabouts.folder.map(PathBuf::from).filter(|dir| dir.is_dir());
    let repository = here.or_else(|| config.draft.git_dir.clone());
    let repository = repository.map_or(String::new(), |dir| repository::state(&dir));
    let spec = DraftSpec {
        tokens: config.draft.facts_tokens,
        repository: &repository,
        ..DraftSpec::default()
    };
    let origin = HandoffOrigin::Local;
    let document = index.local(&spec).map_err(drafting::too_small)?;
    let carried = drafting::carried(config, &index, work, &document);
    Ok(Some(drafting::handoff(
        config,
        work,
        key.to_owned(),
        carried,
        origin,
    )))
}

/// Whether a handoff with a document was made after the newest request was sent.
async fn is_handed_over(
    query: &JournalReader,
    store: &SharedStore,
    key: &str,
    work: &Work,
) -> Result<bool, CommandFailure> {
    let (row, leg) = (&work.newest.row, work.newest.leg);
    let sent = leg.map(|leg| query.leg_sent_ms(&row.id, leg)).transpose();
    let sent = sent?.flatten().unwrap_or(row.at_ms);
    let latest = HandoffFilter {
        principal: Some(work.principal.clone()),
        conversation: Some(key.to_owned()),
        archived: true,
        limit: LATEST,
        ..HandoffFilter::everything()
    };
    for handoff in store.handoffs(&latest).await? {
        if handoff.created_ms <= sent {
            return Ok(false);
        }
        let found = documents::find(store, &work.principal, handoff.id).await;
        // One that waits for a person's approval has none yet.
        if found.is_ok_and(|found| found.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
