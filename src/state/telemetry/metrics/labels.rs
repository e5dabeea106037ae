//! Labels and buckets of the metrics, and their registration.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Metric, Registry};

use baton_core::record::WireId;
use baton_core::wire::wire;

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
