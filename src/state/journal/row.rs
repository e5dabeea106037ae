//! A summary of an exchange, as lists, the API and `--json` show it. The names are API.

use serde::{Deserialize, Serialize};

use super::answer_summary::AnswerSummary;
use crate::state::telemetry::{ExchangeEvent, UsageTokens, is_zero, millis};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::nudge::ShadowMoment;
use baton_core::record::HandoffId;
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::wire::ServedBy;

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
    /// The event's own fields.
    #[serde(flatten)]
    pub event: EventColumns,
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

/// The fields that come from the exchange's event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventColumns {
    /// Status sent to the agent.
    pub status: u16,
    /// `complete`, `cancelled`, `truncated`, `upstream_error`, `in_band_error`, `refused`; empty while under way.
    pub outcome: String,
    /// Whether the response was a stream.
    pub streamed: bool,
    /// Whether the tool was offered.
    pub tooled: bool,
    /// Why not: a name of [`baton_core::rewrite::untooled`].
    pub untooled: Option<String>,
    /// The handoff that it was pinned to.
    pub pinned: Option<String>,
    /// Whether the conversation was pinned before and this transcript holds no sentinel.
    pub unpinned: bool,
    /// Handoffs that fired in it.
    pub fired: Vec<String>,
    /// How many rules, to-dos and contradicted claims the prompts of its handoffs lacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacked: Option<u32>,
    /// Upstream requests, retries among them.
    pub legs: usize,
    /// Retries of later legs.
    pub retries: u32,
    /// The outcomes of the searches of what was cut.
    pub recalls: Vec<String>,
    /// Handoff calls that were refused.
    pub refused_calls: u32,
    /// Answers in which the model wrote a call of our tool as text.
    #[serde(skip_serializing_if = "is_none")]
    pub written_calls: u32,
    /// Model texts that were escaped.
    pub broken_up: u32,
    /// Blocks of thinking that upstream dropped from what the model saw, as far as it reports them.
    #[serde(skip_serializing_if = "is_none")]
    pub dropped_thinking: u32,
    /// The outcome of a retry without the thinking that upstream refused: `accepted`, `refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_retry: Option<String>,
    /// The outcome of notifying the model of its context use: `told`, `followed`, `not_written`, `auto_failed`,
    /// `large_cut`, `close_handoffs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nudges: Vec<String>,
    /// In its shadow: what would have been sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowMoment>,
    /// The outcome of undoing a handoff: `undone`, `taken_back`, `refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// Bytes of the agent's request.
    pub received_bytes: u64,
    /// Bytes of each leg's request.
    pub sent_bytes: Vec<u64>,
    /// Bytes of the response to the agent.
    pub response_bytes: u64,
    /// Usage of each leg; none of one that was not answered to its end, or for which upstream reported none.
    pub tokens: Vec<Option<UsageTokens>>,
    /// The model that answered each leg, and how it was served, as far as upstream says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<Option<ServedBy>>,
    /// Legs that baton sent on its own, as indexes: drafts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_legs: Vec<u32>,
    /// Bytes of the carry-over prompts that were written in it.
    #[serde(skip_serializing_if = "is_zero")]
    pub prompt_bytes: u64,
    /// Name and version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Id of the `baton run` that started the agent; none for subagents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The topic of its conversation's handoffs, where a person or the request names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Whether it was sent on a subscription, whose tokens have no price.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscription: bool,
    /// From the request's last byte to upstream's first.
    pub first_byte_ms: Option<f64>,
    /// From the request's first byte to the response's last.
    pub total_ms: f64,
    /// Our own time before the first leg.
    pub added_ms: f64,
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
        !self.open && has_failed(self.event.status, &self.event.outcome)
    }

    /// Tokens of the model's context by its last answer to the agent; `None` where upstream reported none.
    pub fn context_tokens(&self) -> Option<u64> {
        UsageTokens::of_context(&self.event.tokens, &self.event.own_legs)
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

impl EventColumns {
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
            lacked: event.lacked(),
            legs: event.sent_bytes.len(),
            retries: event.retries,
            recalls: names(&event.recalls, |outcome| outcome.name()),
            refused_calls: event.refused_calls,
            written_calls: event.written_calls,
            broken_up: event.broken_up,
            dropped_thinking: event.dropped_thinking.total(),
            thinking_retry: event.thinking_retry.map(|retry| retry.name().to_owned()),
            nudges: names(&event.nudges, |nudged| nudged.name()),
            shadow: event.shadow.clone(),
            undo: event.undo.map(|undo| undo.name().to_owned()),
            received_bytes: event.received_bytes,
            sent_bytes: event.sent_bytes.clone(),
            response_bytes: event.response_bytes,
            tokens: event.tokens.clone(),
            served: event.served.clone(),
            own_legs: event.draft_legs.clone(),
            prompt_bytes: event.handoffs.iter().map(|handoff| handoff.prompt_bytes).sum(),
            agent: event.agent.clone(),
            run: event.run.clone(),
            topic: event.topic.clone(),
            subscription: event.subscription,
            first_byte_ms: event.first_byte.map(millis),
            total_ms: millis(event.total),
            added_ms: millis(event.added),
        }
    }
}

fn names<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> Vec<String> {
    all.iter().map(|one| name(one).to_owned()).collect()
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

/// Whether an exchange with this status and outcome has failed. An agent that left has not.
pub(super) fn has_failed(status: u16, outcome: &str) -> bool {
    status >= 400 || !matches!(outcome, "" | "complete" | "cancelled")
}

/// Whether a count that most exchanges have none of is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(count: &u32) -> bool {
    *count == 0
}
