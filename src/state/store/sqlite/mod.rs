//! The default store: one SQLite file in the state directory. Also the store `memory`: the same tables
//! without a file.
//!
//! One worker thread writes. It commits in groups and flushes with every commit, so an acknowledged write
//! survives a power loss. After a failed flush, and while the file is deleted or replaced, every write fails
//! (`writer`). Writes that transcripts and settings imply (a conversation on its own, a touch, a sweep)
//! return first and are flushed right after. Reads have their own connection and worker thread. `session`
//! caches whole records before any store. `places` is an index in memory that answers the common question
//! without SQL: no hidden pair is next to these calls.

mod documents;
mod rows;
mod schema;
mod worker;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use rusqlite::Connection;

use self::rows::{RowKeys, archive, one, write};
use self::worker::DbWorker;
use self::writer::{Disk, SqliteWriter};
use super::records::{
    Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
    TOUCH_AFTER_MS,
};
use super::{DocumentFilter, Durable, HandoffFilter, Store, StoreResult, make_dir};
use crate::clock::now_ms;
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Name of the file in the state directory.
pub const FILE: &str = "baton.db";

/// The SQLite store. One serving process holds its file. Commands may read and archive meanwhile.
pub struct SqliteStore {
    kind: &'static str,
    writer: Arc<DbWorker>,
    reader: Arc<DbWorker>,
    siblings: PlaceSet,
    places: PlaceSet,
    commits: Arc<AtomicU64>,
}

impl SqliteStore {
    /// Opens the store in `dir`, creating the directory and the file if needed.
    ///
    /// # Errors
    /// Returns an error if the directory or the file cannot be created or opened, the file is damaged, or it
    /// has another schema version.
    pub fn open(dir: &Path) -> StoreResult<Self> {
        Self::open_on(Disk::new(), dir)
    }

    fn open_on(disk: Disk, dir: &Path) -> StoreResult<Self> {
        make_dir(dir)?;
        let file = dir.join(FILE);
        let writer = schema::open_or_create(&file)?;
        Self::start(writer, file, disk)
    }

    /// Opens an existing store without creating anything. Returns `None` if nothing was ever stored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, is damaged, or has another schema version.
    pub fn open_existing(dir: &Path) -> StoreResult<Option<Self>> {
        let file = dir.join(FILE);
        match schema::open_existing(&file)? {
            Some(writer) => Self::start(writer, file, Disk::new()).map(Some),
            None => Ok(None),
        }
    }

    /// Creates the store `memory`: the same tables without a file. One worker reads and writes them.
    ///
    /// # Errors
    /// Returns an error if the worker's thread cannot be started.
    pub fn in_memory() -> StoreResult<Self> {
        let (conn, file) = (schema::open_in_memory()?, Path::new(schema::IN_MEMORY));
        let explained = |err| schema::explain(file, &err);
        let siblings = PlaceSet::new(PlacedKind::Pair, &conn).map_err(explained)?;
        let places = PlaceSet::new(PlacedKind::Insertion, &conn).map_err(explained)?;
        // A single connection: a second one would open another, empty database.
        let worker = Arc::new(DbWorker::in_memory(conn, file)?);
        Ok(Self {
            kind: "memory",
            writer: Arc::clone(&worker),
            reader: worker,
            siblings,
            places,
            commits: Arc::default(),
        })
    }

    fn start(writer: Connection, file: PathBuf, disk: Disk) -> StoreResult<Self> {
        // A separate connection, so that reads do not wait for the writer's flushes.
        let reader = schema::open_reader(&file)?;
        let explained = |err| schema::explain(&file, &err);
        let siblings = PlaceSet::new(PlacedKind::Pair, &reader).map_err(explained)?;
        let places = PlaceSet::new(PlacedKind::Insertion, &reader).map_err(explained)?;
        let commits = Arc::new(AtomicU64::new(0));
        let writer = SqliteWriter::new(writer, &file, Arc::clone(&commits), disk);
        Ok(Self {
            kind: "sqlite",
            writer: Arc::new(DbWorker::writer(writer, &file)?),
            reader: Arc::new(DbWorker::reader(reader, &file)?),
            siblings,
            places,
            commits,
        })
    }

    /// Returns the number of transactions so far, each with at most one flush.
    ///
    /// Fewer than writes, because writes are grouped.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Returns the index of anchors that have a record of this kind, if there is one.
    fn index(&self, kind: PlacedKind) -> Option<&PlaceSet> {
        match kind {
            PlacedKind::Pair => Some(&self.siblings),
            PlacedKind::Insertion => Some(&self.places),
            PlacedKind::CutPoint => None,
        }
    }

    /// Adds the anchors of records before they are written.
    ///
    /// A superfluous anchor costs a lookup, while a missing one would hide its record.
    fn add_places(&self, records: &[StoredRecord]) {
        for record in records {
            if let StoredRecord::Placed { record, .. } = record {
                let columns = record.columns();
                if let (Some(index), Some(key)) = (self.index(columns.kind), columns.key) {
                    index.add(columns.principal, key);
                }
            }
        }
    }

    /// Returns the records, and enqueues a touch of those whose timestamp is old.
    fn touched(&self, kind: PlacedKind, found: Vec<(PlacedRecord, u64)>) -> Vec<PlacedRecord> {
        let now = now_ms();
        let stale = found
            .iter()
            .filter(|(_, used_ms)| now.saturating_sub(*used_ms) > TOUCH_AFTER_MS);
        let ids: Vec<String> = stale.map(|(record, _)| record.columns().id.to_string()).collect();
        if !ids.is_empty() {
            // Nobody waits for this. A later read repeats a lost touch.
            drop(self.writer.enqueue(Durable::No, "touch records", move |conn| {
                ids.iter().try_for_each(|id| rows::touch(conn, kind, id, now))
            }));
        }
        found.into_iter().map(|(record, _)| record).collect()
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        self.kind
    }

    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>> {
        let read = move |conn: &Connection| rows::one(conn, RecordKind::Handoff, &id.to_string());
        let found = self.reader.call("read a handoff", read).await?;
        let handoff = found.and_then(StoredRecord::into_handoff);
        // A handoff of another client counts as unknown.
        Ok(handoff.filter(|handoff| handoff.principal == principal))
    }

    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>> {
        let filter = filter.clone();
        let read = move |conn: &Connection| rows::handoffs(conn, &filter);
        self.reader.call("list handoffs", read).await
    }

    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool> {
        let principal = principal.to_owned();
        let write = move |conn: &Connection| rows::archive(conn, &principal, &id.to_string(), archived);
        self.writer.call("archive a handoff", write).await
    }

    async fn find(
        &self,
        kind: PlacedKind,
        principal: &str,
        by: Lookup<'_>,
    ) -> StoreResult<Vec<PlacedRecord>> {
        let keys = match (by, self.index(kind)) {
            (Lookup::Ids(ids), _) => RowKeys::Ids(ids.iter().map(ToString::to_string).collect()),
            // Most calls have no pair next to them, which the index answers without SQL.
            (Lookup::Places(places), Some(index)) => RowKeys::Places(index.hits(principal, places)),
            (Lookup::Places(places), None) => RowKeys::Places(places.to_vec()),
        };
        if let RowKeys::Ids(none) | RowKeys::Places(none) = &keys
            && none.is_empty()
        {
            return Ok(Vec::new());
        }
        let principal = principal.to_owned();
        let read = move |conn: &Connection| rows::placed(conn, kind, &principal, &keys);
        let found = self.reader.call(kind.reading(), read).await?;
        Ok(self.touched(kind, found))
    }

    fn may_have_insertions(&self) -> bool {
        !self.places.is_empty()
    }

    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>> {
        let key = key.to_owned();
        let read = move |conn: &Connection| rows::conversation(conn, &key);
        self.reader.call("read a conversation", read).await
    }

    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()> {
        self.add_places(&records);
        let write = move |conn: &Connection| records.iter().try_for_each(|record| put(conn, record));
        self.writer.call(action, write).await
    }

    async fn put_with(
        &self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        self.add_places(&records);
        let durable = Durable::where_new(&records);
        let update = update.clone();
        let write = move |conn: &Connection| {
            records.iter().try_for_each(|record| put(conn, record))?;
            rows::change(conn, &update)
        };
        self.writer.call_with(durable, action, write).await
    }

    async fn response(&self, principal: &str, shown: &str) -> StoreResult<Option<ResponseId>> {
        let id = ResponseId::key(principal, shown);
        let read = move |conn: &Connection| rows::one(conn, RecordKind::ResponseId, &id);
        let found = self.reader.call("read a response id", read).await?;
        Ok(match found {
            Some(StoredRecord::ResponseId { record, .. }) => Some(record),
            _ => None,
        })
    }

    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>> {
        let document = document.clone();
        let write = move |conn: &Connection| documents::put(conn, &document);
        // The journal can rebuild a document, so a power loss may take the last one.
        self.writer
            .call_with(Durable::No, "write a document", write)
            .await
    }

    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>> {
        let filter = filter.clone();
        let read = move |conn: &Connection| documents::list(conn, &filter);
        self.reader.call("list documents", read).await
    }

    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>> {
        let principal = principal.to_owned();
        let write = move |conn: &Connection| documents::set_status(conn, &principal, id, status);
        self.writer.call("change a document", write).await
    }

    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>> {
        let write = move |conn: &Connection| documents::archive(conn, before_ms);
        self.writer.call("archive old documents", write).await
    }

    async fn sweep(&self, retention: &Retention) -> StoreResult<u64> {
        let retention = *retention;
        // The index keeps swept anchors: a superfluous entry does no harm.
        let write = move |conn: &Connection| rows::sweep(conn, &retention);
        self.writer
            .call_with(Durable::No, "sweep old records", write)
            .await
    }

    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage> {
        let after = after.to_owned();
        let read = move |conn: &Connection| rows::page(conn, kind, &after);
        self.reader.call("read a page of records", read).await
    }

    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        self.add_places(records);
        let records = records.to_vec();
        let write = move |conn: &Connection| import(conn, &records);
        self.writer.call("write records", write).await
    }

    async fn delete(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let records = records.to_vec();
        let write = move |conn: &Connection| rows::delete(conn, &records);
        self.writer.call("delete records", write).await
    }

    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let records = records.to_vec();
        let read = move |conn: &Connection| rows::has(conn, &records);
        self.reader.call("look for records", read).await
    }

    async fn ping(&self) -> StoreResult<()> {
        // Unlike a constant expression, this query reads the file.
        let ask = |conn: &Connection| conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        self.reader.call("ask the store", ask).await
    }

    async fn probe(&self) -> StoreResult<()> {
        self.writer.call("try to write", rows::probe).await
    }
}

/// Writes a record of any kind.
pub(super) fn put(conn: &Connection, record: &StoredRecord) -> rusqlite::Result<()> {
    match record {
        StoredRecord::Document(document) => documents::put(conn, document).map(drop),
        _ => write(conn, record),
    }
}

/// Writes records unchanged. Returns how many were missing or different.
pub(super) fn import(conn: &Connection, records: &[StoredRecord]) -> rusqlite::Result<u64> {
    let mut changed = 0;
    for record in records {
        // An unreadable record is overwritten.
        let known = one(conn, record.kind(), &record.id()).ok().flatten();
        if known.is_some_and(|known| known.covers(record)) {
            continue;
        }
        changed += 1;
        match record {
            StoredRecord::Document(document) => changed -= u64::from(!documents::import(conn, document)?),
            StoredRecord::Handoff(handoff) => {
                write(conn, record)?;
                // `write` keeps the archive flag of an existing handoff, so it is set separately.
                archive(conn, &handoff.principal, &record.id(), handoff.archived)?;
            }
            _ => write(conn, record)?,
        }
    }
    Ok(changed)
}

/// Anchors that have a hidden pair or an insertion, as 64-bit hashes. A collision costs one lookup.
pub(super) struct PlaceSet {
    hasher: RandomState,
    known: RwLock<HashSet<u64>>,
}

impl PlaceSet {
    /// Reads the anchors of all records of a kind.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read.
    pub(super) fn new(kind: PlacedKind, conn: &Connection) -> rusqlite::Result<Self> {
        let hasher = RandomState::new();
        let mut known = HashSet::new();
        rows::places(conn, kind, |principal, place| {
            known.insert(hasher.hash_one((principal, place)));
        })?;
        let known = RwLock::new(known);
        Ok(Self { hasher, known })
    }

    /// Adds the anchor of a principal's record.
    pub(super) fn add(&self, principal: &str, place: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(self.hasher.hash_one((principal, place)));
    }

    /// Whether the index is empty.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.is_empty()
    }

    /// Returns the anchors that may have a record.
    pub(super) fn hits(&self, principal: &str, places: &[String]) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let hit = |place: &&String| known.contains(&self.hasher.hash_one((principal, place.as_str())));
        places.iter().filter(hit).cloned().collect()
    }
}
