//! Storage of handoffs, hidden pairs, cut points, other insertions and conversations.
//!
//! Deals with records and durability; knows nothing of wires, requests or streams. A write that returned `Ok` survives a
//! crash of the process.

pub mod copy_and_check;
mod error;
pub mod records;
pub mod redis;
pub mod seal_key;
pub mod seals;
pub mod sqlite;

#[cfg(test)]
mod copy_and_check_tests;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use self::error::foreign_record;
pub use self::error::{StoreError, StoreResult};
use self::records::{
    Lookup, Placed, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
};
use crate::clock::now_ms;
use crate::config::{self, StoreKind};
use crate::disk::{self, FileAccess};
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};

/// The store in use.
pub type SharedStore = Arc<dyn Store>;

/// Selects handoffs for listings.
#[derive(Debug, Clone, Default)]
pub struct HandoffFilter {
    /// Only this principal's.
    pub principal: Option<String>,
    /// Only this conversation's.
    pub conversation: Option<String>,
    /// Only ids in this inclusive range.
    pub ids: Option<(HandoffId, HandoffId)>,
    /// Include archived ones.
    pub archived: bool,
    /// Maximum number, newest first; 0: no limit.
    pub limit: usize,
}

/// Selects documents for listings.
#[derive(Debug, Clone, Default)]
pub struct DocumentFilter {
    /// Only this principal's.
    pub principal: Option<String>,
    /// Only that of this handoff.
    pub handoff: Option<HandoffId>,
    /// Only those of this status.
    pub status: Option<HandoffStatus>,
    /// Only those about this.
    pub topic: Option<String>,
    /// Leave the documents out.
    pub without_documents: bool,
    /// Maximum number, newest first; 0: no limit.
    pub limit: usize,
}

impl DocumentFilter {
    /// The document of one handoff.
    pub fn for_handoff(principal: &str, handoff: HandoffId) -> Self {
        Self {
            principal: Some(principal.to_owned()),
            handoff: Some(handoff),
            ..Self::default()
        }
    }

    /// Whether a document is wanted; the limit is not examined.
    pub fn matches(&self, document: &DocumentRecord) -> bool {
        self.principal.as_ref().is_none_or(|p| *p == document.principal)
            && self.handoff.is_none_or(|id| id == document.handoff)
            && self.status.is_none_or(|status| status == document.status)
            && self.topic.as_ref().is_none_or(|topic| *topic == document.topic)
    }
}

/// Whether a write is answered only when it survives a power loss (on this machine's disk, or as `store.durability` has it).
/// Otherwise it is flushed soon after its answer, and survives the end of the process alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

impl Durable {
    /// For records with the change to their conversation. A change alone is derived again by the next request.
    fn where_new(records: &[StoredRecord]) -> Self {
        match records.is_empty() {
            true => Self::No,
            false => Self::Yes,
        }
    }
}

/// The interface of all stores. Records of another principal count as unknown.
///
/// # Errors
/// Every call fails where the store cannot be reached, read or written; a write that failed changed nothing.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The kind as in the config: `memory`, `sqlite`, `redis`.
    fn kind(&self) -> &'static str;

    /// Whether other processes write to the same records: what is cached in front of the store is checked before use.
    fn shared(&self) -> bool {
        false
    }

    /// A handoff by id.
    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>>;

    /// Lists handoffs, newest first, without what only a cut needs: the text of `head`, and `recall`.
    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>>;

    /// Archives or unarchives a handoff; `false` for an unknown id.
    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool>;

    /// Records that are in a transcript, without unknown ones; see [`Lookup`].
    async fn find(&self, kind: PlacedKind, principal: &str, by: Lookup<'_>)
    -> StoreResult<Vec<PlacedRecord>>;

    /// Whether there may be any insertion at all; `false` saves its caller the work of a look-up.
    fn may_have_insertions(&self) -> bool {
        true
    }

    /// A conversation by key.
    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>>;

    /// Writes records, all or none. `action` names the write in errors.
    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()>;

    /// Writes records and the change to their conversation atomically. A change alone may be lost with a power failure: the
    /// next request derives it again from its sentinel, its pairs, or a provider that rejects the prefix.
    async fn put_with(
        &self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome>;

    /// The upstream response id of one that the agent was shown (Responses API).
    async fn response_id(&self, principal: &str, shown: &str) -> StoreResult<Option<String>>;

    /// Writes a document. One that is active supersedes, in the same transaction, the active one of the same principal,
    /// repository, branch and topic; returns the handoffs of those that it superseded.
    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>>;

    /// Lists documents, newest first.
    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>>;

    /// Gives a document another status, and supersedes as [`Store::put_document`] does; `None` for an unknown id.
    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>>;

    /// Archives the documents that are superseded, of handoffs made before this time: in one transaction, so that none
    /// is archived that somebody resumes. Returns whose they are, and the handoffs.
    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>>;

    /// Deletes what has long been unused and nothing in use refers to; documents stay. Returns the number of deleted
    /// records.
    async fn sweep(&self, retention: &Retention) -> StoreResult<u64>;

    /// Some records of a kind, in an order of the store's own: those after `after`, which is empty for the first page.
    /// A store in use may return a record twice.
    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage>;

    /// Writes records of one kind as they are; a conversation only over an older version. Returns how many were not there
    /// like this.
    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64>;

    /// How many of these records, all of one kind, are there, whatever they say.
    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64>;

    /// Checks that the store can be read.
    async fn ping(&self) -> StoreResult<()>;

    /// Checks that a record could be written durably, by a real write. It may rewrite a page unchanged, so callers ask
    /// every few seconds at most.
    async fn probe(&self) -> StoreResult<()> {
        self.ping().await
    }

    /// The setting of the store's server that breaks a promise of the config.
    async fn settings_problem(&self) -> StoreResult<Option<String>> {
        Ok(None)
    }

    /// Writes a handoff that is active in no conversation: it waits until somebody resumes it.
    async fn put_draft(&self, handoff: &Handoff) -> StoreResult<()> {
        let record = StoredRecord::Handoff(Box::new(handoff.clone()));
        self.put("write a handoff", vec![record]).await
    }

    /// Changes a conversation's record.
    async fn change(&self, update: &Update) -> StoreResult<UpdateOutcome> {
        self.put_with("write a conversation", Vec::new(), update).await
    }

    /// Stores the upstream id of a response id.
    async fn put_response_id(&self, principal: &str, shown: &str, upstream: &str) -> StoreResult<()> {
        let record = ResponseId {
            principal: principal.to_owned(),
            shown: shown.to_owned(),
            upstream: upstream.to_owned(),
        };
        let used_ms = now_ms();
        let record = StoredRecord::ResponseId { record, used_ms };
        self.put("write a response id", vec![record]).await
    }
}

impl dyn Store + '_ {
    /// Records of one kind that are in a transcript, without unknown ones.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn placed<T: Placed>(&self, principal: &str, by: Lookup<'_>) -> StoreResult<Vec<T>> {
        let found = self.find(T::KIND, principal, by).await?;
        Ok(found.into_iter().filter_map(T::of).collect())
    }
}

impl HandoffFilter {
    /// All handoffs, archived ones too.
    pub fn everything() -> Self {
        Self {
            archived: true,
            ..Self::default()
        }
    }

    /// Whether a handoff is selected, without regard to the limit.
    fn fits(&self, handoff: &Handoff) -> bool {
        self.principal.as_ref().is_none_or(|p| *p == handoff.principal)
            && self
                .conversation
                .as_ref()
                .is_none_or(|c| *c == handoff.conversation)
            && self
                .ids
                .is_none_or(|(first, last)| (first..=last).contains(&handoff.id))
            && (self.archived || !handoff.archived)
    }
}

/// Opens the store for `serve`. `sqlite` creates the state directory and the file where they are missing; `redis` connects
/// with the first call.
///
/// # Errors
/// The directory or the file cannot be created or opened, or the server's certificates not be read.
pub fn open(settings: &config::StoreConfig, state_dir: &Path) -> StoreResult<SharedStore> {
    match settings.kind {
        StoreKind::Memory => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
        StoreKind::Sqlite => Ok(Arc::new(sqlite::SqliteStore::open(state_dir)?)),
        StoreKind::Redis => Ok(Arc::new(redis::RedisStore::new(settings)?)),
    }
}

/// Opens the store for commands, with or without a running proxy. Creates nothing; the store is empty where there is no
/// file.
///
/// # Errors
/// The file exists and cannot be opened, or has another schema version.
pub fn open_for_reading(settings: &config::StoreConfig, state_dir: &Path) -> StoreResult<SharedStore> {
    match open_existing(settings, state_dir)? {
        Some(store) => Ok(store),
        None => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
    }
}

/// Opens the store as [`open_for_reading`] does; `None` where there is no file.
///
/// # Errors
/// As [`open_for_reading`].
pub fn open_existing(settings: &config::StoreConfig, state_dir: &Path) -> StoreResult<Option<SharedStore>> {
    Ok(match settings.kind {
        StoreKind::Redis => Some(Arc::new(redis::RedisStore::new(settings)?)),
        StoreKind::Memory => Some(Arc::new(sqlite::SqliteStore::in_memory()?)),
        StoreKind::Sqlite => {
            let store = sqlite::SqliteStore::open_existing(state_dir)?;
            store.map(|store| Arc::new(store) as SharedStore)
        }
    })
}

/// Creates the state directory with access for its owner only: carry-over prompts contain what the agent saw.
///
/// # Errors
/// The directory cannot be created.
pub fn make_dir(dir: &Path) -> StoreResult<()> {
    disk::make_dir(dir, FileAccess::Owner).map_err(|err| {
        StoreError::new(format!(
            "cannot make the state directory {}: {err}; give another with --state-dir",
            dir.display()
        ))
    })
}

/// Creates a private file atomically: `fill` writes it under a temporary name, and it gets its real name once it is
/// complete and flushed. Where another process was faster, its file is kept. `explain` converts IO errors.
///
/// # Errors
/// `fill` failed, or the file cannot be created, flushed or renamed.
pub(crate) fn make_whole<E>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    explain: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let temp = tempfile::Builder::new()
        .prefix(path.file_name().unwrap_or_default())
        .tempfile_in(dir)
        .map_err(&explain)?;
    fill(temp.path())?;
    temp.as_file().sync_all().map_err(&explain)?;
    disk::name_new(temp, path).map(drop).map_err(explain)
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|err| io::Error::other(err.to_string()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
