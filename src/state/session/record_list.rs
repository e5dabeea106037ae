//! Records that a conversation's record lists by id.
//!
//! These are hidden pairs since its cut, insertions after its turns, and cut points of handoffs whose
//! response the agent may have omitted.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::TOUCH_AFTER_MS;
use crate::store::records::Placed;

/// The listed records of one kind.
pub(super) struct RecordList<T> {
    /// The records, or `None` if they were not read yet.
    all: Option<Vec<Arc<T>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
}

impl<T: Placed> RecordList<T> {
    /// Creates the list of a record with these ids.
    pub(super) fn from_ids(ids: &[Uuid]) -> Self {
        Self {
            all: ids.is_empty().then(Vec::new),
            read_ms: 0,
        }
    }

    /// Returns all records if they were read recently.
    ///
    /// Old ones are read again, because reading marks records as used. Records adopted from another
    /// conversation would otherwise be swept.
    pub(super) fn known(&self, now_ms: u64) -> Option<&[Arc<T>]> {
        let fresh = now_ms.saturating_sub(self.read_ms) <= TOUCH_AFTER_MS;
        self.all.as_deref().filter(|all| fresh || all.is_empty())
    }

    /// Sets the records read from the store.
    pub(super) fn read(&mut self, found: Vec<Arc<T>>, now_ms: u64) {
        self.all = Some(found);
        self.read_ms = now_ms;
    }

    /// Adds records that were written, or that were read from another conversation.
    pub(super) fn add(&mut self, new: Vec<Arc<T>>, now_ms: u64) {
        // Not read yet: the first read will include the new records.
        let Some(all) = &mut self.all else { return };
        if all.is_empty() {
            self.read_ms = now_ms;
        }
        // A record that is written again replaces its earlier version.
        all.retain(|old| new.iter().all(|new| new.columns().id != old.columns().id));
        all.extend(new);
    }

    /// Removes all records but these.
    pub(super) fn keep(&mut self, ids: &[Uuid]) {
        let ids: HashSet<&Uuid> = ids.iter().collect();
        match &mut self.all {
            Some(all) => all.retain(|record| ids.contains(&record.columns().id)),
            None => self.all = ids.is_empty().then(Vec::new),
        }
    }
}
