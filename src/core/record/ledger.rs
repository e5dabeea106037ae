//! Ledger of a session, a day, a directory or a subscription: the amounts spent and granted there, and stops.
//!
//! A ledger is part of a conversation's record, so that every store changes it atomically and shares it with
//! all processes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::quota::UsageLimit;
use crate::text::newest;
use crate::text::units::is_zero;

/// Maximum number of ids kept of applied entries; the oldest is dropped first. A write that is repeated later
/// than that would count twice.
const APPLIED_KEPT: usize = 64;

/// Maximum number of loops that the user let pass; the oldest is dropped first, and stops the agent again.
const PASSED_KEPT: usize = 16;

/// Difference between two statements of the same reset. Codex computes it from the time that is left.
const RESET_JITTER_MS: u64 = 10 * 60_000;

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
    /// Share of a subscription's window, in hundredths of a percent.
    pub share: u64,
}

impl Amounts {
    /// These limits, and those of `all` in units that these leave open.
    #[must_use]
    pub fn or(self, all: &Self) -> Self {
        self.with_each(all, |own, all| if own > 0 { own } else { all })
    }

    /// Adds amounts; a sum that is too large stays at the largest number.
    pub fn add(&mut self, more: &Self) {
        *self = self.with_each(more, u64::saturating_add);
    }

    fn with_each(self, other: &Self, combined: fn(u64, u64) -> u64) -> Self {
        Self {
            microdollars: combined(self.microdollars, other.microdollars),
            tokens: combined(self.tokens, other.tokens),
            calls: combined(self.calls, other.calls),
            millis: combined(self.millis, other.millis),
            share: combined(self.share, other.share),
        }
    }
}

/// A window of a subscription, as the provider states its use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanWindow {
    pub name: String,
    /// Used share, in hundredths of a percent.
    pub used: u64,
    /// Time of the reset, in milliseconds since the Unix epoch.
    pub resets_ms: u64,
    /// Used share when the user granted as much again, which holds until the reset.
    #[serde(skip_serializing_if = "is_zero")]
    pub granted: u64,
}

impl PlanWindow {
    /// Returns the window of a limit; `None` if it is not a subscription's.
    pub fn from_limit(limit: &UsageLimit) -> Option<Self> {
        Some(Self {
            name: limit.window?.to_owned(),
            // A negative share becomes 0.
            used: (limit.used * 10_000.0).round() as u64,
            resets_ms: limit.resets_ms,
            granted: 0,
        })
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
    /// Open windows of a subscription, the one with the least left first. `spent.share` and `granted.share` are those
    /// of the first.
    pub windows: Vec<PlanWindow>,
    /// End of the provider's refusal of requests, in milliseconds since the Unix epoch.
    pub refused_until_ms: u64,
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
    /// The provider stated the use of these windows.
    Windows(Vec<PlanWindow>),
    /// The provider refused a request until this time, in milliseconds since the Unix epoch.
    Refused(u64),
}

impl Ledger {
    /// Applies an entry; idempotent.
    pub(super) fn apply(&mut self, entry: &LedgerEntry) {
        if self.applied.contains(&entry.id) {
            return;
        }
        newest::push(&mut self.applied, APPLIED_KEPT, entry.id);
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
            EntryKind::Windows(windows) => windows.iter().for_each(|window| self.window(window)),
            EntryKind::Refused(until_ms) => self.refused_until_ms = *until_ms,
        }
        self.settle(entry.at_ms);
    }

    /// Takes the newest statement of a window. A grant holds until the window's reset.
    fn window(&mut self, new: &PlanWindow) {
        let known = self.windows.iter().position(|window| window.name == new.name);
        let old = known.map(|at| self.windows.remove(at)).unwrap_or_default();
        let is_same = new.resets_ms <= old.resets_ms.saturating_add(RESET_JITTER_MS);
        self.windows.push(PlanWindow {
            granted: if is_same { old.granted } else { 0 },
            ..new.clone()
        });
    }

    /// Drops windows that have reset, and takes the shares of the one with the least left.
    fn settle(&mut self, now_ms: u64) {
        let before = self.windows.len();
        self.windows.retain(|window| window.resets_ms > now_ms);
        if self.windows.len() < before {
            // Allows another notice in the next window.
            self.told = 0;
        }
        self.windows
            .sort_by_key(|window| std::cmp::Reverse(window.used.saturating_sub(window.granted)));
        let first = self.windows.first();
        (self.spent.share, self.granted.share) = first.map_or((0, 0), |window| (window.used, window.granted));
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
        let is_used_up =
            |window: &&mut PlanWindow| window.used >= window.granted.saturating_add(amounts.share);
        // Several windows may be used up at once.
        for window in self.windows.iter_mut().filter(is_used_up) {
            window.granted = window.used;
        }
        self.grants = self.grants.saturating_add(1);
        // A grant lifts the stop of the user, of a loop and of a repeated request as well.
        self.halted = false;
        self.repeats = 0;
        if let Some(mark) = self.stopped_at.take() {
            self.passed.retain(|passed| passed.key != mark.key);
            newest::push(&mut self.passed, PASSED_KEPT, mark);
        }
    }
}
