//! Records that a conversation's record lists: hidden pairs since its cut, texts of ours after its turns,
//! and cut points of handoffs whose answer the agent may have left out.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::TOUCH_AFTER_MS;
use crate::store::records::Placed;

/// The listed records of one kind.
pub(super) struct RecordList<T> {
    /// `None`: not read yet.
    all: Option<Vec<Arc<T>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
}

impl<T: Placed> RecordList<T> {
    /// Those of a record that lists these ids.
    pub(super) fn from_ids(ids: &[Uuid]) -> Self {
        Self {
            all: ids.is_empty().then(Vec::new),
            read_ms: 0,
        }
    }

    /// All of them, where they are known. What was read long ago is read again: reading marks records as used, and those that
    /// were taken over from another conversation would be swept otherwise.
    pub(super) fn known(&self, now_ms: u64) -> Option<&[Arc<T>]> {
        let fresh = now_ms.saturating_sub(self.read_ms) <= TOUCH_AFTER_MS;
        self.all.as_deref().filter(|all| fresh || all.is_empty())
    }

    /// They were read from the store.
    pub(super) fn read(&mut self, found: Vec<Arc<T>>, now_ms: u64) {
        self.all = Some(found);
        self.read_ms = now_ms;
    }

    /// These were written, or read where another conversation has them.
    pub(super) fn add(&mut self, new: Vec<Arc<T>>, now_ms: u64) {
        let Some(all) = &mut self.all else { return };
        if all.is_empty() {
            self.read_ms = now_ms;
        }
        all.retain(|old| new.iter().all(|new| new.columns().id != old.columns().id));
        all.extend(new);
    }

    /// The record lists these ids alone.
    pub(super) fn keep(&mut self, ids: &[Uuid]) {
        let ids: HashSet<&Uuid> = ids.iter().collect();
        match &mut self.all {
            Some(all) => all.retain(|record| ids.contains(&record.columns().id)),
            None => self.all = ids.is_empty().then(Vec::new),
        }
    }
}
