//! How the requests of a thread are billed, as far as a cut depends on it. No IO.

use crate::serve::exchange::Exchange;
use crate::serve::exchange::once::OnceLog;
use crate::state::config::FreeCutPolicy;
use baton_core::bill::{AnsweredRequest, CutLedger, DraftCost, NextRequest, PriceQuery, Rates, TokenCounts};
use baton_core::nudge::compaction_point;
use baton_core::wire::{LegReport, View};

/// What a request is billed by.
#[derive(Clone)]
pub(super) struct RequestCosts {
    pub(super) rates: Rates,
    pub(super) model: String,
    effort: String,
    /// The start of the request, in milliseconds since the Unix epoch.
    at_ms: u64,
    /// Bytes of the system prompt and the tools.
    fixed_bytes: u64,
    /// Tokens at which the window or the agent's own compaction ends the history.
    limit: Option<u64>,
    /// How long the provider's cache lives by the config.
    lifetime_ms: Option<u64>,
}

impl RequestCosts {
    /// The costs of a request to a model with this window. `None`: no cut depends on them, a subscription pays, or the model
    /// has no price.
    pub(super) fn of(exchange: &Exchange, window: Option<u64>) -> Option<Self> {
        let Exchange {
            app, ctx, offered, ..
        } = exchange;
        let policy = &app.config.handoff;
        let is_wanted =
            app.is_shadow(ctx) || policy.free != FreeCutPolicy::Off || policy.thresholds.nudge_pays;
        if !is_wanted || ctx.recorder.read(|e| e.subscription) {
            return None;
        }
        let view = offered.agent.request.view();
        let model = offered.legs(app).model().to_owned();
        let at_ms = app.clock.now_ms();
        let query = PriceQuery {
            model: &model,
            host: &ctx.upstream.config.host(),
            at_ms,
            service: None,
        };
        let Some(rates) = app.prices.rates(&query) else {
            note_unpriced(&model);
            return None;
        };
        let agent = ctx.recorder.read(|e| e.agent.clone()).unwrap_or_default();
        let lifetime = policy.cache_lifetime.map(|lifetime| lifetime.as_millis());
        Some(Self {
            rates,
            effort: view.effort(),
            at_ms,
            fixed_bytes: fixed_bytes(view),
            limit: window.map(|window| compaction_point(&agent, window)),
            lifetime_ms: lifetime.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
            model,
        })
    }

    /// Adds an answer to the thread's ledger: to a request of this many bytes.
    pub(super) fn answered(&self, ledger: &mut CutLedger, leg: &LegReport, bytes: u64) {
        let request = AnsweredRequest {
            at_ms: self.at_ms,
            model: &self.model,
            effort: &self.effort,
            counts: TokenCounts::from(leg.usage),
            cache_miss: leg.served.cache_miss,
            bytes,
            fixed_bytes: self.fixed_bytes,
        };
        ledger.answered(&request, &self.rates);
    }

    /// When a draft is due, should no request come until then; `None`: none is worth it.
    pub(super) fn draft_due(&self, ledger: &CutLedger) -> Option<u64> {
        let after = ledger.draft_due_in(&self.rates, self.lifetime_ms)?;
        Some(self.at_ms.saturating_add(after))
    }

    /// Calls after which a handoff of the model's own has paid, where it is worth it with so many calls left.
    pub(super) fn pays(&self, ledger: &CutLedger, left: u32) -> Option<u32> {
        ledger.pays(&self.rates, left)
    }

    /// The request that is about to be sent.
    pub(super) fn next(&self, draft: DraftCost) -> NextRequest<'_> {
        NextRequest {
            at_ms: self.at_ms,
            model: &self.model,
            effort: &self.effort,
            limit: self.limit,
            lifetime_ms: self.lifetime_ms,
            draft,
        }
    }
}

/// Logs once that a model has no price.
fn note_unpriced(model: &str) {
    static LOGGED: OnceLog = OnceLog::new();
    if LOGGED.is_first(model) {
        tracing::info!(
            model,
            "no price is known for this model: handoff.free changes nothing for it (bill.prices)"
        );
    }
}

/// Bytes next to the turns, and of the system's turns in front of them.
fn fixed_bytes(view: &View) -> u64 {
    let leading = view.turns[..view.leading()].iter();
    let leading: usize = leading.map(|turn| turn.span.len()).sum();
    (view.body.len() - view.list.len() + leading) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use baton_core::record::WireId;
    use baton_core::wire::{Operation, wire};

    #[test]
    fn what_stands_beside_the_work_is_fixed() {
        let chat = |system: &str, work: &str| {
            let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": work}]);
            let body = json!({"model": "m", "messages": messages}).to_string();
            let view = wire(WireId::OpenaiChat)
                .read(&body.into(), Operation::Generate)
                .unwrap();
            fixed_bytes(&view)
        };
        let short = chat("s", "w");
        assert_eq!(chat("s", &"w".repeat(100)), short, "the work does not count");
        assert_eq!(
            chat(&"s".repeat(100), "w"),
            short + 99,
            "a leading system turn does"
        );
        let anthropic = json!({"model": "m", "max_tokens": 9, "system": "s".repeat(50), "messages": [{"role": "user", "content": "w"}]});
        let body = anthropic.to_string();
        let view = wire(WireId::Anthropic)
            .read(&body.clone().into(), Operation::Generate)
            .unwrap();
        assert_eq!(fixed_bytes(&view), (body.len() - view.list.len()) as u64);
    }
}
