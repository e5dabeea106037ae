//! Counters and histograms. [`Metrics::record`] updates them all from the event of an exchange.

mod labels;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::labels::{
    ADDED_BUCKETS, BYTE_BUCKETS, ByCachedTokenType, ByDraft, ByDraftTokens, ByModel, ByNudge, ByOrigin,
    ByOutcome, ByResult, ByTokenType, ByWire, DURATION_BUCKETS, FIRST_TOKEN_BUCKETS, OPERATION,
    PACKET_RESULTS, TOKEN_BUCKETS, label,
};
use super::models::Models;
use super::series::{KINDS, ModelSeries, ModelsSeries, Outcomes, PerWire, TokenSeries, WireSeries};
use super::{ExchangeEvent, HandoffEvent};
use crate::answers::AnswerOutcome;
use crate::commands::UndoOutcome;
use crate::record::Origin;
use crate::record::WireId;

type CountDropped = Box<dyn Fn() -> u64 + Send + Sync>;
type CountPackets = Box<dyn Fn() -> [u64; 3] + Send + Sync>;
type CountOpen = Box<dyn Fn() -> usize + Send + Sync>;
type WireCounter = Family<ByWire, Counter>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of a process.
pub struct Metrics {
    registry: Registry,
    models: Models,
    token_usage: Histograms<ByTokenType>,
    first_token: Histograms<ByModel>,
    duration: Histograms<ByModel>,
    added: Histograms<ByWire>,
    exchanges: Family<ByOutcome, Counter>,
    tokens: Family<ByCachedTokenType, Counter>,
    open: Gauge,
    count_open: OnceLock<CountOpen>,
    journal_dropped: Counter,
    count_dropped: OnceLock<CountDropped>,
    traces_dropped: Counter,
    packets: Family<ByResult, Counter>,
    count_packets: OnceLock<CountPackets>,
    recalls: Family<ByOutcome, Counter>,
    handoffs: Family<ByOrigin, Counter>,
    handoff_prompt: Histograms<ByOrigin>,
    handoff_before: Histograms<ByOrigin>,
    handoff_after: Histograms<ByOrigin>,
    nudges: Family<ByNudge, Counter>,
    undos: Family<ByOutcome, Counter>,
    drafts: Family<ByDraft, Counter>,
    draft_tokens: Family<ByDraftTokens, Counter>,
    legs: WireCounter,
    leg_retries: WireCounter,
    pinned_requests: WireCounter,
    unpinned: WireCounter,
    refused_calls: WireCounter,
    lost_pairs: WireCounter,
    lost_insertions: WireCounter,
    broken_up: WireCounter,
    received_bytes: WireCounter,
    sent_bytes: WireCounter,
    response_bytes: WireCounter,
    by_wire: PerWire<WireSeries>,
    by_model: PerWire<ModelsSeries>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every metric under its name.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            models: Models::default(),
            token_usage: Family::new_with_constructor(|| Histogram::new(TOKEN_BUCKETS)),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN_BUCKETS)),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            added: Family::new_with_constructor(|| Histogram::new(ADDED_BUCKETS)),
            exchanges: Family::default(),
            tokens: Family::default(),
            open: Gauge::default(),
            count_open: OnceLock::new(),
            journal_dropped: Counter::default(),
            count_dropped: OnceLock::new(),
            traces_dropped: Counter::default(),
            packets: Family::default(),
            count_packets: OnceLock::new(),
            recalls: Family::default(),
            handoffs: Family::default(),
            handoff_prompt: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_before: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_after: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            nudges: Family::default(),
            undos: Family::default(),
            drafts: Family::default(),
            draft_tokens: Family::default(),
            legs: Family::default(),
            leg_retries: Family::default(),
            pinned_requests: Family::default(),
            unpinned: Family::default(),
            refused_calls: Family::default(),
            lost_pairs: Family::default(),
            lost_insertions: Family::default(),
            broken_up: Family::default(),
            received_bytes: Family::default(),
            sent_bytes: Family::default(),
            response_bytes: Family::default(),
            by_wire: PerWire::default(),
            by_model: PerWire::default(),
        };
        metrics.register();
        metrics
    }

    /// Registers all metrics. The names are API; the encoder appends `_total` to counters.
    fn register(&mut self) {
        let r = &mut self.registry;
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        r.register("baton_build", "The running version", version);
        r.register(
            "gen_ai_client_token_usage",
            "Tokens of each upstream request; input includes cached tokens",
            self.token_usage.clone(),
        );
        r.register(
            "gen_ai_server_time_to_first_token_seconds",
            "Time from the last byte of the request to the first byte of upstream's answer",
            self.first_token.clone(),
        );
        r.register(
            "gen_ai_client_operation_duration_seconds",
            "Time from the first byte of the request to the last byte of the response",
            self.duration.clone(),
        );
        r.register(
            "baton_added_seconds",
            "Time in the proxy before the first upstream request",
            self.added.clone(),
        );
        r.register("baton_open_exchanges", "Exchanges in progress", self.open.clone());
        r.register(
            "baton_exchanges",
            "Exchanges by how they ended",
            self.exchanges.clone(),
        );
        r.register(
            "baton_tokens",
            "Tokens by how they are billed",
            self.tokens.clone(),
        );
        r.register(
            "baton_journal_dropped",
            "Copies that the journal dropped or could not write",
            self.journal_dropped.clone(),
        );
        r.register(
            "baton_traces_dropped",
            "Exchanges whose spans the queue or the collector did not accept",
            self.traces_dropped.clone(),
        );
        r.register(
            "baton_packets",
            "Documents of handoffs, by what became of them",
            self.packets.clone(),
        );
        r.register(
            "baton_handoffs",
            "Handoffs that fired, by who began them",
            self.handoffs.clone(),
        );
        r.register(
            "baton_recalls",
            "Searches of what was cut, by how they came out",
            self.recalls.clone(),
        );
        for (name, help, sizes) in [
            (
                "baton_handoff_prompt_bytes",
                "Sizes of carry-over prompts",
                &self.handoff_prompt,
            ),
            (
                "baton_handoff_before_bytes",
                "Sizes of upstream requests in which a handoff fired",
                &self.handoff_before,
            ),
            (
                "baton_handoff_after_bytes",
                "Sizes of the first upstream requests after a handoff",
                &self.handoff_after,
            ),
        ] {
            r.register(name, help, sizes.clone());
        }
        r.register(
            "baton_nudges",
            "What came of telling models how full their context is",
            self.nudges.clone(),
        );
        r.register(
            "baton_undos",
            "Undos of handoffs, by how they came out",
            self.undos.clone(),
        );
        r.register(
            "baton_drafts",
            "Tries to write the document of a handoff, by method and by how they ended",
            self.drafts.clone(),
        );
        r.register(
            "baton_draft_tokens",
            "Tokens of requests for such documents, by how they are billed; the other metrics of tokens have them, too",
            self.draft_tokens.clone(),
        );
        for (name, help, counter) in [
            ("baton_legs", "Upstream requests", &self.legs),
            (
                "baton_leg_retries",
                "Retries of upstream requests after a handoff",
                &self.leg_retries,
            ),
            (
                "baton_pinned_requests",
                "Requests cut at a handoff",
                &self.pinned_requests,
            ),
            (
                "baton_unpinned",
                "Requests without the sentinel of their conversation's handoff",
                &self.unpinned,
            ),
            (
                "baton_refused_calls",
                "Handoff calls that were refused",
                &self.refused_calls,
            ),
            (
                "baton_lost_pairs",
                "Hidden calls that could not be put back, because their place in the transcript is gone",
                &self.lost_pairs,
            ),
            (
                "baton_lost_insertions",
                "Texts of baton's own that could not be put back, because their place in the transcript is gone",
                &self.lost_insertions,
            ),
            (
                "baton_broken_up",
                "Sentinel-like texts of the model that were escaped",
                &self.broken_up,
            ),
            (
                "baton_received_bytes",
                "Request bytes from agents",
                &self.received_bytes,
            ),
            ("baton_sent_bytes", "Request bytes to upstreams", &self.sent_bytes),
            (
                "baton_response_bytes",
                "Response bytes to agents",
                &self.response_bytes,
            ),
        ] {
            r.register(name, help, counter.clone());
        }
    }

    /// Counts one exchange.
    pub fn record(&self, event: &ExchangeEvent) {
        let series = self.by_wire.get(event.wire, || self.wire_series(event.wire));
        let outcome = event.outcome;
        let exchanges = series.outcomes.get(outcome, || {
            let label = ByOutcome {
                wire: label(event.wire),
                outcome: outcome.name(),
            };
            self.exchanges.get_or_create_owned(&label)
        });
        exchanges.inc();
        for (counter, amount) in [
            (&series.legs, event.sent_bytes.len() as u64),
            (&series.leg_retries, u64::from(event.retries)),
            (&series.pinned_requests, u64::from(event.pinned.is_some())),
            (&series.unpinned, u64::from(event.unpinned)),
            (&series.refused_calls, u64::from(event.refused_calls)),
            (&series.lost_pairs, u64::from(event.lost_pairs)),
            (&series.lost_insertions, u64::from(event.lost_insertions)),
            (&series.broken_up, u64::from(event.broken_up)),
            (&series.received_bytes, event.received_bytes),
            (&series.sent_bytes, event.sent_bytes.iter().sum()),
            (&series.response_bytes, event.response_bytes),
        ] {
            counter.inc_by(amount);
        }
        series.added.observe(event.added.as_secs_f64());
        for recall in &event.recalls {
            let (wire, outcome) = (label(event.wire), recall.name());
            self.recalls.get_or_create(&ByOutcome { wire, outcome }).inc();
        }
        for handoff in &event.handoffs {
            self.record_handoff(handoff);
        }
        if !event.drafts.is_empty() {
            self.record_drafts(event);
        }
        for nudged in &event.nudges {
            let (wire, outcome) = (label(event.wire), nudged.name());
            self.nudges.get_or_create(&ByNudge { wire, outcome }).inc();
        }
        if let Some(undo) = event.undo {
            let (wire, outcome) = (label(event.wire), undo.name());
            self.undos.get_or_create(&ByOutcome { wire, outcome }).inc();
        }
        if let (Some(wire), Some(model)) = (event.wire, event.model.as_deref()) {
            self.record_model(event, wire, model);
        }
    }

    /// Counts the tries to write a handoff's document, and what they cost.
    fn record_drafts(&self, event: &ExchangeEvent) {
        let wire = label(event.wire);
        for draft in &event.drafts {
            let (origin, method, outcome) = (draft.origin, draft.method, draft.outcome);
            let labels = ByDraft {
                wire,
                origin,
                method,
                outcome,
            };
            self.drafts.get_or_create(&labels).inc();
        }
        for (method, tokens) in event.tokens_by_method() {
            let counts = [tokens.input, tokens.cache_read, tokens.cache_write, tokens.output];
            for (kind, count) in KINDS.into_iter().zip(counts) {
                let labels = ByDraftTokens { wire, method, kind };
                self.draft_tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Counts a handoff. Rare, so its series are looked up each time.
    fn record_handoff(&self, handoff: &HandoffEvent) {
        let (wire, origin) = (handoff.wire, handoff.origin);
        let label = ByOrigin { wire, origin };
        self.handoffs.get_or_create(&label).inc();
        for (sizes, bytes) in [
            (&self.handoff_prompt, handoff.prompt_bytes),
            (&self.handoff_before, handoff.before_bytes),
            (&self.handoff_after, handoff.after_bytes),
        ] {
            sizes.get_or_create(&label).observe(bytes as f64);
        }
    }

    fn wire_series(&self, wire: Option<WireId>) -> WireSeries {
        // Created with the wire's first exchange: `rate` and `increase` miss the first count of a counter that starts
        // with it.
        for origin in Origin::ALL.map(Origin::name) {
            let wire = label(wire);
            drop(self.handoffs.get_or_create(&ByOrigin { wire, origin }));
        }
        for outcome in crate::nudge::NudgeOutcome::ALL.map(crate::nudge::NudgeOutcome::name) {
            let wire = label(wire);
            drop(self.nudges.get_or_create(&ByNudge { wire, outcome }));
        }
        for outcome in AnswerOutcome::ALL.map(AnswerOutcome::name) {
            let wire = label(wire);
            drop(self.recalls.get_or_create(&ByOutcome { wire, outcome }));
        }
        for outcome in UndoOutcome::ALL.map(UndoOutcome::name) {
            let wire = label(wire);
            drop(self.undos.get_or_create(&ByOutcome { wire, outcome }));
        }
        let by_wire = ByWire { wire: label(wire) };
        let counter = |family: &WireCounter| family.get_or_create_owned(&by_wire);
        WireSeries {
            outcomes: Outcomes::default(),
            legs: counter(&self.legs),
            leg_retries: counter(&self.leg_retries),
            pinned_requests: counter(&self.pinned_requests),
            unpinned: counter(&self.unpinned),
            refused_calls: counter(&self.refused_calls),
            lost_pairs: counter(&self.lost_pairs),
            lost_insertions: counter(&self.lost_insertions),
            broken_up: counter(&self.broken_up),
            received_bytes: counter(&self.received_bytes),
            sent_bytes: counter(&self.sent_bytes),
            response_bytes: counter(&self.response_bytes),
            added: self.added.get_or_create_owned(&by_wire),
        }
    }

    /// Sets the callback that counts the open exchanges at each scrape. Only the first call has an effect.
    pub fn count_open_by(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        // A second proxy in the same process has its own metrics.
        let _ = self.count_open.set(Box::new(count));
    }

    /// Sets the callback that counts the journal's dropped copies at each scrape. Only the first call has an effect.
    pub fn count_dropped_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        // A second proxy in the same process has its own metrics.
        let _ = self.count_dropped.set(Box::new(count));
    }

    /// Sets the callback that counts packets at each scrape: written, failed, dropped. Only the first call has an effect.
    pub fn count_packets_by(&self, count: impl Fn() -> [u64; 3] + Send + Sync + 'static) {
        // A second proxy in the same process has its own metrics.
        let _ = self.count_packets.set(Box::new(count));
    }

    /// The counter of exchanges whose spans were dropped, for the exporter.
    pub(super) fn traces_dropped(&self) -> Counter {
        self.traces_dropped.clone()
    }

    /// All metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never with these metrics; the encoder's signature requires it.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        if let Some(count) = self.count_open.get() {
            self.open.set(i64::try_from(count()).unwrap_or(i64::MAX));
        }
        if let Some(count) = self.count_dropped.get() {
            let known = self.journal_dropped.get();
            self.journal_dropped.inc_by(count().saturating_sub(known));
        }
        if let Some(count) = self.count_packets.get() {
            for (result, count) in PACKET_RESULTS.into_iter().zip(count()) {
                let counter = self.packets.get_or_create_owned(&ByResult { result });
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Records the per-model metrics of the GenAI conventions. Relayed requests have none.
    fn record_model(&self, event: &ExchangeEvent, wire: WireId, model: &str) {
        let known = self.by_model.get(event.wire, ModelsSeries::default);
        let (series, shown) = match known.known(model) {
            Some(series) => (series, model.to_owned()),
            None => {
                let shown = self.models.label(model, event.status);
                let series = Arc::new(ModelSeries {
                    duration: self.duration.get_or_create_owned(&ByModel::of(wire, &shown)),
                    first_token: OnceLock::new(),
                    tokens: OnceLock::new(),
                });
                if shown == model {
                    known.keep(shown.clone(), Arc::clone(&series));
                }
                (series, shown)
            }
        };
        series.duration.observe(event.total.as_secs_f64());
        if let Some(first) = event.first_byte {
            let make = || self.first_token.get_or_create_owned(&ByModel::of(wire, &shown));
            series.first_token.get_or_init(make).observe(first.as_secs_f64());
        }
        for leg in event.tokens.iter().flatten() {
            let tokens = series.tokens.get_or_init(|| self.token_series(wire, &shown));
            tokens.count(*leg);
        }
    }

    fn token_series(&self, wire: WireId, model: &str) -> TokenSeries {
        let histogram = |kind| {
            let label = ByTokenType {
                gen_ai_operation_name: OPERATION,
                gen_ai_provider_name: crate::wire::wire(wire).provider(),
                gen_ai_request_model: model.to_owned(),
                gen_ai_token_type: kind,
            };
            self.token_usage.get_or_create_owned(&label)
        };
        let billed = |kind| {
            let wire = wire.name();
            self.tokens.get_or_create_owned(&ByCachedTokenType { wire, kind })
        };
        TokenSeries {
            input: histogram("input"),
            output: histogram("output"),
            billed: KINDS.map(billed),
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
