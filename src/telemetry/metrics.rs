//! Counters and histograms, fed by one function.

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::models::Models;
use super::series::{KINDS, ModelSeries, ModelsSeries, Outcomes, PerWire, TokenSeries, WireSeries};
use super::{ExchangeEvent, HandoffEvent};
use crate::record::Origin;
use crate::record::WireId;

/// Buckets as the OpenTelemetry GenAI conventions advise for token counts.
const TOKEN_BUCKETS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];
/// As the conventions advise, and up to the minutes that a reasoning model thinks.
const FIRST_TOKEN_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0,
];
/// As the conventions advise, and up to half an hour: one exchange may hold several legs.
const DURATION_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300.0, 900.0,
    1800.0,
];
/// Our own time: tens of microseconds for a relayed request, tens of milliseconds for a huge one.
const ADDED_BUCKETS: [f64; 12] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWire {
    wire: &'static str,
}

/// Sizes of prompts and requests, from a line to the whole of a large context.
const BYTE_BUCKETS: [f64; 12] = [
    256.0, 1024.0, 4096.0, 16384.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0, 2097152.0, 4194304.0,
    16777216.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOrigin {
    wire: &'static str,
    origin: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    wire: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByModel {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: &'static str,
    gen_ai_request_model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTokenType {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: &'static str,
    gen_ai_request_model: String,
    gen_ai_token_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCachedTokenType {
    wire: &'static str,
    kind: &'static str,
}

type CountDropped = Box<dyn Fn() -> u64 + Send + Sync>;
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
    handoffs: Family<ByOrigin, Counter>,
    handoff_prompt: Histograms<ByOrigin>,
    handoff_before: Histograms<ByOrigin>,
    handoff_after: Histograms<ByOrigin>,
    legs: WireCounter,
    leg_retries: WireCounter,
    pinned_requests: WireCounter,
    unpinned: WireCounter,
    refused_calls: WireCounter,
    lost_pairs: WireCounter,
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
            handoffs: Family::default(),
            handoff_prompt: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_before: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_after: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            legs: Family::default(),
            leg_retries: Family::default(),
            pinned_requests: Family::default(),
            unpinned: Family::default(),
            refused_calls: Family::default(),
            lost_pairs: Family::default(),
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

    /// The names are API. Counters get `_total` behind them when they are shown.
    fn register(&mut self) {
        let r = &mut self.registry;
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        r.register("baton_build", "The running version", version);
        r.register(
            "gen_ai_client_token_usage",
            "Tokens by upstream request; input counts cached ones too",
            self.token_usage.clone(),
        );
        r.register(
            "gen_ai_server_time_to_first_token_seconds",
            "From the request's last byte to upstream's first",
            self.first_token.clone(),
        );
        r.register(
            "gen_ai_client_operation_duration_seconds",
            "From the request's first byte to the response's last",
            self.duration.clone(),
        );
        r.register(
            "baton_added_seconds",
            "Time in the proxy before the first upstream request",
            self.added.clone(),
        );
        r.register("baton_open_exchanges", "Exchanges under way", self.open.clone());
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
            "Copies that the journal did not take or could not write",
            self.journal_dropped.clone(),
        );
        r.register(
            "baton_traces_dropped",
            "Exchanges whose spans were not taken by the queue or the collector",
            self.traces_dropped.clone(),
        );
        r.register(
            "baton_handoffs",
            "Handoffs that fired, by who began them",
            self.handoffs.clone(),
        );
        for (name, help, sizes) in [
            (
                "baton_handoff_prompt_bytes",
                "Carry-over prompts",
                &self.handoff_prompt,
            ),
            (
                "baton_handoff_before_bytes",
                "Upstream requests in which a handoff fired",
                &self.handoff_before,
            ),
            (
                "baton_handoff_after_bytes",
                "Upstream requests right behind a handoff",
                &self.handoff_after,
            ),
        ] {
            r.register(name, help, sizes.clone());
        }
        for (name, help, counter) in [
            ("baton_legs", "Upstream requests", &self.legs),
            (
                "baton_leg_retries",
                "Retries of requests after a handoff",
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
                "Hidden calls that found their place in a transcript no more, and were left out",
                &self.lost_pairs,
            ),
            (
                "baton_broken_up",
                "Sentinel-like model texts broken up",
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
            (&series.broken_up, u64::from(event.broken_up)),
            (&series.received_bytes, event.received_bytes),
            (&series.sent_bytes, event.sent_bytes.iter().sum()),
            (&series.response_bytes, event.response_bytes),
        ] {
            counter.inc_by(amount);
        }
        series.added.observe(event.added.as_secs_f64());
        for handoff in &event.handoffs {
            self.record_handoff(handoff);
        }
        if let (Some(wire), Some(model)) = (event.wire, event.model.as_deref()) {
            self.record_model(event, wire, model);
        }
    }

    /// Rare, so that its series are looked up each time.
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
        // There from the wire's first exchange on: a counter that begins with its first handoff would not show that one.
        for origin in Origin::ALL.map(Origin::name) {
            let wire = label(wire);
            drop(self.handoffs.get_or_create(&ByOrigin { wire, origin }));
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
            broken_up: counter(&self.broken_up),
            received_bytes: counter(&self.received_bytes),
            sent_bytes: counter(&self.sent_bytes),
            response_bytes: counter(&self.response_bytes),
            added: self.added.get_or_create_owned(&by_wire),
        }
    }

    /// Says how the exchanges under way are counted when somebody asks; the first answer holds.
    pub fn count_open_by(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        // A second proxy in one process has metrics of its own.
        let _ = self.count_open.set(Box::new(count));
    }

    /// Says how the journal's dropped copies are counted when somebody asks; the first answer holds.
    pub fn count_dropped_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        // A second proxy in one process has metrics of its own.
        let _ = self.count_dropped.set(Box::new(count));
    }

    /// The count of exchanges without spans, for who sends them.
    pub(super) fn traces_dropped(&self) -> Counter {
        self.traces_dropped.clone()
    }

    /// All metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never with the metrics of this room; the encoder's type demands it.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        if let Some(count) = self.count_open.get() {
            self.open.set(i64::try_from(count()).unwrap_or(i64::MAX));
        }
        if let Some(count) = self.count_dropped.get() {
            let known = self.journal_dropped.get();
            self.journal_dropped.inc_by(count().saturating_sub(known));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// What the conventions count by model; nothing for what is merely relayed.
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

/// `gen_ai.operation.name` of everything that is counted by model.
const OPERATION: &str = "chat";

impl ByModel {
    fn of(wire: WireId, model: &str) -> Self {
        Self {
            gen_ai_operation_name: OPERATION,
            gen_ai_provider_name: crate::wire::wire(wire).provider(),
            gen_ai_request_model: model.to_owned(),
        }
    }
}

fn label(wire: Option<WireId>) -> &'static str {
    wire.map_or("none", WireId::name)
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::telemetry::Tokens;

    fn event(model: &str) -> ExchangeEvent {
        ExchangeEvent {
            wire: Some(WireId::Anthropic),
            model: Some(model.into()),
            handoffs: vec![HandoffEvent {
                id: "a".into(),
                exchange: "x".into(),
                conversation: "c".into(),
                origin: "model",
                reason: None,
                wire: "anthropic",
                model: None,
                at_ms: 0,
                prompt_bytes: 300,
                before_bytes: 400_000,
                after_bytes: 9_000,
            }],
            sent_bytes: vec![7, 3],
            status: 200,
            first_byte: Some(Duration::from_millis(300)),
            tokens: vec![
                None,
                Some(Tokens {
                    input: 1,
                    cache_read: 2,
                    cache_write: 3,
                    output: 4,
                }),
            ],
            ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
        }
    }

    #[test]
    fn the_names_are_api() {
        let metrics = Metrics::new();
        metrics.record(&event("m"));
        let text = metrics.text().unwrap();
        let types: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        let expected = [
            "baton_build info",
            "gen_ai_client_token_usage histogram",
            "gen_ai_server_time_to_first_token_seconds histogram",
            "gen_ai_client_operation_duration_seconds histogram",
            "baton_added_seconds histogram",
            "baton_open_exchanges gauge",
            "baton_exchanges counter",
            "baton_tokens counter",
            "baton_journal_dropped counter",
            "baton_traces_dropped counter",
            "baton_handoffs counter",
            "baton_handoff_prompt_bytes histogram",
            "baton_handoff_before_bytes histogram",
            "baton_handoff_after_bytes histogram",
            "baton_legs counter",
            "baton_leg_retries counter",
            "baton_pinned_requests counter",
            "baton_unpinned counter",
            "baton_refused_calls counter",
            "baton_lost_pairs counter",
            "baton_broken_up counter",
            "baton_received_bytes counter",
            "baton_sent_bytes counter",
            "baton_response_bytes counter",
        ];
        assert_eq!(types, expected);
        for line in [
            "baton_exchanges_total{wire=\"anthropic\",outcome=\"complete\"} 1",
            "baton_handoffs_total{wire=\"anthropic\",origin=\"model\"} 1",
            "baton_handoff_after_bytes_sum{wire=\"anthropic\",origin=\"model\"} 9000.0",
            "baton_legs_total{wire=\"anthropic\"} 2",
            "baton_sent_bytes_total{wire=\"anthropic\"} 10",
            "baton_tokens_total{wire=\"anthropic\",kind=\"cache_read\"} 2",
            "gen_ai_client_token_usage_sum{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"anthropic\",gen_ai_request_model=\"m\",gen_ai_token_type=\"input\"} 6.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
        }
    }

    #[test]
    fn open_exchanges_are_counted_when_asked() {
        let metrics = Metrics::new();
        assert!(metrics.text().unwrap().contains("baton_open_exchanges 0"));
        metrics.count_open_by(|| 3);
        assert!(metrics.text().unwrap().contains("baton_open_exchanges 3"));
        metrics.count_dropped_by(|| 2);
        for _ in 0..2 {
            assert!(metrics.text().unwrap().contains("baton_journal_dropped_total 2"));
        }
    }
}
