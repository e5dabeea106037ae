//! Log lines, metrics and traces, all derived from one event per exchange.
//!
//! Field and metric names are part of the API and asserted by tests: OpenTelemetry's GenAI names if they
//! exist, otherwise `baton.*` and `baton_*`. This module does not depend on requests, stores or streams.

mod charge;
mod facts;
mod fields;
mod line;
mod metrics;
mod otlp;
pub mod prometheus;
mod setup;

pub use charge::{BudgetUse, Charge, ProviderLimit};
pub use facts::ExchangeFacts;
pub(crate) use facts::{FACTS, Fact, FactValue, FilterKind, TextsOf, ValueOf};
pub use line::size;
pub use metrics::{Metrics, ModelPricing, ScrapedCounts};
pub use otlp::{ParentSpan, Traces};
pub use setup::{may_write, start};

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use baton_core::handoffs::document::HandoffSize;
use baton_core::handoffs::draft::{AcceptedDraft, DraftEnd};
use baton_core::record::{CarriedState, Handoff, HandoffOrigin, WireId};
use baton_core::redact::Redactor;
use baton_core::wire::{LegReport, StopReason, Usage};
use std::collections::BTreeMap;

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
        /// A later upstream request failed for good. The response ended after baton's text, and tells the user why.
        LegLost = "leg_lost",
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

    /// Whether the agent got a response with an end of its own.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Complete | Self::LegLost)
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
    /// Output limit of a response in the background, or zero without one.
    pub background: Option<u64>,
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
        self.background = leg.background;
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

/// Shortens a string from the agent.
fn shortened(text: &str) -> &str {
    const CHARS: usize = 200;
    let end = text.char_indices().nth(CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// An attempt at a draft. An automatic trigger may try several methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftEvent {
    /// Origin of the request, by [`HandoffOrigin`]'s names: `person`, `auto`, `api`.
    pub origin: &'static str,
    /// `oneshot`, `bundle`, `local`. `given` if the caller supplied the document, `none` if nothing was
    /// tried.
    pub method: &'static str,
    /// Outcome: `complete`, `empty`, `cancelled`, or the reason for the failure.
    pub outcome: &'static str,
}

impl DraftEvent {
    /// Method of a document that the caller supplied.
    pub const GIVEN: &str = "given";
    /// Method if nothing was tried.
    pub const NONE: &str = "none";

    /// Returns the event of a document without an attempt: supplied by the caller, or missing because there
    /// was nothing to try.
    ///
    /// `drafted` tells whether a document was requested from a draft method.
    pub fn untried(
        origin: HandoffOrigin,
        made: &Result<AcceptedDraft, DraftEnd>,
        drafted: bool,
    ) -> Option<Self> {
        let (method, outcome) = match made {
            Ok(AcceptedDraft { method: None, .. }) => (Self::GIVEN, "complete"),
            Err(end @ (DraftEnd::NothingYet | DraftEnd::Internal)) if drafted => (Self::NONE, end.outcome()),
            // Anything else was an attempt, which has its own event.
            _ => return None,
        };
        Some(Self {
            origin: origin.name(),
            method,
            outcome,
        })
    }

    /// Returns the note for the log line, if there is no document.
    pub(super) fn note(&self) -> Option<String> {
        let outcome = self.outcome.replace('_', " ");
        (self.outcome != "complete").then(|| match self.method {
            Self::NONE => format!("no draft: {outcome}"),
            method => format!("draft ({method}) {outcome}"),
        })
    }
}

/// How a leg ended, as upstream reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegEnd {
    /// Upstream's id of the response. Empty if it gave none.
    pub id: String,
    /// Reason why the model stopped.
    pub stop: StopReason,
}

/// Host and port of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or address.
    pub host: String,
    /// Port, even if it is the default of the scheme.
    pub port: u16,
}

baton_core::named! {
    /// Key of the section `limits` that a refused request exceeded.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ExceededLimit {
        MaxConcurrentRequests = "max_concurrent_requests",
        BodiesBytes = "bodies_bytes",
        BodyBytes = "body_bytes",
    }
}

baton_core::named! {
    /// Outcome of repeating a cut request without the thinking that upstream rejected.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ThinkingRetry {
        /// Upstream accepted the request. Later requests omit the same thinking.
        Accepted = "accepted",
        /// The repeated request failed as well.
        Refused = "refused",
    }
}

/// A handoff that fired. The field names are part of the API.
///
/// It is logged and sent to live viewers when it is stored, and counted when its exchange ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HandoffEvent {
    pub id: String,
    /// Exchange that contains the handoff.
    pub exchange: String,
    /// Key of the conversation.
    pub conversation: String,
    /// Origin of the handoff, by the names of `HandoffOrigin`.
    pub origin: &'static str,
    /// Reason, if one was given. Redacted.
    pub reason: Option<String>,
    pub wire: &'static str,
    /// Requested model.
    pub model: Option<String>,
    /// Time of the handoff in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Bytes of the carry-over prompt.
    pub prompt_bytes: u64,
    /// Bytes of the upstream request in whose response the handoff fired.
    pub before_bytes: u64,
    /// Bytes of the first upstream request after the handoff.
    pub after_bytes: u64,
    /// Number of rules, to-dos and contradicted claims that the prompt lacked, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_items: BTreeMap<&'static str, u32>,
    /// Number of lookups repeated after the previous handoff, as `carry::looked_up_again` defines them.
    /// `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relookups: Option<u64>,
}

/// Counts by kind the items that a prompt lacked.
fn missing_items(handoff: &Handoff) -> BTreeMap<&'static str, u32> {
    let mut kinds = BTreeMap::new();
    let carried = handoff.carried.iter();
    for item in carried.filter(|item| item.state != CarriedState::InPrompt) {
        *kinds.entry(item.kind.name()).or_default() += 1;
    }
    kinds
}

impl HandoffEvent {
    /// Builds the event of a handoff stored in `exchange`. The request sizes are in bytes.
    ///
    /// Strings from the model and the agent are redacted, since the event goes to the log and to viewers.
    pub fn from_handoff(handoff: &Handoff, exchange: &str, bytes: HandoffSize, redactor: &Redactor) -> Self {
        let clean = |text: &Option<String>| text.as_deref().map(|text| redactor.text(text).into_owned());
        Self {
            id: handoff.id.to_string(),
            exchange: exchange.to_owned(),
            conversation: handoff.conversation.clone(),
            origin: handoff.origin.name(),
            reason: clean(&handoff.reason),
            wire: handoff.wire.name(),
            model: clean(&handoff.model),
            at_ms: handoff.created_ms,
            prompt_bytes: handoff.prompt.len() as u64,
            before_bytes: bytes.before,
            after_bytes: bytes.after,
            missing_items: missing_items(handoff),
            // Set by the caller, which has the transcript to count them in.
            relookups: None,
        }
    }

    /// Logs the handoff with all its fields.
    pub fn log(&self) {
        tracing::info!(
            target: "baton",
            {
            baton.handoff = self.id,
            baton.exchange = self.exchange,
            gen_ai.conversation.id = self.conversation,
            baton.origin = self.origin,
            baton.reason = self.reason.as_deref().map(shortened),
            baton.wire = self.wire,
            baton.prompt_bytes = self.prompt_bytes,
            baton.before_bytes = self.before_bytes,
            baton.after_bytes = self.after_bytes,
            },
            "handoff"
        );
    }
}

#[cfg(test)]
mod tests;
