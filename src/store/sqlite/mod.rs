//! The default store: one SQLite file in the state directory.
//!
//! Writes go through one thread that commits in groups and flushes with every commit, so that an answered
//! write survives a power loss, too. After a flush that failed, and while the file's name leads elsewhere or nowhere,
//! every write fails (`writer`). Only what follows from transcripts and settings (a conversation by itself, a
//! mark, a sweep) is answered first and flushed right behind. Reads have a connection and a thread of their own. Caches of whole
//! records are not here but in `session`, in front of any store; what is here is an index that lets the
//! common question (no hidden pairs beside these calls) be answered without SQL.

mod lane;
mod rows;
mod schema;
mod wal;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::Connection;
use uuid::Uuid;

use self::lane::{Lane, Promise};
use self::rows::{TouchedPair, TouchedPoint};
use self::writer::{Flush, Writer, to_disk};
use super::{Answer, HandoffFilter, Store, StoreError, make_dir, now_ms};
use crate::record::{Conversation, CutPoint, Handoff, HandoffId, HiddenPair};

/// The file's name in the state directory.
pub const FILE: &str = "baton.db";

/// A pair that is read is marked as touched when the mark is older than this: a day, so that sweeping by
/// weeks is exact enough and a busy conversation costs one write a day.
const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// The SQLite store. Meant to be held by one serving process; commands may read and archive beside it.
pub struct SqliteStore {
    writer: Lane,
    reader: Lane,
    beside: Siblings,
    commits: Arc<AtomicU64>,
}

impl SqliteStore {
    /// Opens the store in `dir`, making and upgrading what has to be.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_flushed_by(dir, to_disk())
    }

    fn open_flushed_by(dir: &Path, flush: Flush) -> Result<Self, StoreError> {
        make_dir(dir)?;
        let file = dir.join(FILE);
        let writer = schema::open_newest(&file)?;
        Self::start(writer, file, flush)
    }

    /// Opens what is there, making and upgrading nothing; `None` where nothing was ever stored.
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, StoreError> {
        let file = dir.join(FILE);
        match schema::open_existing(&file)? {
            Some(writer) => Self::start(writer, file, to_disk()).map(Some),
            None => Ok(None),
        }
    }

    fn start(writer: Connection, file: PathBuf, flush: Flush) -> Result<Self, StoreError> {
        let reader = schema::open_reader(&file)?;
        let beside = Siblings::load(&reader).map_err(|err| schema::explain(&file, &err))?;
        let commits = Arc::new(AtomicU64::new(0));
        let writer = Writer::new(writer, &file, Arc::clone(&commits), flush);
        Ok(Self {
            writer: Lane::writer(writer, &file)?,
            reader: Lane::reader(reader, &file)?,
            beside,
            commits,
        })
    }

    /// Transactions so far, each at most one flush of the disk: fewer than writes where writes came together.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Hands the pairs out, and marks those long not touched, without waiting for it.
    fn touched(&self, found: Vec<TouchedPair>) -> Vec<HiddenPair> {
        let now = now_ms();
        let stale = |(pair, at): &TouchedPair| (now.saturating_sub(*at) > TOUCH_AFTER_MS).then_some(pair.id);
        let ids: Vec<Uuid> = found.iter().filter_map(stale).collect();
        if !ids.is_empty() {
            drop(self.writer.cast("touch hidden pairs", move |conn| {
                rows::touch_pairs(conn, &ids, now)
            }));
        }
        found.into_iter().map(|(pair, _)| pair).collect()
    }

    /// The same for cut points.
    fn touched_points(&self, found: Vec<TouchedPoint>) -> Vec<CutPoint> {
        let now = now_ms();
        let stale =
            |(point, at): &TouchedPoint| (now.saturating_sub(*at) > TOUCH_AFTER_MS).then_some(point.handoff);
        let ids: Vec<HandoffId> = found.iter().filter_map(stale).collect();
        if !ids.is_empty() {
            drop(self.writer.cast("touch cut points", move |conn| {
                rows::touch_cut_points(conn, &ids, now)
            }));
        }
        found.into_iter().map(|(point, _)| point).collect()
    }
}

#[cfg(test)]
impl SqliteStore {
    /// Has the writer wait until this is told.
    pub(crate) fn hold_writer(&self) -> std::sync::mpsc::Sender<()> {
        let (release, held) = std::sync::mpsc::channel::<()>();
        drop(self.writer.cast("hold the writer", move |_| {
            let _ = held.recv();
            Ok(())
        }));
        release
    }

    /// Ends the writer's thread by a panic.
    pub(crate) fn kill_writer(&self) {
        drop(self.writer.cast("panic", |_| -> rusqlite::Result<()> {
            panic!("meant by the test")
        }));
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> Answer<'a, Option<Handoff>> {
        let principal = principal.to_owned();
        Box::pin(
            self.reader
                .call("read a handoff", move |conn| rows::handoff(conn, &principal, id)),
        )
    }

    fn put_handoff<'a>(&'a self, handoff: &'a Handoff, conversation: &'a Conversation) -> Answer<'a, ()> {
        let (handoff, conversation) = (handoff.clone(), conversation.clone());
        Box::pin(self.writer.call("write a handoff", move |conn| {
            rows::put_handoff(conn, &handoff)?;
            rows::put_conversation(conn, &conversation)
        }))
    }

    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> Answer<'a, Vec<Handoff>> {
        let filter = filter.clone();
        Box::pin(
            self.reader
                .call("list handoffs", move |conn| rows::handoffs(conn, &filter)),
        )
    }

    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> Answer<'a, bool> {
        let principal = principal.to_owned();
        Box::pin(self.writer.call("archive a handoff", move |conn| {
            rows::archive(conn, &principal, id, archived)
        }))
    }

    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> Answer<'a, Vec<HiddenPair>> {
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

    fn pairs_beside<'a>(&'a self, principal: &'a str, siblings: &'a [String]) -> Answer<'a, Vec<HiddenPair>> {
        let hits = self.beside.hits(principal, siblings);
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

    fn put_pairs<'a>(&'a self, pairs: &'a [HiddenPair], conversation: &'a Conversation) -> Answer<'a, ()> {
        // Before the write: a sibling too many costs a look-up, one too few would hide a pair.
        self.beside.add(pairs);
        let (pairs, conversation) = (pairs.to_vec(), conversation.clone());
        Box::pin(self.writer.call("write hidden pairs", move |conn| {
            for pair in &pairs {
                rows::put_pair(conn, pair)?;
            }
            rows::put_conversation(conn, &conversation)
        }))
    }

    fn put_cut_point<'a>(&'a self, point: &'a CutPoint) -> Answer<'a, ()> {
        let point = point.clone();
        let write = move |conn: &Connection| rows::put_cut_point(conn, &point);
        Box::pin(self.writer.call("write a cut point", write))
    }

    fn cut_points<'a>(&'a self, principal: &'a str, handoffs: &'a [HandoffId]) -> Answer<'a, Vec<CutPoint>> {
        let (principal, handoffs) = (principal.to_owned(), handoffs.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::cut_points(conn, &principal, &handoffs);
            let found = self.reader.call("read cut points", read).await?;
            Ok(self.touched_points(found))
        })
    }

    fn cut_points_at<'a>(&'a self, principal: &'a str, digests: &'a [String]) -> Answer<'a, Vec<CutPoint>> {
        let (principal, digests) = (principal.to_owned(), digests.to_owned());
        Box::pin(async move {
            let read = move |conn: &Connection| rows::cut_points_at(conn, &principal, &digests);
            let found = self.reader.call("read cut points", read).await?;
            Ok(self.touched_points(found))
        })
    }

    fn conversation<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Conversation>> {
        let key = key.to_owned();
        Box::pin(
            self.reader
                .call("read a conversation", move |conn| rows::conversation(conn, &key)),
        )
    }

    fn put_conversation<'a>(&'a self, conversation: &'a Conversation) -> Answer<'a, ()> {
        let conversation = conversation.clone();
        // Lost with the power, it is found anew by the next request: by its sentinel, by its pairs, or by a provider
        // that asks for the other prefix.
        Box::pin(
            self.writer
                .ask(Promise::Process, "write a conversation", move |conn| {
                    rows::put_conversation(conn, &conversation)
                }),
        )
    }

    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> Answer<'a, Option<String>> {
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
    ) -> Answer<'a, ()> {
        let (principal, shown) = (principal.to_owned(), shown.to_owned());
        let upstream = upstream.to_owned();
        Box::pin(self.writer.call("write a response id", move |conn| {
            rows::put_response_id(conn, &principal, &shown, &upstream, now_ms())
        }))
    }

    fn sweep(&self, before_ms: u64) -> Answer<'_, u64> {
        // The index keeps the siblings that go: again one too many does no harm.
        Box::pin(
            self.writer
                .ask(Promise::Process, "sweep old records", move |conn| {
                    rows::sweep(conn, before_ms)
                }),
        )
    }

    fn ping(&self) -> Answer<'_, ()> {
        let ask = |conn: &Connection| conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        Box::pin(self.reader.call("ask the store", ask))
    }

    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(self.writer.call("try to write", rows::probe))
    }
}

/// Which siblings have pairs, as hashes: eight bytes each, and a collision costs one look-up.
struct Siblings {
    hasher: RandomState,
    known: RwLock<HashSet<u64>>,
}

impl Siblings {
    fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let hasher = RandomState::new();
        let mut known = HashSet::new();
        rows::siblings(conn, |principal, sibling| {
            known.insert(hasher.hash_one((principal.as_str(), sibling.as_str())));
        })?;
        let known = RwLock::new(known);
        Ok(Self { hasher, known })
    }

    fn add(&self, pairs: &[HiddenPair]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for pair in pairs {
            if let Some(sibling) = pair.place.key() {
                known.insert(self.hasher.hash_one((pair.principal.as_str(), sibling)));
            }
        }
    }

    fn hits(&self, principal: &str, siblings: &[String]) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let hit = |sibling: &&String| known.contains(&self.hasher.hash_one((principal, sibling.as_str())));
        siblings.iter().filter(hit).cloned().collect()
    }
}
