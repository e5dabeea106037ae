//! Records that a conversation's record lists: cut points of handoffs whose answer the agent may have left out of its transcript,
//! and texts of ours after its turns.

use std::sync::Arc;

use uuid::Uuid;

use super::TOUCH_AFTER_MS;
use baton_core::record::{CutPoint, INSERTIONS_KEPT, Insertion, LEFT_OUT_KEPT};

/// A kind of record that is listed.
pub(super) trait ListedRecord {
    /// Most that are listed; the oldest goes first.
    const KEPT: usize;
    fn id(&self) -> Uuid;
}

impl ListedRecord for CutPoint {
    const KEPT: usize = LEFT_OUT_KEPT;
    fn id(&self) -> Uuid {
        self.handoff
    }
}

impl ListedRecord for Insertion {
    const KEPT: usize = INSERTIONS_KEPT;
    fn id(&self) -> Uuid {
        self.id
    }
}

/// The listed records of one kind.
pub(super) struct Listed<T> {
    /// `None`: not read yet.
    all: Option<Vec<Arc<T>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
}

impl<T: ListedRecord> Listed<T> {
    /// Those of a record that lists these ids.
    pub(super) fn of(ids: &[Uuid]) -> Self {
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
    pub(super) fn add(&mut self, new: &[Arc<T>], now_ms: u64) {
        let Some(all) = &mut self.all else { return };
        if all.is_empty() {
            self.read_ms = now_ms;
        }
        all.retain(|old| new.iter().all(|new| new.id() != old.id()));
        all.extend(new.iter().cloned());
        all.drain(..all.len().saturating_sub(T::KEPT));
    }

    /// Those that the record lists no more are not examined again.
    pub(super) fn keep(&mut self, ids: &[Uuid]) {
        if let Some(all) = &mut self.all {
            all.retain(|record| ids.contains(&record.id()));
        }
    }
}
