//! The handoff of a session that ran without `baton run`: what its hook hands over, as at the end of a run.

use tokio::runtime::Runtime;

use super::at_exit::tell_failure;
use super::draft::{self, Work};
use crate::cli::exit::CommandFailure;
use crate::cli::handoff_args::CreateArgs;
use crate::cli::runtime;
use crate::state::config::{Config, StoreKind};
use crate::state::files::documents;
use crate::state::store::records::{RecordKind, StoredRecord};
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::yaml::HandoffFile;
use baton_core::record::{Handoff, HandoffId, LOCAL};

/// The file of a handoff names it here.
const NAMED: &str = "handoff";

/// A session's handoff, to be stored when its file is written.
pub(super) struct HookedSession {
    handoff: Handoff,
    work: Work,
    store: SharedStore,
    runtime: Runtime,
}

impl HookedSession {
    /// `None` where the file is all that is wanted, or the store is unavailable: the file then names no handoff.
    pub(super) fn of(
        args: &CreateArgs,
        config: &Config,
        made: Option<(Handoff, Work)>,
        file: &mut HandoffFile,
    ) -> Option<Self> {
        let is_elsewhere = args.out.is_some() || args.folder.dir.is_some();
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
            None => file.findings.remove(NAMED),
        };
        found
    }

    fn opened(config: &Config, (mut handoff, work): (Handoff, Work)) -> Result<Option<Self>, CommandFailure> {
        let (runtime, store) = (runtime()?, draft::for_writing(config)?);
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

    /// When it was made.
    pub(super) fn created_seconds(&self) -> i64 {
        i64::try_from(self.handoff.created_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Stores it with its document. A failure is reported: the file is there.
    pub(super) fn leave(self, config: &Config) {
        let left = draft::leave(config, &self.store, &self.handoff, &self.work);
        if let Err(failure) = self.runtime.block_on(left) {
            tell_failure(&failure);
        }
    }
}

/// The handoff that a hook of this session wrote before, where nobody has resumed it: hooks may run after every turn, and a session
/// has one document.
async fn written_before(
    store: &SharedStore,
    conversation: &str,
) -> Result<Option<HandoffId>, CommandFailure> {
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
    // One that baton saw names its exchange.
    if document.is_none_or(|document| document.exchange.is_some()) {
        return Ok(None);
    }
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
