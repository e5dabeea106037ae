//! Labels and buckets of the metrics, and their registration.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Metric, Registry};

use crate::sync::locked;
use baton_core::record::WireId;
use baton_core::wire::wire;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

/// Buckets for token counts: those of the OpenTelemetry GenAI conventions.
pub(super) const TOKEN_BUCKETS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];
/// Buckets for seconds to the first token: the conventions' ones, extended to the minutes that a reasoning
/// model thinks.
pub(super) const FIRST_TOKEN_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0,
];
/// Buckets for seconds of an exchange: the conventions' ones, extended to half an hour for exchanges with
/// several legs.
pub(super) const DURATION_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300.0, 900.0,
    1800.0,
];
/// Buckets for seconds spent in the proxy: tens of microseconds for a relayed request, tens of milliseconds
/// for a huge one.
pub(super) const ADDED_BUCKETS: [f64; 12] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0,
];

/// Buckets for bytes of prompts and requests, from one line to a full large context.
pub(super) const BYTE_BUCKETS: [f64; 12] = [
    256.0, 1024.0, 4096.0, 16384.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0, 2097152.0, 4194304.0,
    16777216.0,
];

/// A counter of US dollars.
pub(super) type Dollars = Counter<f64, AtomicU64>;

/// Labels with their values.
pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) fn labels<const N: usize>(all: [(&'static str, &str); N]) -> Labels {
    all.map(|(name, value)| (name, value.to_owned())).into()
}

/// The labels of the GenAI conventions, in a form that is cheap to look up: an exchange updates several of
/// their series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ModelLabels {
    pub(super) wire: WireId,
    pub(super) model: String,
    /// Type of the tokens, for token counts.
    pub(super) tokens: Option<&'static str>,
}

impl EncodeLabelSet for ModelLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut all = labels([
            ("gen_ai_operation_name", "chat"),
            ("gen_ai_provider_name", wire(self.wire).provider),
            ("gen_ai_request_model", &self.model),
        ]);
        all.extend(self.tokens.map(|kind| ("gen_ai_token_type", kind.to_owned())));
        all.encode(encoder)
    }
}

/// Possible results of writing a document.
pub(super) const DOCUMENT_RESULTS: [&str; 3] = ["written", "failed", "dropped"];

pub(super) fn label(wire: Option<WireId>) -> &'static str {
    // A relayed request has no wire.
    wire.map_or("none", WireId::name)
}

/// Registers a metric with its name and help.
pub(super) fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

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

/// The series of one wire, looked up by their labels once. A lookup hashes and compares the labels, and an exchange
/// updates about twenty series.
pub(super) struct WireSeries {
    /// Counters in the order of the table of facts, for each fact one per value of its label.
    pub(super) facts: Vec<Vec<Counter>>,
    pub(super) added: Histogram,
}

/// Maximum number of models with their own label: more than one user needs, few enough for a dashboard.
const MODELS: usize = 64;
/// Maximum length of a model name in a label.
const CHARS: usize = 64;
/// Label of all other models.
const OTHER: &str = "other";

/// The models that have their own label.
#[derive(Debug, Default)]
pub(super) struct LabelledModels(Mutex<HashSet<String>>);

impl LabelledModels {
    /// Returns the label of a model: its name, while there are few.
    ///
    /// A name counts only once a request with it has succeeded, so that typos and probes do not use up the
    /// labels.
    pub(super) fn label(&self, model: &str, status: u16) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
        if model.is_empty() || model.len() > CHARS || !model.chars().all(plain) {
            return OTHER.to_owned();
        }
        let mut models = locked(&self.0);
        if !models.contains(model) {
            if models.len() >= MODELS || !(200..300).contains(&status) {
                return OTHER.to_owned();
            }
            models.insert(model.to_owned());
        }
        model.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_few_plain_and_have_worked() {
        let models = LabelledModels::default();
        assert_eq!(models.label("typing-error", 404), OTHER);
        for i in 0..MODELS {
            assert_eq!(models.label(&format!("m{i}"), 200), format!("m{i}"));
        }
        assert_eq!(models.label("one-more", 200), OTHER);
        assert_eq!(models.label("m0", 500), "m0");
        let long = "m".repeat(CHARS + 1);
        for odd in ["", "evil\"} 1\n", long.as_str()] {
            assert_eq!(LabelledModels::default().label(odd, 200), OTHER);
        }
    }
}
