//! Ledger of a session, a day or a directory: the amounts spent and granted there, and stops.
//!
//! A ledger is part of a conversation's record, so that every store changes it atomically and shares it with
//! all processes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum number of ids kept of applied entries; the oldest is dropped first. A write that is repeated later
/// than that would count twice.
const APPLIED_KEPT: usize = 64;

/// Maximum number of loops that the user let pass; the oldest is dropped first, and stops the agent again.
const PASSED_KEPT: usize = 16;

/// Amounts that a budget limits. As limits, zero means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Millionths of a US dollar.
    pub microdollars: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Model calls.
    pub calls: u64,
    /// Milliseconds.
    pub millis: u64,
}

impl Amounts {
    /// Adds amounts; a sum that is too large stays at the largest number.
    pub fn add(&mut self, more: &Self) {
        self.microdollars = self.microdollars.saturating_add(more.microdollars);
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.calls = self.calls.saturating_add(more.calls);
        self.millis = self.millis.saturating_add(more.millis);
    }
}

/// A repeated call: its fingerprint, and how often it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopMark {
    pub key: u64,
    pub count: u32,
}

/// Amounts spent and granted, and stops.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    pub spent: Amounts,
    /// Amounts that the user granted beyond the limits.
    pub granted: Amounts,
    /// Model calls without a known price.
    pub unpriced: u64,
    /// Number of grants.
    pub grants: u32,
    /// Number of grants when the model was last told, plus one; 0 if it never was. A later grant allows another
    /// notice.
    pub told: u32,
    /// The loop that the agent was stopped at.
    pub stopped_at: Option<LoopMark>,
    /// Loops that the user let pass.
    pub passed: Vec<LoopMark>,
    /// Whether the user stopped the session.
    pub halted: bool,
    /// Hash of the newest request of the agent's own work that had a complete response.
    pub request: u64,
    /// Number of complete responses in a row to that request.
    pub repeats: u32,
    /// End of the time that is counted, in milliseconds since the Unix epoch.
    pub last_ms: u64,
    /// Ids of the newest applied entries, which a repeated write must not apply again.
    applied: Vec<Uuid>,
}

/// An entry of a ledger. Its id makes a repeated write harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    pub id: Uuid,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub kind: EntryKind,
}

/// Event that an entry records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A request arrived. The time since the last entry counts if it continues the agent's own work.
    Began { continues: bool },
    /// An exchange ended.
    Spent {
        amounts: Amounts,
        unpriced: u64,
        /// Hash of its request, if that continued the agent's own work and the response is complete.
        request: Option<u64>,
    },
    /// The model was told that little is left.
    Told,
    /// The user granted more, and lets a loop pass that the agent was stopped at.
    Granted(Amounts),
    /// The agent was stopped at a loop.
    StoppedAt(LoopMark),
    /// The user stopped the session.
    Halted,
}

impl Ledger {
    /// Applies an entry; idempotent.
    pub(super) fn apply(&mut self, entry: &LedgerEntry) {
        if self.applied.contains(&entry.id) {
            return;
        }
        self.applied.push(entry.id);
        let more = self.applied.len().saturating_sub(APPLIED_KEPT);
        self.applied.drain(..more);
        match &entry.kind {
            EntryKind::Began { continues } => self.time(entry.at_ms, *continues),
            EntryKind::Spent {
                amounts,
                unpriced,
                request,
            } => {
                self.spent.add(amounts);
                self.unpriced = self.unpriced.saturating_add(*unpriced);
                self.time(entry.at_ms, true);
                if let Some(request) = *request {
                    let is_same = request == self.request;
                    self.repeats = if is_same {
                        self.repeats.saturating_add(1)
                    } else {
                        1
                    };
                    self.request = request;
                }
            }
            EntryKind::Told => self.told = self.grants.saturating_add(1),
            EntryKind::Granted(amounts) => self.grant(amounts),
            EntryKind::StoppedAt(mark) => self.stopped_at = Some(*mark),
            EntryKind::Halted => self.halted = true,
        }
    }

    /// Counts the time since the last entry. The time before a user's message is not the agent's.
    fn time(&mut self, at_ms: u64, counts: bool) {
        // Clocks of replicas differ, so the time never goes backward.
        if counts && self.last_ms > 0 {
            let since = at_ms.saturating_sub(self.last_ms);
            self.spent.millis = self.spent.millis.saturating_add(since);
        }
        self.last_ms = self.last_ms.max(at_ms);
    }

    fn grant(&mut self, amounts: &Amounts) {
        self.granted.add(amounts);
        self.grants = self.grants.saturating_add(1);
        // A grant lifts the stop of the user, of a loop and of a repeated request as well.
        self.halted = false;
        self.repeats = 0;
        if let Some(mark) = self.stopped_at.take() {
            self.passed.retain(|passed| passed.key != mark.key);
            self.passed.push(mark);
            let more = self.passed.len().saturating_sub(PASSED_KEPT);
            self.passed.drain(..more);
        }
    }
}
