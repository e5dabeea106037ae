//! Handles of the metric series that every exchange updates. They are looked up by their labels once and then kept: a
//! lookup hashes and compares the labels, and an exchange updates about twenty series.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use baton_core::record::WireId;
use baton_core::wire::Usage;

/// One value for each wire, and one for exchanges without a wire.
pub(super) struct PerWire<T>([OnceLock<T>; WireId::ALL.len() + 1]);

impl<T> PerWire<T> {
    pub(super) fn get(&self, wire: Option<WireId>, make: impl FnOnce() -> T) -> &T {
        let i = wire.map_or(WireId::ALL.len(), |wire| wire as usize);
        self.0[i].get_or_init(make)
    }
}

impl<T> Default for PerWire<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; WireId::ALL.len() + 1])
    }
}

/// The series by wire.
pub(super) struct WireSeries {
    /// In the order of the table of facts, and for each the values of its label.
    pub(super) facts: Vec<Vec<Counter>>,
    pub(super) added: Histogram,
}

/// The series by model.
pub(super) struct ModelSeries {
    pub(super) duration: Histogram,
    pub(super) first_token: OnceLock<Histogram>,
    pub(super) tokens: OnceLock<TokenSeries>,
}

/// The series of a leg's tokens.
pub(super) struct TokenSeries {
    pub(super) input: Histogram,
    pub(super) output: Histogram,
}

impl TokenSeries {
    pub(super) fn count(&self, leg: Usage) {
        // Exact up to 2^53.
        self.input.observe(leg.all_input() as f64);
        self.output.observe(leg.output as f64);
    }
}

/// The series of one wire's models that have a label of their own.
#[derive(Default)]
pub(super) struct ModelsSeries(RwLock<HashMap<String, Arc<ModelSeries>>>);

impl ModelsSeries {
    pub(super) fn known(&self, model: &str) -> Option<Arc<ModelSeries>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(model).cloned()
    }

    pub(super) fn keep(&self, model: String, series: Arc<ModelSeries>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(model, series);
    }
}
