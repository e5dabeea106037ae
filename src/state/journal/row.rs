//! A summary of an exchange, as lists, the API and `--json` show it. The names are API.

use serde::Serialize;

use super::answer_summary::AnswerSummary;
use crate::state::telemetry::{ExchangeFacts, UsageTokens};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::record::HandoffId;
use baton_core::rewrite::{ChangeReason, SizeChange};

/// The row of an exchange.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExchangeRow {
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
    /// What its event says.
    #[serde(flatten)]
    pub event: ExchangeFacts,
    /// Upstream requests, retries among them.
    pub legs: usize,
    /// A summary of the last answer; none where nothing was kept.
    pub answer: Option<AnswerSummary>,
    /// The first line of the person's text, where the agent's request ends with one.
    pub user_line: Option<String>,
    /// Bytes of the agent's request besides its messages: the system prompt and the tools, where they are there.
    pub fixed_bytes: u64,
    /// Messages in the agent's request.
    pub received_messages: u64,
    /// Messages in each leg's request.
    pub sent_messages: Vec<u64>,
    /// Upstream's status for each leg; none where it gave no answer.
    pub statuses: Vec<Option<u16>>,
    /// The tokens of all legs together; none where upstream reported none.
    pub tokens_sum: Option<UsageTokens>,
    /// *Estimated input not sent*, net: tokens of the agent's request less those of everything sent for it, four bytes to the
    /// token. Negative where more was sent.
    pub unsent_tokens: i64,
    /// The changes, by leg and reason.
    pub changes: Vec<LegChange>,
    /// Whether a copy was dropped because the journal's queue was full, or the process ended before the exchange.
    pub partial: bool,
    /// Whether it is still under way.
    pub open: bool,
}

/// The changes of one reason in one leg's request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LegChange {
    /// The leg, from 0.
    pub leg: u32,
    /// The reason.
    pub why: ChangeReason,
    /// Bytes that went.
    pub removed: usize,
    /// Bytes that came.
    pub added: usize,
    /// The handoff that a cut is at.
    pub handoff: Option<HandoffId>,
}

impl ExchangeRow {
    /// Whether it has failed.
    pub fn failed(&self) -> bool {
        !self.open && has_failed(&self.event)
    }

    /// Tokens of the model's context by its last answer to the agent; `None` where upstream reported none.
    pub fn context_tokens(&self) -> Option<u64> {
        self.event.context_tokens()
    }
}

impl LegChange {
    pub(super) fn of(leg: u32, change: SizeChange) -> Self {
        Self {
            leg,
            why: change.why,
            removed: change.removed,
            added: change.added,
            handoff: change.handoff,
        }
    }
}

/// A leg's tokens from its stored usage. Zeros alone mean that upstream reported none.
pub(super) fn reported(usage: Option<&str>) -> Option<UsageTokens> {
    let tokens = serde_json::from_str(usage?).ok()?;
    (tokens != UsageTokens::default()).then_some(tokens)
}

/// Estimated input that was not sent, net: the agent's request, as far as a window of `window` tokens takes it, less all that
/// was sent upstream for it. Negative where more was sent than received; zero where nothing was.
pub(super) fn unsent_tokens(received: u64, window: Option<u64>, legs: impl Iterator<Item = u64>) -> i64 {
    let tokens = |bytes: u64| i64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
    let (sent, count) = legs.fold((0_u64, 0), |(sum, count), bytes| {
        (sum.saturating_add(bytes), count + 1)
    });
    if count == 0 {
        return 0;
    }
    let sendable =
        tokens(received).min(window.map_or(i64::MAX, |window| i64::try_from(window).unwrap_or(i64::MAX)));
    sendable.saturating_sub(tokens(sent))
}

/// Whether an exchange with this status and outcome has failed.
pub(super) fn has_failed(facts: &ExchangeFacts) -> bool {
    facts.status >= 400 || facts.outcome.has_failed()
}
