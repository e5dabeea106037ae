//! Which calls have hidden pairs beside them: an index in memory, so that most requests need no SQL.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use rusqlite::Connection;

use super::rows;
use crate::record::HiddenPair;

/// The siblings that have pairs, as hashes of eight bytes. A collision costs one look-up.
pub(super) struct Siblings {
    hasher: RandomState,
    known: RwLock<HashSet<u64>>,
}

impl Siblings {
    /// Reads all of them.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let hasher = RandomState::new();
        let mut known = HashSet::new();
        rows::siblings(conn, |principal, sibling| {
            known.insert(hasher.hash_one((principal.as_str(), sibling.as_str())));
        })?;
        let known = RwLock::new(known);
        Ok(Self { hasher, known })
    }

    /// Adds the siblings of new pairs.
    pub(super) fn add(&self, pairs: &[HiddenPair]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for pair in pairs {
            if let Some(sibling) = pair.place.key() {
                known.insert(self.hasher.hash_one((pair.principal.as_str(), sibling)));
            }
        }
    }

    /// The siblings among these that may have pairs.
    pub(super) fn hits(&self, principal: &str, siblings: &[String]) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let hit = |sibling: &&String| known.contains(&self.hasher.hash_one((principal, sibling.as_str())));
        siblings.iter().filter(hit).cloned().collect()
    }
}
