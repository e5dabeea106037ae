//! An exchange in short, as lists, the API and `--json` show it. The names are API.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::handoff::plan::{Change, Why};
use crate::telemetry::{ExchangeEvent, Tokens};

/// What an exchange came to.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its id, as in `x-baton-exchange`.
    pub id: String,
    /// Key of its conversation.
    pub conversation: Option<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Its wire; none for what was relayed as it is.
    pub wire: Option<String>,
    /// Name of the upstream.
    pub upstream: Option<String>,
    /// Method and path.
    pub route: Option<String>,
    /// Model as requested.
    pub model: Option<String>,
    /// The event's own fields.
    #[serde(flatten)]
    pub event: Event,
    /// Messages in the agent's request.
    pub received_messages: u64,
    /// Messages in each leg's request.
    pub sent_messages: Vec<u64>,
    /// What was changed, by leg and reason.
    pub changes: Vec<LegChange>,
    /// Whether a copy was dropped because the journal's queue was full, or the process ended before the exchange.
    pub partial: bool,
    /// Whether it is still under way.
    pub open: bool,
}

/// The fields that come from the exchange's event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Status sent to the agent.
    pub status: u16,
    /// `complete`, `cancelled`, `truncated`, `upstream_error`, `in_band_error`, `refused`; empty while under way.
    pub outcome: String,
    /// Whether the response was a stream.
    pub streamed: bool,
    /// Whether the tool was offered.
    pub tooled: bool,
    /// Why not: a name of [`crate::handoff::untooled`].
    pub untooled: Option<String>,
    /// The handoff that it was pinned to.
    pub pinned: Option<String>,
    /// Whether the conversation was pinned before and this transcript holds no sentinel.
    pub unpinned: bool,
    /// Handoffs that fired in it.
    pub fired: Vec<String>,
    /// Upstream requests, retries among them.
    pub legs: usize,
    /// Retries of later legs.
    pub retries: u32,
    /// Handoff calls that were refused.
    pub refused_calls: u32,
    /// Model texts that were broken up.
    pub broken_up: u32,
    /// Bytes of the agent's request.
    pub received_bytes: u64,
    /// Bytes of each leg's request.
    pub sent_bytes: Vec<u64>,
    /// Bytes of the response to the agent.
    pub response_bytes: u64,
    /// Usage of each leg that came to its end.
    pub tokens: Vec<LegTokens>,
    /// From the request's last byte to upstream's first.
    pub first_byte_ms: Option<f64>,
    /// From the request's first byte to the response's last.
    pub total_ms: f64,
    /// Our own time before the first leg.
    pub added_ms: f64,
}

/// Tokens of one leg.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegTokens {
    /// Input that no cache served.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
}

/// What one reason changed in one leg's request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LegChange {
    /// The leg, from 0.
    pub leg: u32,
    /// The reason.
    pub why: Why,
    /// Bytes that went.
    pub removed: usize,
    /// Bytes that came.
    pub added: usize,
}

impl LegChange {
    pub(super) fn of(leg: u32, change: Change) -> Self {
        Self {
            leg,
            why: change.why,
            removed: change.removed,
            added: change.added,
        }
    }
}

impl Event {
    pub(super) fn of(event: &ExchangeEvent) -> Self {
        Self {
            status: event.status,
            outcome: event.outcome.name().to_owned(),
            streamed: event.streamed,
            tooled: event.tooled,
            untooled: event.untooled.map(|why| why.name().to_owned()),
            pinned: event.pinned.clone(),
            unpinned: event.unpinned,
            fired: event.fired.clone(),
            legs: event.sent_bytes.len(),
            retries: event.retries,
            refused_calls: event.refused_calls,
            broken_up: event.broken_up,
            received_bytes: event.received_bytes,
            sent_bytes: event.sent_bytes.clone(),
            response_bytes: event.response_bytes,
            tokens: event.tokens.iter().copied().map(LegTokens::of).collect(),
            first_byte_ms: event.first_byte.map(millis),
            total_ms: millis(event.total),
            added_ms: millis(event.added),
        }
    }
}

impl LegTokens {
    fn of(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            output: tokens.output,
        }
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
