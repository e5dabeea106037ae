//! Has a draft written in a pause, shortly before the provider's cache goes cold.

use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::value::{AnswerRecord, Exchange};
use super::{drafts, recording};
use crate::serve::proxy::exchange_recorder::DormantRecorder;
use crate::state::session::ContextThread;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::bill::TokenCounts;
use baton_core::handoffs::draft::DraftMethod;
use baton_core::plan::{FreeCutPolicy, RequestCosts};
use baton_core::record::ReadyDraft;
use baton_core::rewrite::positions;

/// A pause that is waited for, with what a draft is made of.
struct Pause {
    exchange: Exchange,
    thread: ContextThread,
    costs: RequestCosts,
    /// Records the draft's own exchange, if there is one.
    dormant: DormantRecorder,
    /// When the draft is due, in milliseconds since the Unix epoch.
    due_ms: u64,
}

impl Exchange {
    /// Waits for a pause after this answer, where there is room for one more. The next request of the thread ends that. Replicas do
    /// not know of each other's requests, so none of them waits.
    pub(super) fn watch_pause(&self) {
        let Some(pause) = self.pause() else { return };
        let Ok(room) = Arc::clone(&self.app.pauses).try_acquire_owned() else {
            tracing::debug!(
                exchange = self.ctx.id,
                "too many watched pauses: no draft written ahead"
            );
            return;
        };
        let (thread, due) = (pause.thread.clone(), pause.due_ms);
        let (until_next, next_request) = oneshot::channel();
        thread.set_pause(until_next);
        tracing::debug!(exchange = self.ctx.id, due, "a draft is due in a pause");
        tokio::spawn(async move {
            let _room = room;
            tokio::select! {
                () = pause.exchange.app.clock.until(due) => pause.write_draft().await,
                // Also where its thread is forgotten.
                _ = next_request => {}
            }
        });
    }

    fn pause(&self) -> Option<Pause> {
        let thread = self.thread.clone()?;
        let costs = thread.costs()?.clone();
        let policy = &self.app.config;
        let is_wanted = policy.handoff.free != FreeCutPolicy::Off
            && policy.draft.method == DraftMethod::Oneshot
            && policy.draft.model.is_none()
            && !self.app.sessions.is_shared();
        if !is_wanted || !self.record.fired.list().is_empty() {
            return None;
        }
        let due_ms = thread.ledger(|ledger| costs.draft_due(ledger))??;
        let mut exchange = self.clone();
        exchange.ctx = self.ctx.silent();
        exchange.record = AnswerRecord::default();
        exchange.thread = None;
        exchange.shown = None;
        if exchange.spilled_headers.is_none() {
            exchange.spill();
        }
        Some(Pause {
            exchange,
            thread,
            costs,
            dormant: self.ctx.recorder.dormant(),
            due_ms,
        })
    }
}

impl Pause {
    /// Writes the draft, and keeps it with the conversation. A draft that fails is logged, and nothing changes.
    async fn write_draft(self) {
        let Self {
            mut exchange,
            thread,
            costs,
            dormant,
            ..
        } = self;
        exchange.ctx = exchange
            .ctx
            .recorded(&dormant, "draft ahead", &exchange.app.journal);
        let recorder = exchange.ctx.recorder.clone();
        if let Err(error) = exchange.reclaim().await {
            tracing::warn!(exchange = exchange.ctx.id, %error, "no draft written ahead: the request cannot be read back");
            return recorder.forget();
        }
        let Exchange {
            app, ctx, offered, ..
        } = &exchange;
        if !exchange.plan().is_safe_point() {
            return recorder.forget();
        }
        recording::begin(&exchange, None);
        let at_ms = app.clock.now_ms();
        let made = drafts::ahead(&exchange).await;
        let tokens = recorder.read(|e| e.tokens.clone());
        let paid = tokens.into_iter().flatten().map(TokenCounts::from);
        let cost = paid.map(|counts| counts.cost(&costs.rates).total()).sum();
        let last = thread.ledger(|ledger| {
            ledger.draft_paid(cost, at_ms);
            ledger.history()
        });
        recorder.note(|e| e.status = 200);
        recorder.decide(ExchangeOutcome::Complete);
        let document = match made {
            Ok(document) => document,
            Err(end) => {
                tracing::warn!(exchange = ctx.id, why = %end, "no draft written ahead; nothing changes");
                return;
            }
        };
        let (Some(Some(last)), Some(live)) = (last, offered.agent.live.as_ref()) else {
            return;
        };
        let draft = ReadyDraft {
            id: Uuid::now_v7(),
            document,
            covers: positions::of(offered.agent.request.view()),
            cut: offered.active_id(),
            last,
            created_ms: app.clock.now_ms(),
        };
        tracing::info!(
            exchange = ctx.id,
            dollars = cost,
            "a draft is ready for when the cache has gone cold"
        );
        if let Err(error) = app.sessions.draft_ready(live, draft, app.clock.now_ms()).await {
            tracing::warn!(exchange = ctx.id, %error, "the draft written ahead is not stored");
        }
    }
}
