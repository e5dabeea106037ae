//! What conversations used last, within a bound of memory.

use std::sync::{Mutex, MutexGuard};

use crate::state::sync::locked;

/// The values, in the order of their last use. One that is in use is not in here: who asks at the same time makes another.
#[derive(Debug)]
pub(super) struct LastUsed<T> {
    most: usize,
    kept: Mutex<Vec<IdleValue<T>>>,
}

/// A value that waits for its next use.
#[derive(Debug)]
pub(super) struct IdleValue<T> {
    pub(super) conversation: String,
    pub(super) bytes: usize,
    value: T,
}

impl<T> LastUsed<T> {
    /// Keeps at most so many bytes.
    pub(super) fn within(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<IdleValue<T>>> {
        locked(&self.kept)
    }

    /// Takes the value of a conversation out.
    pub(super) fn take(&self, conversation: &str) -> Option<T> {
        let mut kept = self.lock();
        let at = kept.iter().position(|one| one.conversation == conversation)?;
        Some(kept.remove(at).value)
    }

    /// Keeps the value of a conversation, which takes so many bytes, and drops the oldest beyond the bound.
    pub(super) fn keep(&self, conversation: String, bytes: usize, value: T) {
        let gone: Vec<_> = {
            let mut kept = self.lock();
            // Another one of the conversation may have been in use at the same time.
            kept.retain(|other| other.conversation != conversation);
            kept.push(IdleValue {
                conversation,
                bytes,
                value,
            });
            let mut sum: usize = kept.iter().map(|one| one.bytes).sum();
            let over = kept.iter().take_while(|one| {
                let over = sum > self.most;
                sum -= one.bytes.min(sum);
                over
            });
            let over = over.count();
            kept.drain(..over).collect()
        };
        // Outside of the lock: an index is many small allocations.
        drop(gone);
    }
}
