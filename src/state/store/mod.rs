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

use std::fs;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use uuid::Uuid;

pub use self::error::StoreError;
use self::error::foreign_record;
use self::records::{
    Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
};
use crate::state::clock::now_ms;
use crate::state::config::{self, StoreKind};
use crate::state::disk::{self, FileAccess};
use baton_core::record::{
    Conversation, CutPoint, DocumentRecord, Handoff, HandoffId, HandoffStatus, HiddenPair, Insertion,
    Principal, Update, UpdateOutcome,
};

/// The future of a store call, boxed since the kind of store is chosen at run time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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
    pub fn of(principal: &str, handoff: HandoffId) -> Self {
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

/// The interface of all stores. Records of another principal count as unknown.
///
/// # Errors
/// Every call fails where the store cannot be reached, read or written; a write that failed changed nothing.
pub trait Store: Send + Sync + 'static {
    /// The kind as in the config: `memory`, `sqlite`, `redis`.
    fn kind(&self) -> &'static str;

    /// Whether other processes write to the same records: what is cached in front of the store is checked before use.
    fn shared(&self) -> bool {
        false
    }

    /// A handoff by id.
    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> StoreFuture<'a, Option<Handoff>>;

    /// Lists handoffs, newest first, without what only a cut needs: the text of `head`, and `recall`.
    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>>;

    /// Archives or unarchives a handoff; `false` for an unknown id.
    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool>;

    /// Records that are in a transcript, without unknown ones; see [`Lookup`].
    fn find<'a>(
        &'a self,
        kind: PlacedKind,
        principal: &'a str,
        by: Lookup<'a>,
    ) -> StoreFuture<'a, Vec<PlacedRecord>>;

    /// Whether there may be any insertion at all; `false` saves its caller the work of a look-up.
    fn may_have_insertions(&self) -> bool {
        true
    }

    /// A conversation by key.
    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>>;

    /// Writes records, all or none. `action` names the write in errors.
    fn put<'a>(&'a self, action: &'static str, records: Vec<StoredRecord>) -> StoreFuture<'a, ()>;

    /// Writes records and the change to their conversation atomically. A change alone may be lost with a power failure: the
    /// next request derives it again from its sentinel, its pairs, or a provider that rejects the prefix.
    fn put_with<'a>(
        &'a self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome>;

    /// The upstream response id of one that the agent was shown (Responses API).
    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Writes a document. One that is active supersedes, in the same transaction, the active one of the same principal,
    /// repository, branch and topic; returns the handoffs of those that it superseded.
    fn put_document<'a>(&'a self, document: &'a DocumentRecord) -> StoreFuture<'a, Vec<HandoffId>>;

    /// Lists documents, newest first.
    fn documents<'a>(&'a self, filter: &'a DocumentFilter) -> StoreFuture<'a, Vec<DocumentRecord>>;

    /// Gives a document another status, and supersedes as [`Store::put_document`] does; `None` for an unknown id.
    fn set_document_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>>;

    /// Archives the documents that are superseded, of handoffs made before this time: in one transaction, so that none
    /// is archived that somebody resumes. Returns whose they are, and the handoffs.
    fn archive_documents(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>>;

    /// Deletes what has long been unused and nothing in use refers to; documents stay. Returns the number of deleted
    /// records.
    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64>;

    /// Some records of a kind, in an order of the store's own: those after `after`, which is empty for the first page.
    /// A store in use may return a record twice.
    fn page<'a>(&'a self, kind: RecordKind, after: &'a str) -> StoreFuture<'a, RecordPage>;

    /// Writes records of one kind as they are; a conversation only over an older version. Returns how many were not there
    /// like this.
    fn import<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64>;

    /// How many of these records, all of one kind, are there, whatever they say.
    fn has<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64>;

    /// Checks that the store can be read.
    fn ping(&self) -> StoreFuture<'_, ()>;

    /// Checks that a record could be written durably, by a real write. It may rewrite a page unchanged, so callers ask
    /// every few seconds at most.
    fn probe(&self) -> StoreFuture<'_, ()> {
        self.ping()
    }

    /// The setting of the store's server that breaks a promise of the config.
    fn settings_problem(&self) -> StoreFuture<'_, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Writes a handoff, its position where that is known, and the change to its conversation atomically.
    fn put_handoff<'a>(
        &'a self,
        handoff: &'a Handoff,
        point: Option<&'a CutPoint>,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        let mut records = vec![StoredRecord::Handoff(Box::new(handoff.clone()))];
        records.extend(point.map(|point| PlacedRecord::CutPoint(point.clone()).into()));
        self.put_with("write a handoff", records, update)
    }

    /// Writes a handoff that is active in no conversation: it waits until somebody resumes it.
    fn put_draft<'a>(&'a self, handoff: &'a Handoff) -> StoreFuture<'a, ()> {
        let record = StoredRecord::Handoff(Box::new(handoff.clone()));
        self.put("write a handoff", vec![record])
    }

    /// Writes pairs and the change to their conversation atomically.
    fn put_pairs<'a>(
        &'a self,
        pairs: &'a [HiddenPair],
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        let record = |pair: &HiddenPair| PlacedRecord::Pair(Box::new(pair.clone())).into();
        self.put_with("write hidden pairs", pairs.iter().map(record).collect(), update)
    }

    /// Writes an insertion and the change to its conversation atomically.
    fn put_insertion<'a>(
        &'a self,
        insertion: &'a Insertion,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        let record = PlacedRecord::Insertion(insertion.clone()).into();
        self.put_with("write an insertion", vec![record], update)
    }

    /// Changes a conversation's record.
    fn change<'a>(&'a self, update: &'a Update) -> StoreFuture<'a, UpdateOutcome> {
        self.put_with("write a conversation", Vec::new(), update)
    }

    /// Stores the upstream id of a response id.
    fn put_response_id<'a>(
        &'a self,
        principal: &'a str,
        shown: &'a str,
        upstream: &'a str,
    ) -> StoreFuture<'a, ()> {
        let record = ResponseId {
            principal: principal.to_owned(),
            shown: shown.to_owned(),
            upstream: upstream.to_owned(),
        };
        let used_ms = now_ms();
        self.put(
            "write a response id",
            vec![StoredRecord::ResponseId { record, used_ms }],
        )
    }

    /// Hidden pairs by id (asides, and the pairs listed by a conversation).
    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<HiddenPair>> {
        let found = self.find(PlacedKind::Pair, principal, Lookup::Ids(ids));
        all_of(found, PlacedRecord::into_pair)
    }

    /// Hidden pairs next to any of these call ids.
    fn pairs_beside<'a>(
        &'a self,
        principal: &'a str,
        siblings: &'a [String],
    ) -> StoreFuture<'a, Vec<HiddenPair>> {
        let found = self.find(PlacedKind::Pair, principal, Lookup::Places(siblings));
        all_of(found, PlacedRecord::into_pair)
    }

    /// Cut points by handoff id.
    fn cut_points<'a>(
        &'a self,
        principal: &'a str,
        handoffs: &'a [HandoffId],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let found = self.find(PlacedKind::CutPoint, principal, Lookup::Ids(handoffs));
        all_of(found, PlacedRecord::into_cut_point)
    }

    /// Cut points with any of these digests.
    fn cut_points_at<'a>(
        &'a self,
        principal: &'a str,
        digests: &'a [String],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let found = self.find(PlacedKind::CutPoint, principal, Lookup::Places(digests));
        all_of(found, PlacedRecord::into_cut_point)
    }

    /// Insertions by id.
    fn insertions<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<Insertion>> {
        let found = self.find(PlacedKind::Insertion, principal, Lookup::Ids(ids));
        all_of(found, PlacedRecord::into_insertion)
    }

    /// Insertions with any of these places.
    fn insertions_at<'a>(
        &'a self,
        principal: &'a str,
        places: &'a [String],
    ) -> StoreFuture<'a, Vec<Insertion>> {
        let found = self.find(PlacedKind::Insertion, principal, Lookup::Places(places));
        all_of(found, PlacedRecord::into_insertion)
    }
}

/// Found records as their own type.
fn all_of<'a, T: 'a>(
    found: StoreFuture<'a, Vec<PlacedRecord>>,
    own: fn(PlacedRecord) -> Option<T>,
) -> StoreFuture<'a, Vec<T>> {
    Box::pin(async move { Ok(found.await?.into_iter().filter_map(own).collect()) })
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
pub fn open(settings: &config::StoreConfig, state_dir: &Path) -> Result<SharedStore, StoreError> {
    match settings.kind {
        StoreKind::Memory => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
        StoreKind::Sqlite => Ok(Arc::new(sqlite::SqliteStore::open(state_dir)?)),
        StoreKind::Redis => Ok(Arc::new(redis::RedisStore::of(settings)?)),
    }
}

/// Opens the store for commands, with or without a running proxy. Creates nothing; the store is empty where there is no
/// file.
///
/// # Errors
/// The file exists and cannot be opened, or has another schema version.
pub fn open_for_reading(settings: &config::StoreConfig, state_dir: &Path) -> Result<SharedStore, StoreError> {
    match open_existing(settings, state_dir)? {
        Some(store) => Ok(store),
        None => Ok(Arc::new(sqlite::SqliteStore::in_memory()?)),
    }
}

/// Opens the store as [`open_for_reading`] does; `None` where there is no file.
///
/// # Errors
/// As [`open_for_reading`].
pub fn open_existing(
    settings: &config::StoreConfig,
    state_dir: &Path,
) -> Result<Option<SharedStore>, StoreError> {
    Ok(match settings.kind {
        StoreKind::Redis => Some(Arc::new(redis::RedisStore::of(settings)?)),
        StoreKind::Memory => Some(Arc::new(sqlite::SqliteStore::in_memory()?)),
        StoreKind::Sqlite => match sqlite::SqliteStore::open_existing(state_dir)? {
            Some(store) => Some(Arc::new(store)),
            None => None,
        },
    })
}

/// Creates the state directory with access for its owner only: carry-over prompts contain what the agent saw.
///
/// # Errors
/// The directory cannot be created.
pub(crate) fn make_dir(dir: &Path) -> Result<(), StoreError> {
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
    let temp = disk::temporary(path).map_err(&explain)?;
    let filled = disk::private_file()
        .create_new(true)
        .open(&temp)
        .map_err(&explain);
    let filled = filled.and_then(|_| fill(&temp));
    let made = filled.and_then(|()| {
        let flushed = fs::File::open(&temp).and_then(|file| file.sync_all());
        flushed
            .and_then(|()| disk::name_new(&temp, path).map(drop))
            .map_err(&explain)
    });
    // Already gone if it has its name now.
    let _ = fs::remove_file(&temp);
    made
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|err| io::Error::other(err.to_string()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
