//! Adds an exchange to the metrics.

use super::costs::KINDS;
use super::labels::{ModelLabels, label, labels};
use super::{Metrics, counters};
use crate::telemetry::metrics::labels::WireSeries;
use crate::telemetry::{ExchangeEvent, ExchangeFacts, FactValue, HandoffEvent};
use baton_core::record::{CarriedKind, HandoffOrigin, WireId};

impl Metrics {
    /// Counts one exchange.
    pub fn record(&self, event: &ExchangeEvent) {
        let series = self.by_wire.get(event.wire, || self.wire_series(event.wire));
        for ((fact, counter), series) in counters().zip(&series.facts) {
            let value = (fact.value)(event);
            match counter.by {
                None => drop(series[0].inc_by(value.amount())),
                // Most exchanges lack the fact, and zeros need not be added.
                Some(_) if value == FactValue::Unknown => {}
                Some((_, counts)) => {
                    for ((_, count), series) in counts(event).into_iter().zip(series) {
                        series.inc_by(count);
                    }
                }
            }
        }
        series.added.observe(event.added_ms / 1000.0);
        for handoff in &event.handoffs {
            self.record_handoff(handoff);
        }
        if !event.drafts.is_empty() {
            self.record_drafts(event);
        }
        if let (Some(wire), Some(model)) = (event.wire, event.model.as_deref()) {
            self.record_model(event, wire, model);
        }
        self.costs.record(event);
    }

    /// Counts the attempts to write a handoff's document, and their tokens.
    fn record_drafts(&self, event: &ExchangeEvent) {
        let wire = label(event.wire);
        for draft in &event.drafts {
            let (origin, method, outcome) = (draft.origin, draft.method, draft.outcome);
            let of = [
                ("wire", wire),
                ("origin", origin),
                ("method", method),
                ("outcome", outcome),
            ];
            self.drafts.get_or_create(&labels(of)).inc();
        }
        for (method, tokens) in event.tokens_by_method() {
            let counts = [tokens.input, tokens.cache_read, tokens.cache_write, tokens.output];
            for (kind, count) in KINDS.into_iter().zip(counts) {
                let labels = labels([("wire", wire), ("method", method), ("kind", kind)]);
                self.draft_tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Counts a handoff. Handoffs are rare, so the series are looked up each time.
    fn record_handoff(&self, handoff: &HandoffEvent) {
        let wire = handoff.wire;
        let label = labels([("wire", wire), ("origin", handoff.origin)]);
        self.handoffs.get_or_create(&label).inc();
        for (sizes, bytes) in [
            (&self.handoff_prompt, handoff.prompt_bytes),
            (&self.handoff_before, handoff.before_bytes),
            (&self.handoff_after, handoff.after_bytes),
        ] {
            sizes.get_or_create(&label).observe(bytes as f64);
        }
        for (kind, count) in &handoff.missing_items {
            let label = labels([("wire", wire), ("kind", *kind)]);
            self.handoff_lacked.get_or_create(&label).inc_by((*count).into());
        }
    }

    fn wire_series(&self, wire: Option<WireId>) -> WireSeries {
        // Created with the wire's first exchange: `rate` and `increase` miss the first count of a counter
        // that starts with it.
        let by_wire = ("wire", label(wire));
        for origin in HandoffOrigin::ALL {
            let of = labels([by_wire, ("origin", origin.name())]);
            drop(self.handoffs.get_or_create(&of));
        }
        for kind in CarriedKind::ALL {
            let of = labels([by_wire, ("kind", kind.name())]);
            drop(self.handoff_lacked.get_or_create(&of));
        }
        let none = ExchangeFacts::default();
        let series = counters().zip(&self.facts).map(|((_, counter), family)| {
            let Some((label, counts)) = counter.by else {
                return vec![family.get_or_create_owned(&labels([by_wire]))];
            };
            let values = counts(&none).into_iter();
            let of_value = |(value, _)| family.get_or_create_owned(&labels([by_wire, (label, value)]));
            values.map(of_value).collect()
        });
        WireSeries {
            facts: series.collect(),
            added: self.added.get_or_create_owned(&labels([by_wire])),
        }
    }

    /// Records the per-model metrics of the GenAI conventions. Relayed requests have none.
    fn record_model(&self, event: &ExchangeEvent, wire: WireId, model: &str) {
        let mut of = ModelLabels {
            wire,
            model: self.models.label(model, event.status),
            tokens: None,
        };
        self.duration.get_or_create(&of).observe(event.total_ms / 1000.0);
        if let Some(first) = event.first_byte_ms {
            self.first_token.get_or_create(&of).observe(first / 1000.0);
        }
        for leg in event.tokens.iter().flatten() {
            for (kind, tokens) in [("input", leg.all_input()), ("output", leg.output)] {
                of.tokens = Some(kind);
                // Exact up to 2^53.
                self.token_usage.get_or_create(&of).observe(tokens as f64);
            }
        }
    }
}
