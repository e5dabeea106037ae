//! The default store: one SQLite file in the state directory.
//!
//! One worker thread writes. It commits in groups and flushes with every commit, so an answered write survives a power
//! loss. After a failed flush, and while the file is deleted or replaced, every write fails (`writer`). Writes that can be
//! derived again from transcripts and settings (a conversation on its own, a touch, a sweep) are answered first and
//! flushed right after. Reads have a connection and a worker thread of their own. Whole records are cached in `session`,
//! in front of any store; `places` is an index in memory that answers the common question (no hidden pair beside these
//! calls) without SQL.

mod bulk;
mod document_rows;
mod job;
mod places;
mod rows;
mod schema;
mod wal;
mod worker;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use uuid::Uuid;

use self::job::JobDurability;
use self::places::PlaceSet;
use self::rows::{TouchedInsertion, TouchedPair, TouchedPoint};
use self::worker::DbWorker;
use self::writer::{Flush, SqliteWriter, to_disk};
use super::records::{RecordKind, RecordPage, Retention, StoredRecord};
use super::{DocumentFilter, HandoffFilter, Store, StoreError, StoreFuture, make_dir, now_ms};
use baton_core::record::{
    Conversation, CutPoint, DocumentRecord, Handoff, HandoffId, HandoffStatus, HiddenPair, Insertion,
    Principal, Update, UpdateOutcome,
};

/// The file's name in the state directory.
pub const FILE: &str = "baton.db";

/// A pair that is read is touched again when its timestamp is older than this. One day: exact enough for sweeping by
/// weeks, and one write a day for a busy conversation.
const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// The SQLite store. One serving process holds it; commands may read and archive beside it.
pub struct SqliteStore {
    writer: DbWorker,
    reader: DbWorker,
    siblings: PlaceSet,
    places: PlaceSet,
    commits: Arc<AtomicU64>,
}

impl SqliteStore {
    /// Opens the store in `dir`; creates the directory and the file, or upgrades the schema, as needed.
    ///
    /// # Errors
    /// The directory or the file cannot be created or opened, the file is damaged, or a newer version wrote it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_flushed_by(dir, to_disk())
    }

    fn open_flushed_by(dir: &Path, flush: Flush) -> Result<Self, StoreError> {
        make_dir(dir)?;
        let file = dir.join(FILE);
        let writer = schema::open_newest(&file)?;
        Self::start(writer, file, flush)
    }

    /// Opens an existing store without creating or upgrading anything; `None` where nothing was ever stored.
    ///
    /// # Errors
    /// The file cannot be opened, is damaged, or has another schema version.
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, StoreError> {
        let file = dir.join(FILE);
        match schema::open_existing(&file)? {
            Some(writer) => Self::start(writer, file, to_disk()).map(Some),
            None => Ok(None),
        }
    }

    fn start(writer: Connection, file: PathBuf, flush: Flush) -> Result<Self, StoreError> {
        let reader = schema::open_reader(&file)?;
        let explained = |err| schema::explain(&file, &err);
        let siblings = PlaceSet::of_pairs(&reader).map_err(explained)?;
        let places = PlaceSet::of_insertions(&reader).map_err(explained)?;
        let commits = Arc::new(AtomicU64::new(0));
        let writer = SqliteWriter::new(writer, &file, Arc::clone(&commits), flush);
        Ok(Self {
            writer: DbWorker::writer(writer, &file)?,
            reader: DbWorker::reader(reader, &file)?,
            siblings,
            places,
            commits,
        })
    }

    /// Transactions so far, at most one flush each. Fewer than writes where writes were grouped.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Returns the pairs, and submits a touch of those whose timestamp is old.
    fn touched(&self, found: Vec<TouchedPair>) -> Vec<HiddenPair> {
        let now = now_ms();
        let stale = |(pair, at): &TouchedPair| (now.saturating_sub(*at) > TOUCH_AFTER_MS).then_some(pair.id);
        let ids: Vec<Uuid> = found.iter().filter_map(stale).collect();
        if !ids.is_empty() {
            drop(self.writer.submit("touch hidden pairs", move |conn| {
                rows::touch_pairs(conn, &ids, now)
            }));
        }
        found.into_iter().map(|(pair, _)| pair).collect()
    }

    /// Marks cut points as used.
    fn touched_points(&self, found: Vec<TouchedPoint>) -> Vec<CutPoint> {
        let now = now_ms();
        let stale =
            |(point, at): &TouchedPoint| (now.saturating_sub(*at) > TOUCH_AFTER_MS).then_some(point.handoff);
        let ids: Vec<HandoffId> = found.iter().filter_map(stale).collect();
        if !ids.is_empty() {
            drop(self.writer.submit("touch cut points", move |conn| {
                rows::touch_cut_points(conn, &ids, now)
            }));
        }
        found.into_iter().map(|(point, _)| point).collect()
    }

    /// Marks insertions as used.
    fn touched_insertions(&self, found: Vec<TouchedInsertion>) -> Vec<Insertion> {
        let now = now_ms();
        let stale = |(insertion, at): &TouchedInsertion| {
            (now.saturating_sub(*at) > TOUCH_AFTER_MS).then_some(insertion.id)
        };
        let ids: Vec<Uuid> = found.iter().filter_map(stale).collect();
        if !ids.is_empty() {
            drop(self.writer.submit("touch insertions", move |conn| {
                rows::touch_insertions(conn, &ids, now)
            }));
        }
        found.into_iter().map(|(insertion, _)| insertion).collect()
    }
}

#[cfg(test)]
impl SqliteStore {
    /// Blocks the writer's thread until the sender is used or dropped.
    pub(crate) fn hold_writer(&self) -> std::sync::mpsc::Sender<()> {
        let (release, resumed) = std::sync::mpsc::channel::<()>();
        drop(self.writer.submit("hold the writer", move |_| {
            let _ = resumed.recv();
            Ok(())
        }));
        release
    }

    /// Ends the writer's thread by a panic.
    pub(crate) fn kill_writer(&self) {
        drop(self.writer.submit("panic", |_| -> rusqlite::Result<()> {
            panic!("meant by the test")
        }));
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> StoreFuture<'a, Option<Handoff>> {
        let principal = principal.to_owned();
        Box::pin(
            self.reader
                .call("read a handoff", move |conn| rows::handoff(conn, &principal, id)),
        )
    }

    fn put_handoff<'a>(
        &'a self,
        handoff: &'a Handoff,
        point: Option<&'a CutPoint>,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        let (handoff, point, update) = (handoff.clone(), point.cloned(), update.clone());
        Box::pin(self.writer.call("write a handoff", move |conn| {
            rows::put_handoff(conn, &handoff)?;
            if let Some(point) = &point {
                rows::put_cut_point(conn, point)?;
            }
            rows::change(conn, &update)
        }))
    }

    fn put_draft<'a>(&'a self, handoff: &'a Handoff) -> StoreFuture<'a, ()> {
        let handoff = handoff.clone();
        Box::pin(
            self.writer
                .call("write a handoff", move |conn| rows::put_handoff(conn, &handoff)),
        )
    }

    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>> {
        let filter = filter.clone();
        Box::pin(
            self.reader
                .call("list handoffs", move |conn| rows::handoffs(conn, &filter)),
        )
    }

    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool> {
        let principal = principal.to_owned();
        Box::pin(self.writer.call("archive a handoff", move |conn| {
            rows::archive(conn, &principal, id, archived)
        }))
    }

    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<HiddenPair>> {
        if ids.is_empty() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        let (principal, ids) = (principal.to_owned(), ids.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::pairs(conn, &principal, &ids);
            let found = self.reader.call("read hidden pairs", read).await?;
            Ok(self.touched(found))
        })
    }

    fn pairs_beside<'a>(
        &'a self,
        principal: &'a str,
        siblings: &'a [String],
    ) -> StoreFuture<'a, Vec<HiddenPair>> {
        let hits = self.siblings.hits(principal, siblings);
        if hits.is_empty() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        let principal = principal.to_owned();
        Box::pin(async move {
            let read = move |conn: &Connection| rows::pairs_beside(conn, &principal, &hits);
            let found = self.reader.call("read hidden pairs", read).await?;
            Ok(self.touched(found))
        })
    }

    fn put_pairs<'a>(
        &'a self,
        pairs: &'a [HiddenPair],
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        // Before the write: a superfluous entry costs a look-up, a missing one would hide a pair.
        let siblings = pairs
            .iter()
            .filter_map(|p| Some((p.principal.as_str(), p.place.key()?)));
        self.siblings.add(siblings);
        let (pairs, update) = (pairs.to_vec(), update.clone());
        Box::pin(self.writer.call("write hidden pairs", move |conn| {
            for pair in &pairs {
                rows::put_pair(conn, pair)?;
            }
            rows::change(conn, &update)
        }))
    }

    fn put_cut_point<'a>(&'a self, point: &'a CutPoint) -> StoreFuture<'a, ()> {
        let point = point.clone();
        let write = move |conn: &Connection| rows::put_cut_point(conn, &point);
        Box::pin(self.writer.call("write a cut point", write))
    }

    fn cut_points<'a>(
        &'a self,
        principal: &'a str,
        handoffs: &'a [HandoffId],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let (principal, handoffs) = (principal.to_owned(), handoffs.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::cut_points(conn, &principal, &handoffs);
            let found = self.reader.call("read cut points", read).await?;
            Ok(self.touched_points(found))
        })
    }

    fn cut_points_at<'a>(
        &'a self,
        principal: &'a str,
        digests: &'a [String],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let (principal, digests) = (principal.to_owned(), digests.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::cut_points_at(conn, &principal, &digests);
            let found = self.reader.call("read cut points", read).await?;
            Ok(self.touched_points(found))
        })
    }

    fn put_insertion<'a>(
        &'a self,
        insertion: &'a Insertion,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        // Before the write, like siblings.
        let place = insertion
            .place
            .key()
            .map(|key| (insertion.principal.as_str(), key));
        self.places.add(place.into_iter());
        let (insertion, update) = (insertion.clone(), update.clone());
        Box::pin(self.writer.call("write an insertion", move |conn| {
            rows::put_insertion(conn, &insertion)?;
            rows::change(conn, &update)
        }))
    }

    fn insertions<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<Insertion>> {
        let (principal, ids) = (principal.to_owned(), ids.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::insertions(conn, &principal, &ids);
            let found = self.reader.call("read insertions", read).await?;
            Ok(self.touched_insertions(found))
        })
    }

    fn insertions_at<'a>(
        &'a self,
        principal: &'a str,
        places: &'a [String],
    ) -> StoreFuture<'a, Vec<Insertion>> {
        let hits = self.places.hits(principal, places);
        if hits.is_empty() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        let principal = principal.to_owned();
        Box::pin(async move {
            let read = move |conn: &Connection| rows::insertions_at(conn, &principal, &hits);
            let found = self.reader.call("read insertions", read).await?;
            Ok(self.touched_insertions(found))
        })
    }

    fn may_have_insertions(&self) -> bool {
        !self.places.is_empty()
    }

    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        let key = key.to_owned();
        Box::pin(
            self.reader
                .call("read a conversation", move |conn| rows::conversation(conn, &key)),
        )
    }

    fn change<'a>(&'a self, update: &'a Update) -> StoreFuture<'a, UpdateOutcome> {
        let update = update.clone();
        // After a power loss the next request derives it again: from its sentinel, from its pairs, or from a provider
        // that rejects the prefix.
        Box::pin(
            self.writer
                .call_with(JobDurability::ProcessExit, "write a conversation", move |conn| {
                    rows::change(conn, &update)
                }),
        )
    }

    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>> {
        let (principal, shown) = (principal.to_owned(), shown.to_owned());
        Box::pin(self.reader.call("read a response id", move |conn| {
            rows::response_id(conn, &principal, &shown)
        }))
    }

    fn put_response_id<'a>(
        &'a self,
        principal: &'a str,
        shown: &'a str,
        upstream: &'a str,
    ) -> StoreFuture<'a, ()> {
        let (principal, shown) = (principal.to_owned(), shown.to_owned());
        let upstream = upstream.to_owned();
        Box::pin(self.writer.call("write a response id", move |conn| {
            rows::put_response_id(conn, &principal, &shown, &upstream, now_ms())
        }))
    }

    fn put_document<'a>(&'a self, document: &'a DocumentRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        let document = document.clone();
        // It can be made again from the journal; a power loss may take the last one.
        Box::pin(
            self.writer
                .call_with(JobDurability::ProcessExit, "write a document", move |conn| {
                    document_rows::put(conn, &document)
                }),
        )
    }

    fn documents<'a>(&'a self, filter: &'a DocumentFilter) -> StoreFuture<'a, Vec<DocumentRecord>> {
        let filter = filter.clone();
        Box::pin(
            self.reader
                .call("list documents", move |conn| document_rows::list(conn, &filter)),
        )
    }

    fn set_document_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        let principal = principal.to_owned();
        Box::pin(self.writer.call("change a document", move |conn| {
            document_rows::set_status(conn, &principal, id, status)
        }))
    }

    fn archive_documents(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        Box::pin(self.writer.call("archive old documents", move |conn| {
            document_rows::archive(conn, before_ms)
        }))
    }

    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        let retention = *retention;
        // The index keeps the swept siblings: a superfluous entry does no harm.
        Box::pin(
            self.writer
                .call_with(JobDurability::ProcessExit, "sweep old records", move |conn| {
                    rows::sweep(conn, &retention)
                }),
        )
    }

    fn page<'a>(&'a self, kind: RecordKind, after: &'a str) -> StoreFuture<'a, RecordPage> {
        let after = after.to_owned();
        Box::pin(self.reader.call("read a page of records", move |conn| {
            bulk::page(conn, kind, &after)
        }))
    }

    fn import<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        for record in records {
            match record {
                StoredRecord::Pair { record, .. } => {
                    let sibling = record.place.key().map(|key| (record.principal.as_str(), key));
                    self.siblings.add(sibling.into_iter());
                }
                StoredRecord::Insertion { record, .. } => {
                    let place = record.place.key().map(|key| (record.principal.as_str(), key));
                    self.places.add(place.into_iter());
                }
                _ => {}
            }
        }
        let records = records.to_vec();
        Box::pin(
            self.writer
                .call("write records", move |conn| bulk::import(conn, &records)),
        )
    }

    fn has<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        let records = records.to_vec();
        Box::pin(
            self.reader
                .call("look for records", move |conn| bulk::has(conn, &records)),
        )
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        let ask = |conn: &Connection| conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        Box::pin(self.reader.call("ask the store", ask))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.call("try to write", rows::probe))
    }
}
