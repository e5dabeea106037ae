//! Writes a draft in a pause, shortly before the provider's cache goes cold.

use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::value::Exchange;
use super::{drafts, recording};
use crate::proxy::exchange_recorder::DormantRecorder;
use crate::state::session::{ContextBranch, LiveAnswer};
use crate::state::telemetry::ExchangeOutcome;
use baton_core::bill::TokenCounts;
use baton_core::handoffs::draft::DraftMethod;
use baton_core::plan::FreeCutPolicy;
use baton_core::record::{ReadyDraft, RecordChange};
use baton_core::rewrite::positions;

impl Exchange {
    /// Watches for a pause after this response, if there is room for another watcher.
    ///
    /// The branch's next request ends the watch. Replicas do not know each other's requests, so none of them watches.
    pub(super) fn watch_pause(&self) {
        let (Some(due), Some(branch)) = (self.draft_due(), self.branch.clone()) else {
            return;
        };
        let Ok(room) = Arc::clone(&self.app.pauses).try_acquire_owned() else {
            tracing::debug!(
                exchange = self.ctx.id,
                "too many watched pauses; writing no draft ahead"
            );
            return;
        };
        let mut exchange = Self {
            // The watcher must not add to the record of an exchange that has ended.
            ctx: self.ctx.silent(),
            answer: LiveAnswer::default(),
            branch: None,
            shown: None,
            ..self.clone()
        };
        if exchange.spilled_headers.is_none() {
            exchange.spill();
        }
        // Recorder of the draft's own exchange, if there will be one.
        let dormant = self.ctx.recorder.dormant();
        let (until_next, next_request) = oneshot::channel();
        branch.set_pause(until_next);
        tracing::debug!(
            exchange = self.ctx.id,
            due,
            "watching for a pause to write a draft ahead"
        );
        tokio::spawn(async move {
            let _room = room;
            tokio::select! {
                () = exchange.app.clock.until(due) => exchange.write_ahead(&branch, &dormant).await,
                // The sender is also dropped if the branch is forgotten.
                _ = next_request => {}
            }
        });
    }

    /// Time at which a draft is due in a pause, in milliseconds since the Unix epoch. `None` if no draft is wanted.
    fn draft_due(&self) -> Option<u64> {
        let branch = self.branch.as_ref()?;
        let costs = branch.costs()?;
        let policy = &self.app.config;
        let is_wanted = policy.handoff.when_cache_cold != FreeCutPolicy::Off
            && policy.draft.method == DraftMethod::Oneshot
            && policy.draft.model.is_none()
            && !self.app.sessions.is_shared();
        if !is_wanted || !self.answer.fired().is_empty() {
            return None;
        }
        branch.ledger(|ledger| ledger.draft_due(costs))?
    }

    /// Writes the draft and stores it with the conversation. A failed draft is logged and changes nothing.
    async fn write_ahead(mut self, branch: &ContextBranch, dormant: &DormantRecorder) {
        self.ctx = self.ctx.recorded(dormant, "draft ahead", &self.app.journal);
        let recorder = self.ctx.recorder.clone();
        if let Err(error) = self.reclaim().await {
            tracing::warn!(exchange = self.ctx.id, %error, "failed to reload the request; writing no draft ahead");
            return recorder.forget();
        }
        let Self {
            app, ctx, offered, ..
        } = &self;
        // A draft is of use only where the conversation may be cut.
        if !self.plan().is_safe_point() {
            return recorder.forget();
        }
        recording::begin(&self, None);
        let at_ms = app.clock.now_ms();
        let made = drafts::ahead(&self).await;
        let tokens = recorder.read(|e| e.tokens.clone());
        let paid = tokens.into_iter().flatten().map(TokenCounts::from);
        let rates = branch.costs().map(|costs| &costs.rates);
        let cost = paid.filter_map(|counts| Some(counts.cost(rates?).total())).sum();
        // The branch's later cuts have to earn the cost of the draft.
        let last = branch.ledger(|ledger| {
            ledger.draft_paid(cost, at_ms);
            ledger.history()
        });
        recorder.note(|e| e.status = 200);
        recorder.decide(ExchangeOutcome::Complete);
        let document = match made {
            Ok(document) => document,
            Err(end) => {
                tracing::warn!(exchange = ctx.id, why = %end, "failed to write a draft ahead; continuing unchanged");
                return;
            }
        };
        let (Some(Some(last)), Some(live)) = (last, offered.live.as_ref()) else {
            return;
        };
        let draft = ReadyDraft {
            id: Uuid::now_v7(),
            document,
            covers: positions::of(offered.view()),
            cut: offered.active_id(),
            last,
            created_ms: app.clock.now_ms(),
        };
        tracing::info!(
            exchange = ctx.id,
            dollars = cost,
            "wrote a draft ahead for a cold cache"
        );
        let ready = RecordChange::DraftReady(Box::new(draft));
        if let Err(error) = app.sessions.change(live, ready, app.clock.now_ms()).await {
            tracing::warn!(exchange = ctx.id, %error, "failed to store the draft written ahead; discarding it");
        }
    }
}
