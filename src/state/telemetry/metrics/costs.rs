//! Tokens and costs by the model that responded, at the rates of `baton savings`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Dollars, Labels, add, label, labels};
use crate::access::clients::KEY_OWNER;
use crate::prices::Prices;
use crate::telemetry::ExchangeEvent;
use crate::telemetry::metrics::labels::LabelledModels;
use baton_core::bill::{Cost, ModelPrices, TokenCounts};
use baton_core::record::WireId;
use baton_core::wire::Usage;

/// Billing kinds of tokens.
pub(super) const KINDS: [&str; 4] = ["new", "read", "written", "output"];

/// The table of prices, and the host of each upstream, which selects the provider's prices.
#[derive(Debug, Default)]
pub struct ModelPricing {
    pub table: Prices,
    /// Hosts by name of the upstream.
    pub hosts: HashMap<String, String>,
}

/// The metrics of tokens and costs, with the inputs for computing them.
pub(super) struct CostMetrics {
    tokens: Family<Labels, Counter>,
    dollars: Family<Labels, Dollars>,
    unpriced: Family<Labels, Counter>,
    clients: ClientMetrics,
    pricing: ModelPricing,
    models: LabelledModels,
    /// Series of models with their own label. There are few, so they are compared and not hashed.
    known: RwLock<Vec<Arc<ServedSeries>>>,
}

/// The series of one model at one upstream.
struct ServedSeries {
    wire: Option<WireId>,
    upstream: String,
    model: String,
    /// Counters in the order of [`KINDS`].
    tokens: [Counter; 4],
    dollars: [Dollars; 4],
    unpriced: Counter,
    prices: Option<ModelPrices>,
}

impl CostMetrics {
    #[rustfmt::skip]
    pub(super) fn new(pricing: ModelPricing, r: &mut Registry) -> Self {
        Self {
            tokens: add(r, "baton_tokens", "Tokens by the model that responded and by billing kind: new, read from a cache, written to one, output", Family::default()),
            dollars: add(r, "baton_cost_dollars", "Cost of these tokens at the prices of the price table, in US dollars", Family::default()),
            unpriced: add(r, "baton_cost_unpriced", "Upstream requests whose model has no price, or that a subscription paid for", Family::default()),
            clients: ClientMetrics::new(r),
            pricing,
            models: LabelledModels::default(),
            known: RwLock::default(),
        }
    }

    fn series(&self, event: &ExchangeEvent, model: &str) -> Arc<ServedSeries> {
        let is_it = |series: &&Arc<ServedSeries>| {
            // Not a label, but the upstream selects the prices, so each one has its own series.
            series.wire == event.wire && series.upstream == event.upstream && series.model == model
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.iter().find(is_it) {
            return Arc::clone(series);
        }
        // Releases the lock, because the write lock follows below.
        drop(known);
        let wire = label(event.wire);
        let shown = self.models.label(model, event.status);
        let host = self.pricing.hosts.get(&event.upstream);
        let prices = self.pricing.table.model(model, host.map_or("", String::as_str));
        let by_kind = |kind| labels([("wire", wire), ("model", &shown), ("kind", kind)]);
        let by_model = labels([("wire", wire), ("model", &shown)]);
        let series = Arc::new(ServedSeries {
            wire: event.wire,
            upstream: event.upstream.clone(),
            model: model.to_owned(),
            tokens: KINDS.map(|kind| self.tokens.get_or_create_owned(&by_kind(kind))),
            dollars: KINDS.map(|kind| self.dollars.get_or_create_owned(&by_kind(kind))),
            unpriced: self.unpriced.get_or_create_owned(&by_model),
            prices: prices.cloned(),
        });
        // Only models with their own label are kept: an agent may send any number of other names.
        if shown == model {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            // Two threads may add the same series, which does no harm: both have the same counters.
            known.push(Arc::clone(&series));
        }
        series
    }

    /// Counts the tokens of each leg with a response, and their cost.
    pub(super) fn record(&self, event: &ExchangeEvent) {
        self.clients.record(event);
        for (leg, usage) in event.tokens.iter().enumerate() {
            let Some(usage) = usage else { continue };
            let query = event.price_query(leg);
            let series = self.series(event, query.model);
            let amounts = [usage.input, usage.cache_read, usage.cache_write, usage.output];
            for (counter, amount) in series.tokens.iter().zip(amounts) {
                counter.inc_by(amount);
            }
            // A subscription is not billed by tokens.
            let prices = series.prices.as_ref().filter(|_| !event.subscription);
            let Some(rates) = prices.and_then(|prices| prices.rates(&query)) else {
                series.unpriced.inc();
                self.clients.record_leg(event, usage, None);
                continue;
            };
            let cost = TokenCounts::from(*usage).cost(&rates);
            self.clients.record_leg(event, usage, Some(&cost));
            let amounts = [cost.input, cost.cache_read, cost.cache_write, cost.output];
            for (counter, amount) in series.dollars.iter().zip(amounts) {
                counter.inc_by(amount);
            }
        }
    }
}

/// Label of all clients that the config does not name, because anybody may make up API keys.
const OTHER: &str = "other";

pub(super) struct ClientMetrics {
    exchanges: Family<Labels, Counter>,
    tokens: Family<Labels, Counter>,
    dollars: Family<Labels, Dollars>,
}

impl ClientMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            exchanges: add(r, "baton_client_exchanges", "Exchanges by client and outcome", Family::default()),
            tokens: add(r, "baton_client_tokens", "Tokens by client and billing kind", Family::default()),
            dollars: add(r, "baton_client_cost_dollars", "Cost of the tokens by client at the prices of the price table, in US dollars", Family::default()),
        }
    }

    /// Counts the end of an exchange.
    pub(super) fn record(&self, event: &ExchangeEvent) {
        let Some(client) = shown_client(event) else { return };
        let ended = labels([("client", client), ("outcome", event.outcome.name())]);
        self.exchanges.get_or_create(&ended).inc();
        // Created with the first exchange: `rate` misses the first value of a counter that starts with it.
        drop(self.dollars.get_or_create(&labels([("client", client)])));
    }

    /// Counts the tokens of one leg, and their cost if they have a price.
    fn record_leg(&self, event: &ExchangeEvent, usage: &Usage, cost: Option<&Cost>) {
        let Some(client) = shown_client(event) else { return };
        let amounts = [usage.input, usage.cache_read, usage.cache_write, usage.output];
        for (kind, amount) in KINDS.into_iter().zip(amounts) {
            let labels = labels([("client", client), ("kind", kind)]);
            self.tokens.get_or_create(&labels).inc_by(amount);
        }
        if let Some(cost) = cost {
            let sum = cost.input + cost.cache_read + cost.cache_write + cost.output;
            let label = labels([("client", client)]);
            self.dollars.get_or_create(&label).inc_by(sum);
        }
    }
}

fn shown_client(event: &ExchangeEvent) -> Option<&str> {
    let client = event.client.as_deref()?;
    Some(if client.starts_with(KEY_OWNER) {
        OTHER
    } else {
        client
    })
}
