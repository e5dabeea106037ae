//! Counters and histograms. [`Metrics::record`] (`counting`) updates all of them from the event of an
//! exchange.

mod costs;
mod counting;
mod health;
mod labels;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::sync::OnceLock;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::costs::CostMetrics;
pub use self::costs::ModelPricing;
use self::health::HealthMetrics;
use self::labels::{
    ADDED_BUCKETS, BYTE_BUCKETS, DOCUMENT_RESULTS, DURATION_BUCKETS, FIRST_TOKEN_BUCKETS, Labels,
    ModelLabels, TOKEN_BUCKETS, add, labels,
};
use super::facts::{ExchangeFacts, FACTS, Fact, FactCounter};
use super::metrics::labels::{LabelledModels, PerWire, WireSeries};

type Counters = Family<Labels, Counter>;
type Histograms<L = Labels> = Family<L, Histogram, fn() -> Histogram>;

/// Values that other parts of the process know, read at each scrape.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScrapedCounts {
    /// Exchanges in progress.
    pub open: usize,
    /// Requests that wait for an exchange permit.
    pub waiting: usize,
    /// Copies that the journal dropped.
    pub dropped: u64,
    /// Documents: written, failed, dropped.
    pub documents: [u64; 3],
}

/// All metrics of a process.
pub struct Metrics {
    registry: Registry,
    models: LabelledModels,
    token_usage: Histograms<ModelLabels>,
    first_token: Histograms<ModelLabels>,
    duration: Histograms<ModelLabels>,
    added: Histograms,
    costs: CostMetrics,
    open: Gauge,
    health: HealthMetrics,
    journal_dropped: Counter,
    traces_dropped: Counter,
    documents: Counters,
    counts: OnceLock<Box<dyn Fn() -> ScrapedCounts + Send + Sync>>,
    handoffs: Counters,
    handoff_lacked: Counters,
    handoff_prompt: Histograms,
    handoff_before: Histograms,
    handoff_after: Histograms,
    drafts: Counters,
    draft_tokens: Counters,
    /// Counters of the table of facts, in its order.
    facts: Vec<Counters>,
    by_wire: PerWire<WireSeries>,
}

fn histograms<L: Clone + Hash + Eq>(make: fn() -> Histogram) -> Histograms<L> {
    Family::new_with_constructor(make)
}

/// Returns the facts that have a counter.
fn counters() -> impl Iterator<Item = (&'static Fact, &'static FactCounter<ExchangeFacts>)> {
    FACTS
        .iter()
        .filter_map(|fact| Some((fact, fact.counter.as_ref()?)))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every metric, with the embedded prices.
    pub fn new() -> Self {
        Self::priced(ModelPricing::default())
    }

    /// Registers every metric, with these prices. The names are part of the API; the encoder appends `_total`
    /// to counters.
    #[rustfmt::skip]
    pub fn priced(pricing: ModelPricing) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        r.register("baton_build", "The running version", version);
        // In display order.
        Self {
            token_usage: add(r, "gen_ai_client_token_usage", "Tokens of each upstream request; input includes cached tokens", histograms(|| Histogram::new(TOKEN_BUCKETS))),
            first_token: add(r, "gen_ai_server_time_to_first_token_seconds", "Time from the last byte of the request to the first byte of upstream's response", histograms(|| Histogram::new(FIRST_TOKEN_BUCKETS))),
            duration: add(r, "gen_ai_client_operation_duration_seconds", "Time from the first byte of the request to the last byte of the response", histograms(|| Histogram::new(DURATION_BUCKETS))),
            added: add(r, "baton_request_overhead_seconds", "Time in the proxy before the first upstream request", histograms(|| Histogram::new(ADDED_BUCKETS))),
            open: add(r, "baton_open_exchanges", "Exchanges in progress", Gauge::default()),
            health: HealthMetrics::new(r),
            costs: CostMetrics::new(pricing, r),
            journal_dropped: add(r, "baton_journal_dropped", "Copies that the journal dropped or could not write", Counter::default()),
            traces_dropped: add(r, "baton_traces_dropped", "Exchanges whose spans the queue or the collector did not accept", Counter::default()),
            documents: add(r, "baton_documents", "Documents of handoffs, by result", Family::default()),
            handoffs: add(r, "baton_handoffs", "Handoffs that took effect, by origin", Family::default()),
            handoff_lacked: add(r, "baton_handoff_missing_items", "The user's rules, open to-dos and contradicted claims that carry-over prompts lacked, by kind", Family::default()),
            handoff_prompt: add(r, "baton_handoff_prompt_bytes", "Sizes of carry-over prompts", histograms(|| Histogram::new(BYTE_BUCKETS))),
            handoff_before: add(r, "baton_handoff_before_bytes", "Sizes of upstream requests in which a handoff fired", histograms(|| Histogram::new(BYTE_BUCKETS))),
            handoff_after: add(r, "baton_handoff_after_bytes", "Sizes of the first upstream requests after a handoff", histograms(|| Histogram::new(BYTE_BUCKETS))),
            drafts: add(r, "baton_drafts", "Attempts to write the document of a handoff, by method and by outcome", Family::default()),
            draft_tokens: add(r, "baton_draft_tokens", "Tokens of requests for such documents, by billing kind; included in the other token metrics", Family::default()),
            facts: counters().map(|(_, counter)| add(r, counter.name, counter.help, Family::default())).collect(),
            models: LabelledModels::default(),
            counts: OnceLock::new(),
            by_wire: PerWire::default(),
            registry,
        }
    }

    /// Sets the callback that reads these values at each scrape. Only the first call has an effect.
    pub fn count_by(&self, counts: impl Fn() -> ScrapedCounts + Send + Sync + 'static) {
        // A second proxy in the same process has its own metrics.
        let _ = self.counts.set(Box::new(counts));
    }

    /// Sets the result of the latest readiness check, and whether the store can be read and written.
    pub fn note_health(&self, is_ready: bool, store_up: [bool; 2], config_current: bool) {
        self.health.note(is_ready, store_up, config_current);
    }

    /// Returns the counter of exchanges whose spans were dropped, for the exporter.
    pub(super) fn traces_dropped(&self) -> Counter {
        self.traces_dropped.clone()
    }

    /// Returns all metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never fails with these metrics. The encoder's signature requires the result.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        self.health.refresh();
        if let Some(counts) = self.counts.get() {
            let counts = counts();
            self.open.set(i64::try_from(counts.open).unwrap_or(i64::MAX));
            self.health.note_waiting(counts.waiting);
            let known = self.journal_dropped.get();
            // A counter only grows, so it is raised to the journal's count.
            self.journal_dropped.inc_by(counts.dropped.saturating_sub(known));
            for (result, count) in DOCUMENT_RESULTS.into_iter().zip(counts.documents) {
                let counter = self.documents.get_or_create_owned(&labels([("result", result)]));
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
