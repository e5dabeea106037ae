//! Handoffs that sessions leave when their agent has exited.
//!
//! Such a handoff is made without a model, from the journal or from a hook's input.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::args::CreateArgs;
use super::draft::{self as drafting, SessionWork};
use crate::cli::exit::{CliResult, CommandFailure};
use crate::cli::journal::JournalRequest;
use crate::cli::output::{Out, shown};
use crate::cli::run::EndedRun;
use crate::cli::{block_on, runtime};
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, SessionReader};
use baton_core::record::{Handoff, HandoffId, HandoffOrigin, LOCAL};
use baton_core::text::units::brief;
use baton_state::config::{Config, InjectPolicy, StoreKind};
use baton_state::files::documents;
use baton_state::journal::JournalReader;
use baton_state::store::records::{RecordKind, StoredRecord};
use baton_state::store::{HandoffFilter, SharedStore};

/// Time that a proxy which keeps running gets to write its journal. It gathers notes for a quarter of a second.
const WRITTEN: Duration = Duration::from_millis(400);

/// Maximum wait for open exchanges. They may belong to another agent, so they need not end soon.
const ENDED: Duration = Duration::from_secs(2);

/// Pause between two reads of the journal.
const LOOK: Duration = Duration::from_millis(25);

/// Maximum handoffs of a conversation that are searched for the newest one with a document.
const LATEST: usize = 8;

/// Writes a handoff with its document for each conversation of a run that has work since its last one.
///
/// Prints their directories. A failure is only reported, because the agent has ended already.
pub(in crate::cli) fn at_exit(config: &Config, run: &EndedRun<'_>) {
    let policy = &config.documents;
    let is_off = matches!(config.handoff.inject, InjectPolicy::Never | InjectPolicy::Shadow);
    if is_off || !(policy.enabled && policy.at_exit) || config.store.kind == StoreKind::Memory {
        return;
    }
    if let Err(failure) = write_all(config, run) {
        tell_failure(&failure);
    }
}

/// Reports a failure. Errors are ignored, because the terminal may be closed.
fn tell_failure(failure: &CommandFailure) {
    if !failure.message.is_empty() {
        let _ = Out::stderr().line(format_args!("baton: no handoff at exit: {}", failure.message));
    }
}

fn write_all(config: &Config, run: &EndedRun<'_>) -> CliResult {
    let Some(query) = JournalReader::open(&config.state_dir)? else {
        return Ok(());
    };
    if !run.is_complete {
        settle(&query, run.id)?;
    }
    let conversations = query.conversations_of_run(run.id)?;
    if conversations.is_empty() {
        return Ok(());
    }
    let store = drafting::for_writing(config)?;
    block_on(async {
        for key in conversations {
            match write(config, &query, &store, &key).await {
                Ok(None) => {}
                Ok(Some((handoff, directory))) => {
                    let (directory, id, options) =
                        (shown(&directory), brief(handoff.id), &run.resume_options);
                    let _ = Out::stderr().line(format_args!(
                        "baton: this session's handoff is in {directory}; `baton handoffs resume {id} {options}` continues it"
                    ));
                }
                // The other conversations of the run still get their handoffs.
                Err(failure) => tell_failure(&failure),
            }
        }
        Ok(())
    })
}

/// Waits until the exchanges of a run whose agent has ended are in the journal.
fn settle(query: &JournalReader, run: &str) -> CliResult {
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

/// Stores a conversation's handoff and returns it with its directory; `None` if there is no work since the
/// last one.
async fn write(
    config: &Config,
    query: &JournalReader,
    store: &SharedStore,
    key: &str,
) -> CliResult<Option<(Handoff, PathBuf)>> {
    let work = SessionWork::of(query, store, key).await?;
    // Only helpers for titles or counts ran, so there is no work.
    if !work.newest.of_loop || is_handed_over(query, store, key, &work).await? {
        return Ok(None);
    }
    let Some(handoff) = handoff_of(config, &work, key)? else {
        return Ok(None);
    };
    let directory = drafting::leave(config, store, &handoff, &work).await?;
    Ok(directory.map(|directory| (handoff, directory)))
}

/// Makes the handoff of a session's work without a model, and does not store it; `None` if there is too
/// little work.
pub(super) fn handoff_of(config: &Config, work: &SessionWork, key: &str) -> CliResult<Option<Handoff>> {
    let carried = drafting::locally(config, work, |index| {
        drafting::repository_state(config, work, index)
    })?;
    let made = |carried| drafting::handoff(config, work, key.to_owned(), carried, HandoffOrigin::Local);
    Ok(carried.map(made))
}

/// Estimates the content of a handoff of a recorded session; `None` if there is too little work.
///
/// The content is a draft without a model of everything that the reader has seen, with missing items
/// appended.
pub(in crate::cli) fn carried_of_session(
    config: &Config,
    reader: &SessionReader,
) -> CliResult<Option<Carried>> {
    let work = JournalRequest::of_session(reader).map(SessionWork::alone);
    work.map_or(Ok(None), |work| {
        drafting::locally(config, &work, |_| String::new())
    })
}

/// Whether a handoff with a document was made after the newest request was sent.
async fn is_handed_over(
    query: &JournalReader,
    store: &SharedStore,
    key: &str,
    work: &SessionWork,
) -> CliResult<bool> {
    let (row, leg) = (&work.newest.row, work.newest.leg);
    let sent = leg.map(|leg| query.leg_sent_ms(&row.id, leg)).transpose();
    let sent = sent?.flatten().unwrap_or(row.at_ms);
    let latest = HandoffFilter {
        principal: Some(work.principal.clone()),
        conversation: Some(key.to_owned()),
        limit: LATEST,
        // A handoff that the user has archived since was made of this work as well.
        ..HandoffFilter::everything()
    };
    for handoff in store.handoffs(&latest).await? {
        // The newest comes first, so all others are older still.
        if handoff.created_ms <= sent {
            return Ok(false);
        }
        let found = documents::find(store, &work.principal, handoff.id).await;
        // A handoff that awaits the user's approval has no document yet.
        if found.is_ok_and(|found| found.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Key of the finding that names the handoff in its file.
const NAMED: &str = "handoff";

/// A session's handoff, which is stored once its file is written.
pub(super) struct HookedSession {
    handoff: Handoff,
    work: SessionWork,
    store: SharedStore,
    runtime: Runtime,
}

impl HookedSession {
    /// Prepares the handoff of a hook.
    ///
    /// `None` if only the file is wanted, or the store is unavailable. The file then names no handoff.
    pub(super) fn new(
        args: &CreateArgs,
        config: &Config,
        made: Option<(Handoff, SessionWork)>,
        file: &mut HandoffFile,
    ) -> Option<Self> {
        let is_elsewhere = args.out.is_some() || args.directory.dir.is_some();
        let is_kept = config.documents.enabled && config.store.kind != StoreKind::Memory;
        let found = match made {
            Some(made) if args.hook && args.auto && is_kept && !is_elsewhere => Self::opened(config, made),
            _ => Ok(None),
        };
        let found = found.unwrap_or_else(|failure| {
            tell_failure(&failure);
            None
        });
        match &found {
            Some(session) => file
                .findings
                .insert(NAMED.to_owned(), session.handoff.id.to_string()),
            // The draft contains the id of a handoff that is not stored in this case.
            None => file.findings.remove(NAMED),
        };
        found
    }

    fn opened(config: &Config, (mut handoff, work): (Handoff, SessionWork)) -> CliResult<Option<Self>> {
        let (runtime, store) = (runtime()?, drafting::for_writing(config)?);
        if let Some(id) = runtime.block_on(written_before(&store, &handoff.conversation))? {
            handoff.id = id;
        }
        Ok(Some(Self {
            handoff,
            work,
            store,
            runtime,
        }))
    }

    /// Creation time of the handoff.
    pub(super) fn made(&self) -> Time {
        Time::of_seconds(i64::try_from(self.handoff.created_ms / 1000).unwrap_or(i64::MAX))
    }

    /// Stores the handoff with its document. A failure is only reported, because the file exists already.
    pub(super) fn leave(self, config: &Config) {
        let left = drafting::leave(config, &self.store, &self.handoff, &self.work);
        if let Err(failure) = self.runtime.block_on(left) {
            tell_failure(&failure);
        }
    }
}

/// Returns the handoff that a hook of this session wrote before, if nobody has resumed it.
///
/// Hooks may run after every turn, and a session has one document.
async fn written_before(store: &SharedStore, conversation: &str) -> CliResult<Option<HandoffId>> {
    let newest = HandoffFilter {
        principal: Some(LOCAL.to_owned()),
        conversation: Some(conversation.to_owned()),
        limit: 1,
        ..HandoffFilter::default()
    };
    let Some(last) = store.handoffs(&newest).await?.pop() else {
        return Ok(None);
    };
    let record = documents::find(store, LOCAL, last.id).await.ok().flatten();
    let document = record.and_then(|record| documents::document_of(&record));
    // A document of a session that baton saw names its exchange, so no hook wrote it.
    if document.is_none_or(|document| document.exchange.is_some()) {
        return Ok(None);
    }
    // Conversations are not indexed by their active handoff, so all pages are read.
    let mut after = Some(String::new());
    while let Some(from) = after {
        let page = store.page(RecordKind::Conversation, &from).await?;
        let is_in = |record: &StoredRecord| matches!(record, StoredRecord::Conversation(found) if found.active == Some(last.id));
        if page.records.iter().any(is_in) {
            return Ok(None);
        }
        after = page.next;
    }
    Ok(Some(last.id))
}
