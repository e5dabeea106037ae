//! Storage of handoffs, hidden pairs, cut points, other insertions and conversations.
//!
//! Deals with records and durability, and does not depend on wires, requests or streams. A write that returned `Ok`
//! survives a crash of the process.

pub mod copy_and_check;
pub mod forget;
mod record_text;
pub mod records;
pub mod redis;
pub mod seal_key;
pub mod seals;
pub mod sqlite;

#[cfg(test)]
mod copy_and_check_tests;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

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
    /// Principal that owns the handoffs. `None` selects all.
    pub principal: Option<String>,
    /// Conversation of the handoffs. `None` selects all.
    pub conversation: Option<String>,
    /// Inclusive range of ids.
    pub ids: Option<(HandoffId, HandoffId)>,
    /// Whether to include archived handoffs.
    pub archived: bool,
    /// Maximum number, newest first. 0 means no limit.
    pub limit: usize,
}

/// Selects documents for listings.
#[derive(Debug, Clone, Default)]
pub struct DocumentFilter {
    /// Principal that owns the documents. `None` selects all.
    pub principal: Option<String>,
    /// Handoff of the document. `None` selects all.
    pub handoff: Option<HandoffId>,
    /// Status of the documents. `None` selects all.
    pub status: Option<HandoffStatus>,
    /// Topic of the documents. `None` selects all.
    pub topic: Option<String>,
    /// Whether to omit the contents of the documents.
    pub without_documents: bool,
    /// Maximum number, newest first. 0 means no limit.
    pub limit: usize,
}

impl DocumentFilter {
    /// Selects the document of one handoff.
    pub fn for_handoff(principal: &str, handoff: HandoffId) -> Self {
        Self {
            principal: Some(principal.to_owned()),
            handoff: Some(handoff),
            ..Self::default()
        }
    }

    /// Whether a document is selected, regardless of the limit.
    pub fn matches(&self, document: &DocumentRecord) -> bool {
        self.principal.as_ref().is_none_or(|p| *p == document.principal)
            && self.handoff.is_none_or(|id| id == document.handoff)
            && self.status.is_none_or(|status| status == document.status)
            && self.topic.as_ref().is_none_or(|topic| *topic == document.topic)
    }
}

/// Whether a write returns only when it survives a power loss.
///
/// That means this machine's disk, or the condition of `store.durability`. Other writes are flushed soon
/// after they return, and survive only the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

impl Durable {
    /// Requires durability for a write with records. The next request can derive a change without records
    /// again.
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
/// Every call fails if the store cannot be reached, read or written. A failed write changes nothing.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the kind as configured: `memory`, `sqlite`, `redis`.
    fn kind(&self) -> &'static str;

    /// Whether other processes write to the same records. Then caches before the store are checked before
    /// use.
    fn shared(&self) -> bool {
        false
    }

    /// Returns a handoff of this principal by id.
    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>>;

    /// Lists handoffs, newest first, without their heads, which only a cut needs.
    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>>;

    /// Archives or unarchives a handoff. Returns `false` for an unknown id.
    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool>;

    /// Returns the known records of a transcript. See [`Lookup`].
    async fn find(&self, kind: PlacedKind, principal: &str, by: Lookup<'_>)
    -> StoreResult<Vec<PlacedRecord>>;

    /// Returns a conversation by key.
    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>>;

    /// Writes records atomically. `action` names the write in errors.
    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()>;

    /// Writes records and the change to their conversation atomically.
    ///
    /// A power failure may lose a change without records. The next request derives it again: from its
    /// sentinel, its pairs, or a provider that rejects the prefix.
    async fn put_with(
        &self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome>;

    /// Returns the record of a response id shown to the agent (Responses API).
    async fn response(&self, principal: &str, shown: &str) -> StoreResult<Option<ResponseId>>;

    /// Returns the upstream response id for an id shown to the agent.
    async fn response_id(&self, principal: &str, shown: &str) -> StoreResult<Option<String>> {
        let found = self.response(principal, shown).await?;
        Ok(found.map(|record| record.upstream))
    }

    /// Writes a document. Returns the handoffs whose documents it superseded.
    ///
    /// An active document supersedes, in the same transaction, the active one of the same principal,
    /// repository, branch and topic.
    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>>;

    /// Lists documents, newest first.
    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>>;

    /// Whether any insertion may exist. `false` saves the caller a lookup.
    fn may_have_insertions(&self) -> bool {
        true
    }

    /// Sets the status of a document, and supersedes like [`Store::put_document`]. Returns `None` for an
    /// unknown id.
    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>>;

    /// Archives superseded documents of handoffs made before this time. Returns their principals and
    /// handoffs.
    ///
    /// One transaction, so that it cannot archive a document that is being resumed.
    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>>;

    /// Deletes records that were long unused and that nothing in use refers to. A document is deleted with its
    /// handoff.
    ///
    /// Returns the number of deleted records.
    async fn sweep(&self, retention: &Retention) -> StoreResult<u64>;

    /// Returns some records of a kind, in the store's own order, beginning after `after`.
    ///
    /// `after` is empty for the first page. A store in use may return a record twice.
    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage>;

    /// Writes records of one kind unchanged. A conversation replaces only an older version.
    ///
    /// Returns how many records were missing or different.
    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64>;

    /// Deletes these records, all of one kind, regardless of their contents. Returns how many existed.
    async fn delete(&self, records: &[StoredRecord]) -> StoreResult<u64>;

    /// Counts which of these records, all of one kind, exist, regardless of their contents.
    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64>;

    /// Checks that the store can be read.
    async fn ping(&self) -> StoreResult<()>;

    /// Checks that a record could be written durably, by a real write.
    ///
    /// It may rewrite a page unchanged, so callers probe at most every few seconds.
    async fn probe(&self) -> StoreResult<()> {
        self.ping().await
    }

    /// Describes a setting of the store's server that breaks a configured promise.
    async fn settings_problem(&self) -> StoreResult<Option<String>> {
        Ok(None)
    }

    /// Writes a handoff that is not active in any conversation until a user resumes it.
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
            chain: None,
        };
        self.put_response(record).await
    }

    /// Stores a response id.
    async fn put_response(&self, record: ResponseId) -> StoreResult<()> {
        let used_ms = now_ms();
        let record = StoredRecord::ResponseId { record, used_ms };
        self.put("write a response id", vec![record]).await
    }
}

impl dyn Store + '_ {
    /// Returns the known records of one kind in a transcript.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub(crate) async fn placed<T: Placed>(&self, principal: &str, by: Lookup<'_>) -> StoreResult<Vec<T>> {
        let found = self.find(T::KIND, principal, by).await?;
        Ok(found.into_iter().filter_map(T::of).collect())
    }
}

impl HandoffFilter {
    /// Selects all handoffs, including archived ones.
    pub fn everything() -> Self {
        Self {
            archived: true,
            ..Self::default()
        }
    }

    /// Whether a handoff is selected, regardless of the limit.
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

/// Opens the store for `serve`.
///
/// `sqlite` creates the state directory and the file if they are missing. `redis` connects with the first
/// call.
///
/// # Errors
/// Returns an error if the directory or file cannot be created or opened, or the server's certificates cannot
/// be read.
pub fn open(settings: &config::StoreConfig, state_dir: &Path) -> StoreResult<SharedStore> {
    match settings.kind {
        StoreKind::Memory => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
        StoreKind::Sqlite => Ok(Arc::new(sqlite::SqliteStore::open(state_dir)?)),
        StoreKind::Redis => Ok(Arc::new(redis::RedisStore::new(settings)?)),
    }
}

/// Opens the store for commands, with or without a running proxy. Creates nothing: a missing file is an empty
/// store.
///
/// # Errors
/// Returns an error if the file exists and cannot be opened, or has another schema version.
pub fn open_for_reading(settings: &config::StoreConfig, state_dir: &Path) -> StoreResult<SharedStore> {
    match open_existing(settings, state_dir)? {
        Some(store) => Ok(store),
        None => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
    }
}

/// Opens the store like [`open_for_reading`]. Returns `None` if there is no file.
///
/// # Errors
/// Fails like [`open_for_reading`].
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

/// Creates the state directory, accessible only to its owner, because carry-over prompts contain what the
/// agent saw.
///
/// # Errors
/// Returns an error if the directory cannot be created.
pub fn make_dir(dir: &Path) -> StoreResult<()> {
    disk::make_dir(dir, FileAccess::Owner).map_err(|err| {
        StoreError::new(format!(
            "cannot make the state directory {}: {err}; give another with --state-dir",
            dir.display()
        ))
    })
}

/// Names of baton's files and directories in the state directory.
const OWN_NAMES: [&str; 6] = [
    "baton.db",
    "journal.db",
    "seal.key",
    "seal-older.keys",
    "handoffs",
    "ledgers",
];

/// Returns the first of baton's files and directories in the state directory that other users may open.
///
/// baton creates all of them closed. A copy or a backup may have opened them.
pub fn open_to_others(dir: &Path) -> Option<PathBuf> {
    let is_open = |path: &Path| {
        let mode = |found: fs::Metadata| std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        fs::metadata(path).is_ok_and(|found| mode(found) & 0o077 != 0)
    };
    // A closed directory protects its files, whatever their modes.
    let mut own = OWN_NAMES
        .iter()
        .map(|name| dir.join(name))
        .filter(|_| is_open(dir));
    own.find(|path| is_open(path))
}

/// Creates a private file atomically. An existing file is kept.
///
/// `fill` writes it under a temporary name. The file gets its real name once it is complete and flushed.
/// `explain` converts IO errors.
///
/// # Errors
/// Returns an error if `fill` fails, or the file cannot be created, flushed or renamed.
pub(crate) fn make_whole<E>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    explain: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let dir = path.parent().unwrap_or(Path::new("."));
    // In the same directory, because a rename cannot cross file systems.
    let temp = tempfile::Builder::new()
        .prefix(path.file_name().unwrap_or_default())
        .tempfile_in(dir)
        .map_err(&explain)?;
    fill(temp.path())?;
    // Flushed before the rename: after a power loss the file is complete or missing, never half written.
    temp.as_file().sync_all().map_err(&explain)?;
    disk::name_new(temp, path).map(drop).map_err(explain)
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|err| io::Error::other(err.to_string()))
}

/// A failed store call. The agent never caused it, and a retry may succeed.
#[derive(Debug, Clone)]
pub struct StoreError {
    /// The operation and its error, for the log.
    pub message: String,
    /// Remedy, if the failed operation knows one.
    pub help: Option<String>,
    /// Whether the disk has no room for the write.
    pub is_full: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, ": {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {}

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

impl StoreError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            is_full: false,
        }
    }

    /// Adds a remedy.
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// The cause without paths and addresses, for whoever sent the request.
    pub fn cause(&self) -> &'static str {
        write_failure(self.is_full)
    }
}

/// Why a write failed, for whoever sent the request.
pub fn write_failure(is_full: bool) -> &'static str {
    match is_full {
        true => "its disk is full",
        false => "the proxy's log has the cause",
    }
}

/// Returns the error for writing to another principal's record. Ids are random, so this is a bug, not a race.
pub(super) fn foreign_record(what: &str) -> StoreError {
    StoreError::new(format!("{what}: the id belongs to another principal"))
}
