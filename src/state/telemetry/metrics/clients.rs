//! Exchanges, tokens and costs by client. Requests without a client cost nothing here.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Dollars, Labels, add, labels};
use crate::access::clients::KEY_OWNER;
use crate::telemetry::ExchangeEvent;
use baton_core::bill::Cost;
use baton_core::wire::Usage;

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
        let Some(client) = label(event) else { return };
        let ended = labels([("client", client), ("outcome", event.outcome.name())]);
        self.exchanges.get_or_create(&ended).inc();
        // Created with the first exchange: `rate` misses the first value of a counter that starts with it.
        drop(self.dollars.get_or_create(&labels([("client", client)])));
    }

    /// Counts the tokens of one leg, and their cost if they have a price.
    pub(super) fn record_leg(
        &self,
        event: &ExchangeEvent,
        kinds: [&str; 4],
        usage: &Usage,
        cost: Option<&Cost>,
    ) {
        let Some(client) = label(event) else { return };
        let amounts = [usage.input, usage.cache_read, usage.cache_write, usage.output];
        for (kind, amount) in kinds.into_iter().zip(amounts) {
            let labels = labels([("client", client), ("kind", kind)]);
            self.tokens.get_or_create(&labels).inc_by(amount);
        }
        if let Some(cost) = cost {
            let sum = cost.input + cost.cache_read + cost.cache_write + cost.output;
            self.dollars
                .get_or_create(&labels([("client", client)]))
                .inc_by(sum);
        }
    }
}

fn label(event: &ExchangeEvent) -> Option<&str> {
    let client = event.client.as_deref()?;
    Some(if client.starts_with(KEY_OWNER) {
        OTHER
    } else {
        client
    })
}
