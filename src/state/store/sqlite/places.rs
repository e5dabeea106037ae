//! An index in memory of the keys of hidden pairs and insertions: most requests need no SQL.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use rusqlite::Connection;

use super::rows;

/// The places that have a hidden pair or an insertion, as 64-bit hashes. A collision costs one look-up.
pub(super) struct PlaceSet {
    hasher: RandomState,
    known: RwLock<HashSet<u64>>,
}

impl PlaceSet {
    /// The siblings of all hidden pairs.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn of_pairs(conn: &Connection) -> rusqlite::Result<Self> {
        Self::load(|each| rows::siblings(conn, each))
    }

    /// The places of all insertions.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn of_insertions(conn: &Connection) -> rusqlite::Result<Self> {
        Self::load(|each| rows::places(conn, each))
    }

    fn load(
        read: impl FnOnce(&mut dyn FnMut(String, String)) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Self> {
        let hasher = RandomState::new();
        let mut known = HashSet::new();
        read(&mut |principal, place| {
            known.insert(hasher.hash_one((principal.as_str(), place.as_str())));
        })?;
        let known = RwLock::new(known);
        Ok(Self { hasher, known })
    }

    /// Adds places, each with its principal.
    pub(super) fn add<'a>(&self, places: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(places.map(|place| self.hasher.hash_one(place)));
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.is_empty()
    }

    /// The places that may have a record.
    pub(super) fn hits(&self, principal: &str, places: &[String]) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let hit = |place: &&String| known.contains(&self.hasher.hash_one((principal, place.as_str())));
        places.iter().filter(hit).cloned().collect()
    }
}
