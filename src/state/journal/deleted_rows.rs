//! Rows that retention has deleted, and that the caches may still name.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::references::CountedRow;

/// Deleted rows above which the caches are purged. A purge searches all entries of the caches, which takes milliseconds.
const MOST: usize = 16 * 1024;

/// Deleted rows since the last purge of the caches.
#[derive(Debug, Default)]
pub(super) struct DeletedRows(HashSet<CountedRow, RandomState>);

impl DeletedRows {
    /// Adds rows. Returns whether the caches are to be purged.
    pub(super) fn add(&mut self, nodes: &[i64], chunks: &[i64]) -> bool {
        self.0.extend(nodes.iter().copied().map(CountedRow::Node));
        self.0.extend(chunks.iter().copied().map(CountedRow::Chunk));
        self.0.len() > MOST
    }

    /// Whether this row is one of them.
    pub(super) fn contains(&self, row: CountedRow) -> bool {
        !self.0.is_empty() && self.0.contains(&row)
    }

    /// Whether this node, which a cache names, still exists.
    pub(super) fn node_exists(&self, id: i64) -> bool {
        !self.contains(CountedRow::Node(id))
    }

    /// Whether this chunk, which a cache names, still exists.
    pub(super) fn chunk_exists(&self, id: i64) -> bool {
        !self.contains(CountedRow::Chunk(id))
    }
}
