//! Adds an exchange to the metrics.

use std::sync::{Arc, OnceLock};

use super::costs::KINDS;
use super::labels::{
    ByDraft, ByDraftTokens, ByKind, ByModel, ByOrigin, ByOutcome, ByReason, ByTokenType, ByWire,
    DROP_REASONS, OPERATION, label,
};
use super::wire_counts::WIRE_COUNTS;
use super::{Metrics, OutcomeCounter};
use crate::state::jobs::recalls::AnswerOutcome;
use crate::state::telemetry::series::{ModelSeries, ModelsSeries, OutcomeSeries, TokenSeries, WireSeries};
use crate::state::telemetry::{ExchangeEvent, HandoffEvent, ThinkingRetry};
use baton_core::commands::UndoOutcome;
use baton_core::nudge::NudgeOutcome;
use baton_core::record::{CarriedKind, HandoffOrigin, WireId};

impl Metrics {
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
        for (counter, count) in series.counters.iter().zip(&WIRE_COUNTS) {
            counter.inc_by((count.amount)(event));
        }
        series.added.observe(event.added.as_secs_f64());
        self.record_rare(event);
        if let (Some(wire), Some(model)) = (event.wire, event.model.as_deref()) {
            self.record_model(event, wire, model);
        }
        self.costs.record(event);
    }

    /// Counts what most exchanges have none of.
    fn record_rare(&self, event: &ExchangeEvent) {
        let wire = label(event.wire);
        let count = |counter: &OutcomeCounter, outcome| {
            counter.get_or_create(&ByOutcome { wire, outcome }).inc();
        };
        for recall in &event.recalls {
            count(&self.recalls, recall.name());
        }
        for handoff in &event.handoffs {
            self.record_handoff(handoff);
        }
        if !event.drafts.is_empty() {
            self.record_drafts(event);
        }
        for nudged in &event.nudges {
            count(&self.nudges, nudged.name());
        }
        if let Some(undo) = event.undo {
            count(&self.undos, undo.name());
        }
        let dropped = event.dropped_thinking;
        for (reason, count) in DROP_REASONS.into_iter().zip([dropped.prefix, dropped.other]) {
            if count > 0 {
                let counter = self
                    .dropped_thinking
                    .get_or_create_owned(&ByReason { wire, reason });
                counter.inc_by(count.into());
            }
        }
        if let Some(retry) = event.thinking_retry {
            count(&self.thinking_retries, retry.name());
        }
    }

    /// Counts the tries to write a handoff's document, and what they cost.
    fn record_drafts(&self, event: &ExchangeEvent) {
        let wire = label(event.wire);
        for draft in &event.drafts {
            let (origin, method, outcome) = (draft.origin, draft.method, draft.outcome);
            let labels = ByDraft {
                wire,
                origin,
                method,
                outcome,
            };
            self.drafts.get_or_create(&labels).inc();
        }
        for (method, tokens) in event.tokens_by_method() {
            let counts = [tokens.input, tokens.cache_read, tokens.cache_write, tokens.output];
            for (kind, count) in KINDS.into_iter().zip(counts) {
                let labels = ByDraftTokens { wire, method, kind };
                self.draft_tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Counts a handoff. Rare, so its series are looked up each time.
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
        for (kind, count) in &handoff.lacked {
            let label = ByKind { wire, kind };
            self.handoff_lacked.get_or_create(&label).inc_by((*count).into());
        }
    }

    fn wire_series(&self, wire: Option<WireId>) -> WireSeries {
        // Created with the wire's first exchange: `rate` and `increase` miss the first count of a counter that starts
        // with it.
        let by_wire = ByWire { wire: label(wire) };
        let wire = by_wire.wire;
        for origin in HandoffOrigin::ALL.map(HandoffOrigin::name) {
            drop(self.handoffs.get_or_create(&ByOrigin { wire, origin }));
        }
        for kind in CarriedKind::ALL.map(CarriedKind::name) {
            drop(self.handoff_lacked.get_or_create(&ByKind { wire, kind }));
        }
        for reason in DROP_REASONS {
            drop(self.dropped_thinking.get_or_create(&ByReason { wire, reason }));
        }
        let families: [(&OutcomeCounter, &[&'static str]); 4] = [
            (&self.nudges, &NudgeOutcome::ALL.map(NudgeOutcome::name)),
            (&self.recalls, &AnswerOutcome::ALL.map(AnswerOutcome::name)),
            (&self.undos, &UndoOutcome::ALL.map(UndoOutcome::name)),
            (
                &self.thinking_retries,
                &ThinkingRetry::ALL.map(ThinkingRetry::name),
            ),
        ];
        for (counter, outcomes) in families {
            for outcome in outcomes.iter().copied() {
                drop(counter.get_or_create(&ByOutcome { wire, outcome }));
            }
        }
        WireSeries {
            outcomes: OutcomeSeries::default(),
            counters: self
                .wire_counts
                .iter()
                .map(|family| family.get_or_create_owned(&by_wire))
                .collect(),
            added: self.added.get_or_create_owned(&by_wire),
        }
    }

    /// Records the per-model metrics of the GenAI conventions. Relayed requests have none.
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
                gen_ai_provider_name: baton_core::wire::wire(wire).facts().provider,
                gen_ai_request_model: model.to_owned(),
                gen_ai_token_type: kind,
            };
            self.token_usage.get_or_create_owned(&label)
        };
        TokenSeries {
            input: histogram("input"),
            output: histogram("output"),
        }
    }
}
