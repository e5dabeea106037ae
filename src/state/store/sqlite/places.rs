//! An index in memory of the anchors of hidden pairs and insertions, so that most requests need no SQL.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use rusqlite::Connection;

use super::rows;
use crate::store::records::PlacedKind;

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
