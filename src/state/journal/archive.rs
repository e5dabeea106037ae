//! The journal's database file and its transactions. Owned by the journal's thread, outside the async
//! runtime.
//!
//! Each note goes into the rows of its exchange (`archive_notes`), so the file shows an exchange while it is open.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use rusqlite::{Connection, params};

use super::chunk_store::ChunkStore;
use super::headers::HeaderModels;
use super::open_exchange::OpenExchange;
use super::queue::{JournalNote, MAX_LOST_ENDS};
use crate::database::run;
use baton_core::redact::Redactor;

/// Maximum number of exchanges remembered as partial.
///
/// The proxy never has this many open exchanges: more of them mean that their ends were lost.
const MAX_PARTIAL: usize = 8192;

/// Writes notes to the file.
pub(super) struct Archive {
    pub(super) conn: Connection,
    pub(super) chunk_store: ChunkStore,
    pub(super) models: HeaderModels,
    /// Opening tags of text that a harness adds.
    pub(super) tags: Vec<String>,
    /// Numbers of the newest row and of the latest end.
    pub(super) last: (i64, i64),
    /// Open exchanges with notes in this transaction.
    pub(super) open: HashMap<Arc<str>, OpenExchange, RandomState>,
    /// Exchanges with notes in this transaction, and whether the note was the end.
    pub(super) touched: Vec<(Arc<str>, bool)>,
    /// Ended exchanges whose row is still marked as open.
    pub(super) unended: HashSet<Arc<str>>,
    /// Exchanges with a lost note, and whether it was the beginning. Their rows are marked as partial at
    /// their end.
    pub(super) partial: HashMap<Arc<str>, bool>,
    /// Conversations titled by a side call.
    pub(super) side_titles: HashSet<String>,
}

impl Archive {
    pub(super) fn new(
        conn: Connection,
        redactor: Redactor,
        tags: Vec<String>,
        cache_bytes: usize,
    ) -> rusqlite::Result<Self> {
        // A killed process left these exchanges open, and their end will never come.
        let sql = "UPDATE exchanges SET ended = seq, partial = 1 WHERE ended IS NULL";
        conn.execute(sql, [])?;
        Ok(Self {
            conn,
            chunk_store: ChunkStore::new(redactor, cache_bytes),
            models: HeaderModels::default(),
            tags,
            last: (0, 0),
            open: HashMap::default(),
            touched: Vec::new(),
            unended: HashSet::new(),
            partial: HashMap::new(),
            side_titles: HashSet::new(),
        })
    }

    /// Begins a transaction.
    pub(super) fn begin_writing(&mut self) -> rusqlite::Result<()> {
        // Takes the write lock at once: upgrading a read lock later could fail with `SQLITE_BUSY` despite the
        // timeout.
        run(&self.conn, "BEGIN IMMEDIATE", [])?;
        let sql = "SELECT (SELECT COALESCE(MAX(seq), 0) FROM exchanges), (SELECT COALESCE(MAX(ended), 0) FROM exchanges)";
        let mut ask = self.conn.prepare_cached(sql)?;
        self.last = ask.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(())
    }

    /// Marks an exchange whose end was lost, so that the next transaction ends its row.
    ///
    /// Meanwhile retention may delete the row although it is still open.
    ///
    /// The set is bounded, since the next transaction may be far off. A row beyond the bound stays open until
    /// the next start.
    pub(super) fn lose_end(&mut self, id: Arc<str>) {
        if self.unended.len() < MAX_LOST_ENDS {
            self.unended.insert(id);
        }
    }

    /// Skips a note, because there is no room for it or its transaction has failed.
    pub(super) fn skip(&mut self, note: &JournalNote) {
        match note {
            // Applied even now: without it the new secrets would be written in clear text.
            JournalNote::Redact(redactor) => self.chunk_store.redactor = (**redactor).clone(),
            JournalNote::Begin(begun) => self.note_partial(begun.id.as_str().into(), true),
            note => self.lost(note.exchange(), matches!(note, JournalNote::End { .. })),
        }
    }

    fn note_partial(&mut self, id: Arc<str>, is_beginning: bool) {
        if self.partial.len() >= MAX_PARTIAL {
            self.partial.clear();
        }
        *self.partial.entry(id).or_default() |= is_beginning;
    }

    /// Records that a note of this exchange panicked, was skipped or was rolled back.
    ///
    /// If the beginning was lost as well, there is no row to end.
    pub(super) fn lost(&mut self, id: Option<Arc<str>>, is_end: bool) {
        let Some(id) = id else { return };
        if !is_end {
            self.note_partial(id, false);
        } else if self.partial.remove(&id) != Some(true) {
            self.lose_end(id);
        }
    }

    /// Ends the rows whose end was lost, and commits. Exchanges without a row yet are retried in the next
    /// transaction.
    pub(super) fn settle(&mut self) -> rusqlite::Result<()> {
        let mut end = self
            .conn
            .prepare_cached("UPDATE exchanges SET ended = ?2, partial = 1 WHERE id = ?1 AND ended IS NULL")?;
        let mut ended = Vec::new();
        for id in &self.unended {
            self.last.1 += 1;
            if end.execute(params![id, self.last.1])? > 0 {
                ended.push(Arc::clone(id));
            }
        }
        drop(end);
        for (_, mut open) in self.open.drain() {
            open.write(&self.conn)?;
        }
        self.chunk_store.settle(&self.conn)?;
        run(&self.conn, "COMMIT", [])?;
        for id in &ended {
            self.unended.remove(id);
        }
        self.touched.clear();
        Ok(())
    }

    /// Handles a rollback: caches may refer to rows that do not exist, and the exchanges are partial.
    pub(super) fn rolled_back(&mut self) {
        self.chunk_store.forget();
        self.models.forget();
        self.open.clear();
        for (id, is_end) in std::mem::take(&mut self.touched) {
            self.lost(Some(id), is_end);
        }
    }

    /// Removes deleted rows from the caches.
    pub(super) fn collected(&mut self, nodes: &[i64], chunks: &[i64]) {
        if !(nodes.is_empty() && chunks.is_empty()) {
            self.chunk_store.collected(nodes, chunks);
            self.models.collected(chunks);
        }
    }
}
