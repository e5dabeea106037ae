//! Counts the references to nodes and chunks, so that unused rows can be deleted.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use rusqlite::Connection;

/// A row with a reference count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CountedRow {
    Node(i64),
    Chunk(i64),
}

/// Changes of reference counts that are not written yet.
#[derive(Default)]
pub(super) struct References(HashMap<CountedRow, i64, RandomState>);

impl References {
    /// Adds a reference.
    pub(super) fn add(&mut self, to: CountedRow) {
        // Node 0 is the empty chain and has no row.
        if to != CountedRow::Node(0) {
            *self.0.entry(to).or_default() += 1;
        }
    }

    /// Records a row that was inserted with one reference, which is still to be added.
    pub(super) fn made(&mut self, target: CountedRow) {
        // The first `add` cancels this, so a row with a single reference, the usual case, needs no update.
        self.0.insert(target, -1);
    }

    /// Discards all changes.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes all changes.
    pub(super) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut nodes = conn.prepare_cached("UPDATE nodes SET refs = refs + ?2 WHERE id = ?1")?;
        let mut chunks = conn.prepare_cached("UPDATE pieces SET refs = refs + ?2 WHERE id = ?1")?;
        for (to, more) in self.0.drain().filter(|(_, more)| *more != 0) {
            match to {
                CountedRow::Node(id) => nodes.execute([id, more])?,
                CountedRow::Chunk(id) => chunks.execute([id, more])?,
            };
        }
        Ok(())
    }
}
