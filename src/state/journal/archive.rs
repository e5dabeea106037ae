//! The exchanges that are being written, and the transactions that write them. The journal's thread owns it; none of it
//! runs on the async runtime.
//!
//! All notes of one transaction are merged into pending rows first (`archive_notes`), and each row is written once, at the
//! transaction's end.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use rusqlite::{Connection, params};

use super::chunk_store::ChunkStore;
use super::headers::HeaderModels;
use super::note::JournalNote;
use super::pending_row::{PendingLeg, PendingRow, RowWriter};
use super::queue::MOST_LOST_ENDS;
use super::titles::TitleWriter;
use baton_core::redact::Redactor;
use baton_core::wire::{Operation, Wire};

/// Open exchanges that are kept in memory. The proxy never has so many at once: more of them mean that ends were lost.
pub(super) const MOST_OPEN: usize = 8192;

/// Writes notes to the file.
pub(super) struct Archive {
    pub(super) conn: Connection,
    pub(super) chunk_store: ChunkStore,
    pub(super) models: HeaderModels,
    pub(super) open: HashMap<Arc<str>, PendingExchange, RandomState>,
    /// Exchanges with changes that are not written yet.
    pub(super) changed: Vec<Arc<str>>,
    /// Whether open exchanges were dropped from memory: an end may then belong to a row that is in the file already.
    pub(super) forgot: bool,
    pub(super) titles: TitleWriter,
    /// Numbers of the newest row and of the latest end.
    pub(super) last: (i64, i64),
    /// Exchanges that have ended and whose row is still marked as open.
    pub(super) unended: Vec<String>,
    /// Exchanges whose first note was lost: their rows are marked as partial.
    pub(super) odd: HashSet<Arc<str>>,
}

/// An exchange that has not ended.
pub(super) struct PendingExchange {
    pub(super) id: Arc<str>,
    pub(super) row: PendingRow,
    pub(super) legs: Vec<PendingLeg>,
    pub(super) wire: &'static dyn Wire,
    pub(super) operation: Operation,
    pub(super) changed: bool,
}

impl Archive {
    pub(super) fn new(
        conn: Connection,
        redactor: Redactor,
        tags: Vec<String>,
        cache_bytes: usize,
    ) -> rusqlite::Result<Self> {
        // Exchanges that a killed process left open never get an end.
        conn.execute(
            "UPDATE exchanges SET ended = seq, partial = 1 WHERE ended IS NULL",
            [],
        )?;
        Ok(Self {
            conn,
            chunk_store: ChunkStore::new(redactor, cache_bytes),
            models: HeaderModels::default(),
            open: HashMap::default(),
            changed: Vec::new(),
            forgot: false,
            titles: TitleWriter::new(tags),
            last: (0, 0),
            unended: Vec::new(),
            odd: HashSet::new(),
        })
    }

    /// Begins a transaction.
    pub(super) fn begin_writing(&mut self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.last = self
            .conn
            .prepare_cached(
                "SELECT (SELECT COALESCE(MAX(seq), 0) FROM exchanges), (SELECT COALESCE(MAX(ended), 0) FROM exchanges)",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(())
    }

    /// Ends the rows whose end was lost. Call it inside a transaction.
    fn end_lost(&mut self) -> rusqlite::Result<()> {
        // The list is cleared when the transaction is committed.
        for i in 0..self.unended.len() {
            let id = self.unended[i].clone();
            self.last.1 += 1;
            let ended = self.last.1;
            if let Some(open) = self.change(&id) {
                (open.row.partial, open.row.ended) = (true, Some(ended));
                continue;
            }
            self.conn
                .prepare_cached(
                    "UPDATE exchanges SET ended = ?2, partial = 1 WHERE id = ?1 AND ended IS NULL",
                )?
                .execute(params![id, self.last.1])?;
        }
        Ok(())
    }

    /// No end will come for these exchanges.
    ///
    /// Stops counting these exchanges as open, so that retention may delete their rows. Call it between transactions,
    /// when all that is known of them has been written.
    pub(super) fn lose_ends(&mut self, ids: Vec<String>) {
        for id in ids {
            self.open.remove(id.as_str());
            // Unknown ones as well: their first note may still be in the queue.
            self.reopen_exchange(id);
        }
    }

    /// Ends the row in the next transaction. The list is bounded, since the next transaction may be far off; a row beyond the
    /// bound stays marked as open until retention deletes it.
    fn reopen_exchange(&mut self, id: String) {
        if self.unended.len() < MOST_LOST_ENDS {
            self.unended.push(id);
        }
    }

    /// Skips a note: there is no room for it, or its transaction has failed already.
    pub(super) fn skip(&mut self, note: &JournalNote) {
        match note {
            JournalNote::End { event, .. } => {
                self.odd.remove(event.id.as_str());
                // An exchange without a row needs no end.
                if self.open.remove(event.id.as_str()).is_some() || self.forgot {
                    self.reopen_exchange(event.id.clone());
                }
            }
            JournalNote::Begin(begun) => self.note_oddity(Some(begun.id.as_str().into())),
            JournalNote::Flush(_) => {}
            // Applied in any case: without it a secret would be written.
            JournalNote::Redact(redactor) => self.chunk_store.redactor = (**redactor).clone(),
            JournalNote::Sent { id, .. }
            | JournalNote::Answered { id, .. }
            | JournalNote::Received { id, .. }
            | JournalNote::Counted { id, .. }
            | JournalNote::Shown { id, .. } => {
                if let Some(open) = self.open.get_mut(id) {
                    open.row.partial = true;
                }
            }
        }
    }

    /// Marks the exchange as partial: one of its notes panicked or was skipped.
    pub(super) fn note_oddity(&mut self, id: Option<Arc<str>>) {
        let Some(id) = id else { return };
        match self.open.get_mut(&id) {
            Some(open) => open.row.partial = true,
            None => {
                if self.odd.len() >= MOST_OPEN {
                    self.odd.clear();
                }
                self.odd.insert(id);
            }
        }
    }

    /// How many exchanges are open.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Writes all changed rows and commits the transaction.
    pub(super) fn settle(&mut self) -> rusqlite::Result<()> {
        self.end_lost()?;
        self.write_changed()?;
        for id in self.changed.drain(..) {
            if let Entry::Occupied(mut open) = self.open.entry(id) {
                open.get_mut().changed = false;
                if open.get().row.ended.is_some() {
                    open.remove();
                }
            }
        }
        self.chunk_store.settle(&self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.unended.clear();
        Ok(())
    }

    /// Writes all changed rows, without ending the transaction.
    pub(super) fn write_changed(&mut self) -> rusqlite::Result<()> {
        let mut rows = RowWriter::new(&self.conn)?;
        for id in &self.changed {
            let Some(open) = self.open.get_mut(id) else {
                continue;
            };
            rows.exchange(&open.row)?;
            for leg in open.legs.iter_mut().filter(|leg| leg.changed) {
                rows.leg(open.row.seq, leg)?;
                leg.changed = false;
            }
        }
        Ok(())
    }

    /// The transaction was rolled back: caches may name rows that are not there, and open exchanges are partial.
    pub(super) fn rolled_back(&mut self) {
        self.chunk_store.forget();
        self.models.forget();
        self.titles.forget();
        self.lose_open();
    }

    /// Forgets deleted rows.
    pub(super) fn collected(&mut self, nodes: &[i64], chunks: &[i64]) {
        self.titles.forget();
        if !(nodes.is_empty() && chunks.is_empty()) {
            self.chunk_store.collected(nodes, chunks);
            self.models.collected(chunks);
        }
    }

    pub(super) fn lose_open(&mut self) {
        for (id, open) in std::mem::take(&mut self.open) {
            match open.row.ended {
                Some(_) => self.reopen_exchange(id.to_string()),
                // Its row may have been rolled back.
                None => self.note_oddity(Some(id)),
            }
        }
        self.changed.clear();
        self.forgot = true;
    }

    /// The open exchange of this id, marked as changed.
    pub(super) fn change(&mut self, id: &str) -> Option<&mut PendingExchange> {
        let open = self.open.get_mut(id)?;
        if !std::mem::replace(&mut open.changed, true) {
            self.changed.push(Arc::clone(&open.id));
        }
        Some(open)
    }

    /// Whether this exchange is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }
}
