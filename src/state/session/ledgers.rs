//! Ledgers of sessions, days and directories: entries that are written at once, or soon.
//!
//! An entry that was not written yet is written with the next one of its ledger, so a process always reads what it
//! has entered itself. Ids of entries make it harmless if one is written twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Sessions;
use crate::store::StoreResult;
use crate::sync::locked;
use baton_core::record::{Conversation, Ledger, LedgerEntry, RecordChange, Update};

/// Maximum number of entries of a ledger that wait for the store; the oldest is dropped first.
const MAX_WAITING: usize = 1024;

/// Entries that the store does not have yet, by the key of their ledger.
#[derive(Default)]
pub(super) struct WaitingEntries(Mutex<HashMap<String, Vec<LedgerEntry>>>);

impl WaitingEntries {
    fn add(&self, key: &str, entry: LedgerEntry) {
        let mut all = locked(&self.0);
        let waiting = all.entry(key.to_owned()).or_default();
        waiting.push(entry);
        let more = waiting.len().saturating_sub(MAX_WAITING);
        waiting.drain(..more);
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
    /// Writes an entry of a ledger, and returns the ledger as every process sees it.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The entry is written with the next one.
    pub async fn enter(&self, principal: &str, key: &str, entry: LedgerEntry) -> StoreResult<Ledger> {
        let now_ms = entry.at_ms;
        self.waiting.add(key, entry);
        self.write_waiting(principal, key, now_ms).await
    }

    /// Writes an entry of a ledger in the background. Call it within the runtime.
    pub fn enter_soon(self: &Arc<Self>, principal: &str, key: &str, entry: LedgerEntry) {
        let now_ms = entry.at_ms;
        // Requests from now on know it, even before it is written.
        self.waiting.add(key, entry);
        let (sessions, principal, key) = (Arc::clone(self), principal.to_owned(), key.to_owned());
        tokio::spawn(async move {
            if let Err(error) = sessions.write_waiting(&principal, &key, now_ms).await {
                tracing::warn!(%error, "failed to write an entry of a ledger; writing it with the next one");
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
