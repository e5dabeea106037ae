//! Records an exchange: its event, log lines, and the journal's copy of the request.

use super::Exchange;
use super::is_model_call;
use super::pin::OriginalTranscript;
use crate::state::journal::{Beginnings, BodyLayout, PackedHeaders, ReceivedRequest};
use crate::state::telemetry::UsageTokens;
use baton_core::rewrite::RewriteOutcome;
use baton_core::wire::LegReport;

impl Exchange {
    /// Writes what is known by now into the exchange's event, and the request into the journal.
    /// `received`: the transcript as the agent sent it, where it is another one by now.
    pub(super) fn note(&self, beginnings: Option<Beginnings>, received: Option<OriginalTranscript>) {
        let offered = &self.offered;
        self.ctx.recorder.note(|e| {
            e.model.clone_from(&offered.agent.request.view().facts.model);
            e.pinned = self.pinned_id();
            e.tooled = offered.offer.tooled;
            e.untooled = offered.offer.untooled;
            e.unpinned = offered.pin.unpinned;
        });
        self.ctx.recording.begin(|| self.begun(beginnings, received));
        if let Some(id) = offered.pin.lost {
            tracing::warn!(
                exchange = self.ctx.id,
                handoff = %id,
                "a sentinel is not known here, and its seal does not verify: not cut at it"
            );
        } else if offered.pin.unpinned {
            tracing::warn!(
                exchange = self.ctx.id,
                "no sentinel in the transcript of a conversation that had one: sent on whole"
            );
        }
    }

    /// The request for the journal.
    fn begun(&self, beginnings: Option<Beginnings>, received: Option<OriginalTranscript>) -> ReceivedRequest {
        let ctx = &self.ctx;
        let path = ctx.target.split('?').next().unwrap_or_default();
        let view = self.offered.agent.request.view();
        let received = received.unwrap_or_else(|| OriginalTranscript {
            text: self.offered.agent.request.text().clone(),
            list: view.list,
            turns: view.turns.clone(),
        });
        ReceivedRequest {
            id: ctx.id.clone(),
            at_ms: self.app.clock.now_ms(),
            principal: ctx.principal.clone(),
            conversation: self.offered.agent.live.as_ref().map(|live| live.key().to_owned()),
            wire: self.offered.agent.wire.id(),
            operation: super::read::operation_of(ctx.endpoint),
            upstream: ctx.upstream.name.clone(),
            route: format!("{} {path}", ctx.method),
            model: view.facts.model.clone(),
            headers: PackedHeaders::new(&ctx.headers),
            received: received.text,
            transcript: Some(BodyLayout {
                list: received.list,
                turns: received.turns,
            }),
            beginnings,
        }
    }

    /// The handoff that the request is pinned to.
    pub(super) fn pinned_id(&self) -> Option<String> {
        self.offered.pin.active.as_ref().map(|a| a.id.to_string())
    }

    /// Logs hidden pairs that had to be left out.
    pub(super) fn note_lost(&self, first: &RewriteOutcome) {
        let lost = if is_model_call(self.ctx.endpoint) {
            self.offered.lost(first)
        } else {
            0
        };
        if lost > 0 {
            tracing::warn!(
                exchange = self.ctx.id,
                lost,
                "hidden calls find their place in the transcript no more: left out"
            );
            self.ctx
                .recorder
                .note(|e| e.lost_pairs = u32::try_from(lost).unwrap_or(u32::MAX));
        }
    }

    /// Counts a leg that has ended.
    pub(super) fn count(&self, report: &LegReport) {
        let (usage, broken_up, dropped) = (report.usage, report.broken_up, report.dropped_thinking);
        self.ctx.recording.counted(usage, report.stop);
        self.measure(usage);
        self.ctx.recorder.note(|e| {
            let tokens = UsageTokens {
                input: usage.input,
                cache_read: usage.cache_read,
                cache_write: usage.cache_write,
                cache_write_1h: usage.cache_write_1h,
                output: usage.output,
            };
            e.count_tokens(tokens, report.served.clone());
            e.broken_up += u32::try_from(broken_up).unwrap_or_default();
            e.dropped_thinking.add(dropped);
        });
        if dropped.some().is_some() {
            tracing::warn!(
                exchange = self.ctx.id,
                prefix = dropped.prefix,
                other = dropped.other,
                "upstream dropped thinking from what the model saw"
            );
        }
    }
}
