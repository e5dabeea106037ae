//! Log lines, metrics and traces, all made from one event for each exchange.
//!
//! Field and metric names are API and asserted by tests: OpenTelemetry's GenAI names where they exist, `baton.*` and
//! `baton_*` otherwise. This module knows nothing of requests, stores or streams.

mod draft;
mod handoff;
mod leg_end;
mod line;
mod metrics;
mod models;
mod otlp;
pub mod prometheus;
mod series;
mod setup;
mod text_fields;
mod thinking_retry;

pub use draft::DraftEvent;
pub use handoff::HandoffEvent;
pub use leg_end::{LegEnd, ServerAddress};
pub(crate) use line::size;
pub use metrics::{Metrics, ModelPricing};
pub use otlp::Traces;
pub use setup::start;
pub use thinking_retry::ThinkingRetry;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::jobs::recalls::AnswerOutcome;
use baton_core::commands::UndoOutcome;
use baton_core::nudge::NudgeOutcome;
use baton_core::record::WireId;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::wire::wire;
use baton_core::wire::{DroppedThinking, ServedBy, StopReason, Usage};

/// Tokens of one leg or of a whole exchange, as the provider counted them. Whatever its wire calls input, here `input`,
/// `cache_read` and `cache_write` are the three parts of the whole input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTokens {
    /// Input tokens that no cache served (Anthropic's sense; OpenAI's total less the cached ones).
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Of these, tokens that are stored for the provider's long lifetime.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_long: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ExchangeOutcome {
    /// The response was sent to its end.
    #[default]
    Complete,
    /// The agent closed the connection.
    Cancelled,
    /// Upstream ended the response early.
    Truncated,
    /// Upstream answered with an error status, relayed.
    UpstreamError,
    /// Upstream answered with a success status and an error in the body: an error event, or an error reply.
    InBandError,
    /// The proxy answered with an error of its own.
    Refused,
}

impl ExchangeOutcome {
    /// The outcome of a response that was sent to its end, from how its last leg stopped.
    pub fn of_end(stop: StopReason) -> Self {
        match stop {
            StopReason::Error => Self::InBandError,
            _ => Self::Complete,
        }
    }

    /// The name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cancelled => "cancelled",
            Self::Truncated => "truncated",
            Self::UpstreamError => "upstream_error",
            Self::InBandError => "in_band_error",
            Self::Refused => "refused",
        }
    }
}

/// One agent request with its legs and its response. The log line, the metrics, the journal's row and the spans are made
/// from it.
#[derive(Debug, Clone, Default)]
pub struct ExchangeEvent {
    /// Id, as in `x-baton-exchange`.
    pub id: String,
    /// The wire; `None` for requests relayed without being read.
    pub wire: Option<WireId>,
    /// Name of the upstream.
    pub upstream: String,
    /// Method and path, without the query.
    pub route: String,
    /// Model as requested.
    pub model: Option<String>,
    /// Conversation key.
    pub conversation: Option<String>,
    /// The handoff the request was pinned to.
    pub pinned: Option<String>,
    /// Handoffs that fired in it.
    pub fired: Vec<String>,
    /// The handoff events of `fired`.
    pub handoffs: Vec<HandoffEvent>,
    /// Whether the conversation has an active handoff whose sentinel is missing in the transcript.
    pub unpinned: bool,
    /// Calls of the tool that searches what was cut, each by its outcome.
    pub recalls: Vec<AnswerOutcome>,
    /// Calls of our tool that were rejected with an error result, or dropped.
    pub refused_calls: u32,
    /// Answers in which the model wrote a call of our tool as text.
    pub written_calls: u32,
    /// Hidden pairs whose position in the transcript was not found any more.
    pub lost_pairs: u32,
    /// Texts of ours whose position in the transcript was not found any more.
    pub lost_insertions: u32,
    /// Blocks of thinking that upstream dropped from what the model saw, as far as it reports them.
    pub dropped_thinking: DroppedThinking,
    /// The outcome of a retry without the thinking that upstream refused.
    pub thinking_retry: Option<ThinkingRetry>,
    /// Sentinel-like texts of the model that were escaped.
    pub broken_up: u32,
    /// The outcome of notifying the model of its context use.
    pub nudges: Vec<NudgeOutcome>,
    /// The outcome of a requested undo.
    pub undo: Option<UndoOutcome>,
    /// Whether the tool was offered.
    pub tooled: bool,
    /// Why the tool was not offered, if the request carries a transcript.
    pub untooled: Option<ToolOmission>,
    /// Whether the response was a stream.
    pub streamed: bool,
    /// Status sent to the agent.
    pub status: u16,
    /// Request bytes received from the agent (decoded).
    pub received_bytes: u64,
    /// Request bytes sent upstream, by leg.
    pub sent_bytes: Vec<u64>,
    /// From the request's first byte to each leg's start.
    pub leg_starts: Vec<Duration>,
    /// Response bytes sent to the agent.
    pub response_bytes: u64,
    /// Usage by leg, indexed like `sent_bytes`; `None` for a leg that was not answered to its end. May be shorter.
    pub tokens: Vec<Option<UsageTokens>>,
    /// The model that answered each leg, indexed like `tokens`.
    pub served: Vec<Option<ServedBy>>,
    /// How each leg ended, indexed like `tokens`.
    pub ends: Vec<Option<LegEnd>>,
    /// Host and port of the upstream.
    pub server: Option<ServerAddress>,
    /// Name and version of the agent, the first word of its `user-agent`; bounded in length.
    pub agent: Option<String>,
    /// Id of the `baton run` that started the agent; none for subagents.
    pub run: Option<String>,
    /// The topic of its conversation's handoffs, where a person or the request names one.
    pub topic: Option<String>,
    /// Whether the request was sent on a subscription, whose tokens have no price.
    pub subscription: bool,
    /// Legs that requested the document of a handoff, as indexes of `sent_bytes`: what they cost is not the agent's
    /// doing.
    pub draft_legs: Vec<u32>,
    /// The methods that these legs belong to, by the names in the config.
    pub draft_methods: Vec<&'static str>,
    /// Tries to make the document of a handoff, in order.
    pub drafts: Vec<DraftEvent>,
    /// Retries of later legs.
    pub retries: u32,
    /// How it ended.
    pub outcome: ExchangeOutcome,
    /// When the request's first byte came, since the Unix epoch.
    pub started: Duration,
    /// From the request's last byte to the first response byte from upstream.
    pub first_byte: Option<Duration>,
    /// From the request's first byte to the response's last.
    pub total: Duration,
    /// Time spent in our own code before the first leg was sent.
    pub added: Duration,
}

impl ExchangeEvent {
    /// An event with what is known when a request arrives, everything else empty.
    pub fn new(id: impl Into<String>, upstream: impl Into<String>, route: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            upstream: upstream.into(),
            route: route.into(),
            ..Self::default()
        }
    }

    /// Records the usage of the leg sent last, the model that answered it, and how it ended.
    pub fn count_tokens(&mut self, tokens: UsageTokens, served: ServedBy, end: LegEnd) {
        let legs = self.sent_bytes.len().max(1);
        self.tokens.resize(legs, None);
        self.tokens[legs - 1] = Some(tokens);
        self.served.resize(legs, None);
        self.served[legs - 1] = Some(served);
        self.ends.resize(legs, None);
        self.ends[legs - 1] = Some(end);
    }

    /// Whether upstream reported the usage of any leg.
    pub fn has_tokens(&self) -> bool {
        self.tokens.iter().any(Option::is_some)
    }

    /// The tokens of all legs but drafts: the true cost of the agent's request.
    pub fn spent(&self) -> UsageTokens {
        self.sum(false)
    }

    /// How many rules, to-dos and contradicted claims the prompts of its handoffs lacked; `None` for none.
    pub fn lacked(&self) -> Option<u32> {
        let kinds = self.handoffs.iter().flat_map(|handoff| &handoff.lacked);
        let all: u32 = kinds.map(|(_, count)| count).sum();
        (all > 0).then_some(all)
    }

    /// The tokens of drafts.
    pub fn drafted(&self) -> UsageTokens {
        self.sum(true)
    }

    /// Tokens of the model's context by its last answer to the agent, with that answer; `None` where none was counted.
    pub fn context_tokens(&self) -> Option<u64> {
        UsageTokens::of_context(&self.tokens, &self.draft_legs)
    }

    fn sum(&self, drafts: bool) -> UsageTokens {
        let legs = (0u32..).zip(&self.tokens);
        let wanted = legs.filter(|(leg, _)| self.draft_legs.contains(leg) == drafts);
        UsageTokens::sum(wanted.filter_map(|(_, tokens)| *tokens)).unwrap_or_default()
    }

    /// Its tries to make the document of a handoff, as `method:outcome`.
    fn draft_names(&self) -> String {
        let names = self.drafts.iter();
        let names: Vec<_> = names
            .map(|draft| format!("{}:{}", draft.method, draft.outcome))
            .collect();
        names.join(",")
    }

    /// The tokens of each draft's leg, with its method; legs that were not answered to their end have none.
    pub(crate) fn tokens_by_method(&self) -> impl Iterator<Item = (&'static str, UsageTokens)> {
        let legs = self.draft_legs.iter().zip(&self.draft_methods);
        legs.filter_map(|(leg, method)| {
            let tokens = self.tokens.get(usize::try_from(*leg).ok()?).copied()??;
            Some((*method, tokens))
        })
    }

    /// Logs the exchange with all its fields.
    pub fn log(&self) {
        // Unknown usage is not logged: zero tokens would look like a free request.
        let spent = self.has_tokens().then(|| self.spent());
        let drafted = (!self.draft_legs.is_empty()).then(|| self.drafted());
        let (method, path) = self.route.split_once(' ').unwrap_or(("", &self.route));
        let model = self.model.as_deref().map(shortened);
        let sent: u64 = self.sent_bytes.iter().sum();
        tracing::info!(
            target: "baton",
            {
            baton.exchange = self.id,
            baton.wire = self.wire.map(WireId::name),
            baton.upstream = self.upstream,
            http.request.method = method,
            url.path = shortened(path),
            gen_ai.provider.name = self.wire.map(|id| wire(id).facts().provider),
            gen_ai.request.model = model,
            gen_ai.conversation.id = self.conversation,
            http.response.status_code = self.status,
            baton.outcome = self.outcome.name(),
            baton.streamed = self.streamed,
            baton.tooled = self.tooled,
            baton.untooled = self.untooled.map(ToolOmission::name),
            baton.pinned = self.pinned,
            baton.unpinned = self.unpinned.then_some(true),
            baton.fired = (!self.fired.is_empty()).then(|| self.fired.join(",")),
            baton.lacked = self.lacked(),
            baton.legs = self.sent_bytes.len(),
            baton.draft_legs = (!self.draft_legs.is_empty()).then_some(self.draft_legs.len()),
            baton.drafts = (!self.drafts.is_empty()).then(|| self.draft_names()),
            baton.draft_input_tokens = drafted.map(UsageTokens::all_input),
            baton.draft_output_tokens = drafted.map(|tokens| tokens.output),
            baton.retries = self.retries,
            baton.recalls = (!self.recalls.is_empty()).then(|| names(&self.recalls, |recall| recall.name())),
            baton.refused_calls = self.refused_calls,
            baton.written_calls = (self.written_calls > 0).then_some(self.written_calls),
            baton.lost_pairs = (self.lost_pairs > 0).then_some(self.lost_pairs),
            baton.lost_insertions = (self.lost_insertions > 0).then_some(self.lost_insertions),
            baton.dropped_thinking = self.dropped_thinking.some(),
            baton.thinking_retry = self.thinking_retry.map(ThinkingRetry::name),
            baton.broken_up = self.broken_up,
            baton.nudges = (!self.nudges.is_empty()).then(|| names(&self.nudges, |nudged| nudged.name())),
            baton.undo = self.undo.map(UndoOutcome::name),
            // OpenTelemetry includes cached tokens in the input.
            gen_ai.usage.input_tokens = spent.map(UsageTokens::all_input),
            gen_ai.usage.cache_read.input_tokens = spent.map(|tokens| tokens.cache_read),
            gen_ai.usage.cache_creation.input_tokens = spent.map(|tokens| tokens.cache_write),
            gen_ai.usage.output_tokens = spent.map(|tokens| tokens.output),
            baton.received_bytes = self.received_bytes,
            baton.sent_bytes = sent,
            baton.response_bytes = self.response_bytes,
            baton.first_byte_ms = self.first_byte.map(millis),
            baton.total_ms = millis(self.total),
            baton.added_ms = millis(self.added),
            },
            "exchange"
        );
    }
}

impl From<Usage> for UsageTokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cache_write_long: usage.cache_write_long,
            output: usage.output,
        }
    }
}

impl UsageTokens {
    /// All input tokens, cached ones included.
    pub fn all_input(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Tokens of the context of the last leg that has any and is not one of `own`: of its input and its output.
    pub(crate) fn of_context(legs: &[Option<Self>], own: &[u32]) -> Option<u64> {
        let of_agent = (0_u32..).zip(legs).filter(|(leg, _)| !own.contains(leg));
        let counted = of_agent.filter_map(|(_, tokens)| *tokens);
        let last = counted.filter(|tokens| *tokens != Self::default()).last()?;
        Some(last.all_input().saturating_add(last.output))
    }

    /// The sum of what is known of each leg; `None` where nothing is.
    pub(crate) fn sum(legs: impl Iterator<Item = Self>) -> Option<Self> {
        let add = u64::saturating_add;
        legs.reduce(|sum, leg| Self {
            input: add(sum.input, leg.input),
            cache_read: add(sum.cache_read, leg.cache_read),
            cache_write: add(sum.cache_write, leg.cache_write),
            cache_write_long: add(sum.cache_write_long, leg.cache_write_long),
            output: add(sum.output, leg.output),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Names of outcomes, separated by commas.
fn names<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(",")
}

/// The agent's text, bounded in length.
fn shortened(text: &str) -> &str {
    const CHARS: usize = 200;
    text.char_indices()
        .nth(CHARS)
        .map_or(text, |(end, _)| &text[..end])
}

pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
