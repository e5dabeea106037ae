//! Texts of ours that a conversation's transcript has after its turns.

use std::sync::Arc;

use uuid::Uuid;

use super::TOUCH_AFTER_MS;
use baton_core::record::{Conversation, INSERTIONS_KEPT, Insertion};

/// The insertions that a conversation's record lists.
pub(super) struct Insertions {
    /// `None`: not read yet.
    all: Option<Vec<Arc<Insertion>>>,
    /// When the oldest of them was read from the store or written to it.
    read_ms: u64,
    /// Ids that were already reported as lost.
    reported: Vec<Uuid>,
    /// Whether the store was queried for those of a conversation that this one may be the copy of.
    copy_checked: bool,
}

impl Insertions {
    pub(super) fn of(record: &Conversation) -> Self {
        Self {
            all: record.insertions.is_empty().then(Vec::new),
            read_ms: 0,
            reported: Vec::new(),
            copy_checked: false,
        }
    }

    /// Another process changed the record: what it lists is read again.
    pub(super) fn follow(&mut self, record: &Conversation) {
        self.all = record.insertions.is_empty().then(Vec::new);
    }

    /// All of them, where they are known. What was read long ago is read again, which marks it as used.
    pub(super) fn known(&self, now_ms: u64) -> Option<&[Arc<Insertion>]> {
        let fresh = now_ms.saturating_sub(self.read_ms) <= TOUCH_AFTER_MS;
        self.all.as_deref().filter(|all| fresh || all.is_empty())
    }

    /// They were read from the store.
    pub(super) fn read(&mut self, found: Vec<Arc<Insertion>>, now_ms: u64) {
        self.all = Some(found);
        self.read_ms = now_ms;
    }

    /// These were written, or read where another conversation has them.
    pub(super) fn add(&mut self, new: &[Arc<Insertion>], now_ms: u64) {
        let Some(all) = &mut self.all else { return };
        if all.is_empty() {
            self.read_ms = now_ms;
        }
        all.retain(|old| new.iter().all(|insertion| insertion.id != old.id));
        all.extend(new.iter().cloned());
        all.drain(..all.len().saturating_sub(INSERTIONS_KEPT));
    }

    /// How many of these were not reported as lost before; the others have their place again.
    pub(super) fn newly_lost(&mut self, lost: &[Uuid]) -> usize {
        let new = lost.iter().filter(|id| !self.reported.contains(id)).count();
        if self.reported != lost {
            self.reported = lost.to_vec();
        }
        new
    }

    pub(super) fn is_copy_checked(&self) -> bool {
        self.copy_checked
    }

    pub(super) fn copy_checked(&mut self) {
        self.copy_checked = true;
    }
}
