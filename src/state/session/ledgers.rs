//! Ledgers of sessions, days and directories, from which the brake computes what is spent.
//!
//! An entry that could not be written is written again with the next one of its ledger, so a process always sees its
//! own entries. Every entry has an id, so writing one twice is harmless.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Sessions;
use crate::store::StoreResult;
use crate::sync::locked;
use baton_core::record::{Conversation, Ledger, LedgerEntry, RecordChange, Update};
use baton_core::text::newest;

/// Maximum number of unwritten entries of a ledger. The oldest is dropped first.
const MAX_WAITING: usize = 1024;

/// Unwritten entries, by the key of their ledger.
#[derive(Default)]
pub(super) struct WaitingEntries(Mutex<HashMap<String, Vec<LedgerEntry>>>);

impl WaitingEntries {
    fn add(&self, key: &str, entry: LedgerEntry) {
        let mut all = locked(&self.0);
        let waiting = all.entry(key.to_owned()).or_default();
        newest::push(waiting, MAX_WAITING, entry);
    }

    fn of(&self, key: &str) -> Vec<LedgerEntry> {
        locked(&self.0).get(key).cloned().unwrap_or_default()
    }

    fn written(&self, key: &str, entries: &[LedgerEntry]) {
        let mut all = locked(&self.0);
        if let Some(waiting) = all.get_mut(key) {
            waiting.retain(|one| entries.iter().all(|written| written.id != one.id));
            if waiting.is_empty() {
                all.remove(key);
            }
        }
    }
}

impl Sessions {
    /// Adds an entry to a ledger. Returns the ledger with the entries of all processes.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The next entry of the ledger then writes this one as well.
    pub async fn enter(&self, principal: &str, key: &str, entry: LedgerEntry) -> StoreResult<Ledger> {
        let now_ms = entry.at_ms;
        self.waiting.add(key, entry);
        self.write_waiting(principal, key, now_ms).await
    }

    /// Adds an entry to a ledger in the background. Call it within the runtime.
    pub fn enter_soon(self: &Arc<Self>, principal: &str, key: &str, entry: LedgerEntry) {
        let now_ms = entry.at_ms;
        // Added here and not in the task, so that a request that comes before the write counts it as well.
        self.waiting.add(key, entry);
        let (sessions, principal, key) = (Arc::clone(self), principal.to_owned(), key.to_owned());
        tokio::spawn(async move {
            if let Err(error) = sessions.write_waiting(&principal, &key, now_ms).await {
                tracing::warn!(%error, "failed to write an entry of a ledger; the next entry writes it as well");
            }
        });
    }

    async fn write_waiting(&self, principal: &str, key: &str, now_ms: u64) -> StoreResult<Ledger> {
        let entries = self.waiting.of(key);
        let update = Update {
            known: Conversation {
                key: key.to_owned(),
                principal: principal.to_owned(),
                created_ms: now_ms,
                ..Conversation::default()
            },
            changes: entries.iter().cloned().map(RecordChange::Ledger).collect(),
            now_ms,
        };
        let written = self.store.change(&update).await?;
        self.waiting.written(key, &entries);
        Ok(written.record.ledger.map(|ledger| *ledger).unwrap_or_default())
    }
}
