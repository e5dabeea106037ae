//! Log lines, metrics and traces, all derived from one event per exchange.
//!
//! Field and metric names are part of the API and asserted by tests: OpenTelemetry's GenAI names if they
//! exist, otherwise `baton.*` and `baton_*`. This module does not depend on requests, stores or streams.

mod charge;
mod facts;
mod fields;
mod handoff;
mod line;
mod metrics;
mod models;
mod otlp;
mod parts;
pub mod prometheus;
mod series;
mod setup;

pub use charge::{BudgetUse, Charge, ProviderLimit};
pub use facts::ExchangeFacts;
pub(crate) use facts::{FACTS, Fact, FactValue, FilterKind, TextsOf, ValueOf};
pub use handoff::HandoffEvent;
pub use line::size;
pub use metrics::{Metrics, ModelPricing};
pub use otlp::{ParentSpan, Traces};
pub use parts::{DraftEvent, ExceededLimit, LegEnd, ServerAddress, ThinkingRetry};
pub use setup::start;

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::wire::{LegReport, StopReason, Usage};

baton_core::named! {
    /// How an exchange ended.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ExchangeOutcome {
        /// The response was sent to its end.
        #[default]
        Complete = "complete",
        /// The agent closed the connection.
        Cancelled = "cancelled",
        /// Upstream ended the response early.
        Truncated = "truncated",
        /// Upstream responded with an error status, which was relayed.
        UpstreamError = "upstream_error",
        /// Upstream responded with a success status and an error in the body: an error event or an error
        /// object.
        InBandError = "in_band_error",
        /// The proxy stopped, and its drain time was over.
        Stopped = "stopped",
        /// The proxy responded with its own error.
        Refused = "refused",
        /// The exchange has not ended.
        #[serde(rename = "")]
        Open = "",
    }
}

impl ExchangeOutcome {
    /// Every outcome of an ended exchange.
    pub const ENDS: &[Self] = Self::ALL.split_last().expect("it has variants").1;

    /// Returns the outcome of a response that was sent to its end, given how its last leg stopped.
    pub fn of_end(stop: StopReason) -> Self {
        match stop {
            StopReason::Error => Self::InBandError,
            _ => Self::Complete,
        }
    }

    /// Whether an exchange with this outcome failed. A disconnected agent is not a failure.
    pub fn has_failed(self) -> bool {
        !matches!(self, Self::Complete | Self::Cancelled | Self::Open)
    }
}

/// Redactor of model names. Built once: building compiles all its patterns.
static MODEL_REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// One agent request with its legs and its response. The source of the log line, the metrics, the journal's
/// row and the spans.
#[derive(Debug, Clone, Default)]
pub struct ExchangeEvent {
    /// Id of the exchange, as in `x-baton-exchange`.
    pub id: String,
    /// Wire of the request. `None` for requests relayed without parsing.
    pub wire: Option<WireId>,
    /// Name of the upstream.
    pub upstream: String,
    /// Method and path, without the query.
    pub route: String,
    /// Requested model.
    pub model: Option<String>,
    /// Key of the conversation.
    pub conversation: Option<String>,
    /// Host and port of the upstream.
    pub server: Option<ServerAddress>,
    /// Span of the request's sender, if it names one: the parent of the exchange's span.
    pub parent: Option<ParentSpan>,
    /// Address of the sender, for the log of a refusal only.
    pub sender: Option<IpAddr>,
    /// Facts at the end of the exchange.
    pub facts: ExchangeFacts,
    /// Events of the handoffs in `fired`.
    pub handoffs: Vec<HandoffEvent>,
    /// Time from the request's first byte to each leg's start.
    pub leg_starts: Vec<Duration>,
    /// How each leg ended, indexed like `tokens`.
    pub ends: Vec<Option<LegEnd>>,
    /// Method of each draft leg, by its name in the config.
    pub draft_methods: Vec<&'static str>,
    /// When the request's first byte arrived, since the Unix epoch.
    pub started: Duration,
    /// Ledgers that the exchange is charged to.
    pub charge: Option<Arc<Charge>>,
}

/// Dereferences to the facts, which make up most of an event.
impl Deref for ExchangeEvent {
    type Target = ExchangeFacts;

    fn deref(&self) -> &ExchangeFacts {
        &self.facts
    }
}

impl DerefMut for ExchangeEvent {
    fn deref_mut(&mut self) -> &mut ExchangeFacts {
        &mut self.facts
    }
}

impl ExchangeEvent {
    /// Creates an event with the values known when a request arrives. Everything else is empty.
    pub fn new(id: impl Into<String>, upstream: impl Into<String>, route: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            upstream: upstream.into(),
            route: route.into(),
            ..Self::default()
        }
    }

    /// Records how the leg sent last ended, its usage, and the model that responded.
    pub fn count_leg(&mut self, leg: &LegReport) {
        let Self { facts, ends, .. } = self;
        let legs = facts.sent_bytes.len().max(1);
        // Earlier legs without a report stay `None`.
        facts.tokens.resize(legs, None);
        facts.tokens[legs - 1] = Some(leg.usage);
        facts.served.resize(legs, None);
        // Upstream repeats the model name of the request, which may be a key by mistake.
        let mut served = leg.served.clone();
        if let Cow::Owned(clean) = MODEL_REDACTOR.text(&served.model) {
            served.model = clean;
        }
        facts.served[legs - 1] = Some(served);
        ends.resize(legs, None);
        ends[legs - 1] = Some(LegEnd {
            id: leg.id.clone(),
            stop: leg.stop,
        });
        facts.escaped_sentinels += u32::try_from(leg.escaped_sentinels).unwrap_or_default();
        facts.dropped_thinking += leg.dropped_thinking.total();
        facts.dropped_for_prefix += leg.dropped_thinking.prefix;
    }

    /// Records a handoff that was written in this exchange.
    pub fn handed_over(&mut self, handoff: HandoffEvent) {
        self.fired.push(handoff.id.clone());
        self.prompt_bytes += handoff.prompt_bytes;
        self.missing_items += handoff.missing_items.values().sum::<u32>();
        self.relookups += handoff.relookups.unwrap_or_default();
        self.handoffs.push(handoff);
    }

    /// Returns the time from the request's first byte to the response's last byte.
    pub fn total(&self) -> Duration {
        Duration::from_secs_f64(self.total_ms / 1000.0)
    }

    /// Returns the tokens of each draft leg, with its method. Incomplete legs are omitted.
    pub(crate) fn tokens_by_method(&self) -> impl Iterator<Item = (&'static str, Usage)> {
        let legs = self.draft_legs.iter().zip(&self.draft_methods);
        legs.filter_map(|(leg, method)| {
            let tokens = self.tokens.get(usize::try_from(*leg).ok()?).copied()??;
            Some((*method, tokens))
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a count is zero, to omit facts that most exchanges lack.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Shortens a string from the agent.
fn shortened(text: &str) -> &str {
    const CHARS: usize = 200;
    text.char_indices()
        .nth(CHARS)
        .map_or(text, |(end, _)| &text[..end])
}

pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
