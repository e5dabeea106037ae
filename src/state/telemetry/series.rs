//! Handles of the metric series by wire, which every exchange updates.
//!
//! They are looked up by their labels once and then kept. A lookup hashes and compares the labels, and an
//! exchange updates about twenty series.

use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use baton_core::record::WireId;

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

/// The series of one wire, looked up once.
pub(super) struct WireSeries {
    /// Counters in the order of the table of facts, for each fact one per value of its label.
    pub(super) facts: Vec<Vec<Counter>>,
    pub(super) added: Histogram,
}
