//! Counters and histograms. [`Metrics::record`] (`counting`) updates them all from the event of an exchange; `names` is
//! the table of their names.

mod costs;
mod counting;
mod labels;
mod names;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::costs::CostMetrics;
pub use self::costs::ModelPricing;
use self::labels::{
    ADDED_BUCKETS, BYTE_BUCKETS, ByModel, ByTokenType, DOCUMENT_RESULTS, DURATION_BUCKETS,
    FIRST_TOKEN_BUCKETS, Labels, TOKEN_BUCKETS,
};
use super::facts::{ExchangeFacts, FACTS, Fact, FactCounter};
use super::models::LabelledModels;
use super::series::{ModelsSeries, PerWire, WireSeries};

type CountDropped = Box<dyn Fn() -> u64 + Send + Sync>;
type CountDocuments = Box<dyn Fn() -> [u64; 3] + Send + Sync>;
type CountOpen = Box<dyn Fn() -> usize + Send + Sync>;
type Counters = Family<Labels, Counter>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of a process.
pub struct Metrics {
    registry: Registry,
    models: LabelledModels,
    token_usage: Histograms<ByTokenType>,
    first_token: Histograms<ByModel>,
    duration: Histograms<ByModel>,
    added: Histograms<Labels>,
    costs: CostMetrics,
    open: Gauge,
    count_open: OnceLock<CountOpen>,
    journal_dropped: Counter,
    count_dropped: OnceLock<CountDropped>,
    traces_dropped: Counter,
    documents: Counters,
    count_documents: OnceLock<CountDocuments>,
    handoffs: Counters,
    handoff_lacked: Counters,
    handoff_prompt: Histograms<Labels>,
    handoff_before: Histograms<Labels>,
    handoff_after: Histograms<Labels>,
    drafts: Counters,
    draft_tokens: Counters,
    /// Those of the table of facts, in its order.
    facts: Vec<Counters>,
    by_wire: PerWire<WireSeries>,
    by_model: PerWire<ModelsSeries>,
}

/// The facts that are counted.
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
    /// Registers every metric under its name. Costs are at the embedded prices.
    pub fn new() -> Self {
        Self::priced(ModelPricing::default())
    }

    /// The same with these prices.
    pub fn priced(pricing: ModelPricing) -> Self {
        let costs = CostMetrics::new(pricing);
        let mut metrics = Self {
            registry: Registry::default(),
            models: LabelledModels::default(),
            token_usage: Family::new_with_constructor(|| Histogram::new(TOKEN_BUCKETS)),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN_BUCKETS)),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            added: Family::new_with_constructor(|| Histogram::new(ADDED_BUCKETS)),
            costs,
            open: Gauge::default(),
            count_open: OnceLock::new(),
            journal_dropped: Counter::default(),
            count_dropped: OnceLock::new(),
            traces_dropped: Counter::default(),
            documents: Family::default(),
            count_documents: OnceLock::new(),
            handoffs: Family::default(),
            handoff_lacked: Family::default(),
            handoff_prompt: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_before: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            handoff_after: Family::new_with_constructor(|| Histogram::new(BYTE_BUCKETS)),
            drafts: Family::default(),
            draft_tokens: Family::default(),
            facts: counters().map(|_| Family::default()).collect(),
            by_wire: PerWire::default(),
            by_model: PerWire::default(),
        };
        metrics.register();
        metrics
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

    /// Sets the callback that counts documents at each scrape: written, failed, dropped. Only the first call has an
    /// effect.
    pub fn count_documents_by(&self, count: impl Fn() -> [u64; 3] + Send + Sync + 'static) {
        // A second proxy in the same process has its own metrics.
        let _ = self.count_documents.set(Box::new(count));
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
        if let Some(count) = self.count_documents.get() {
            for (result, count) in DOCUMENT_RESULTS.into_iter().zip(count()) {
                let counter = self.documents.get_or_create_owned(&vec![("result", result)]);
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
