//! Writes handoffs, hidden pairs and response ids to the store, before anything of them is shown.

use std::sync::Arc;

use super::active_handoff::Active;
use super::context::ContextThread;
use super::facts::{HandedOverWork, WithFacts};
use super::offer::Offered;
use super::{AnswerRecord, LegState, heavy, recording};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::config;
use crate::state::jobs::recalls::{AnswerOutcome, RecallCall};
use crate::state::store::StoreError;
use crate::state::telemetry::HandoffEvent;
use baton_core::course::AnsweredCall;
use baton_core::handoffs::document::fields::HandoffSize;
use baton_core::handoffs::draft::OWN_MODEL;
use baton_core::handoffs::recall::CutPart;
use baton_core::record::{
    CutPoint, Handoff, HandoffId, HandoffOrigin, HiddenPair, HiddenResult, InsertionPlace, RepeatedAnswer,
    ResponseOrigin,
};
use baton_core::rewrite::{positions, text_fingerprints};
use baton_core::text::splice;
use baton_core::tools::RECALL_NAME;
use baton_core::transcript::Transcript;
use baton_core::wire::{HiddenCall, LegReport};

/// Weight of a byte that is searched: its words are split and looked up.
const SEARCHED: usize = 32;

/// Writes the results of an answer: to the store, the exchange's event and the journal.
#[derive(Clone, Copy)]
pub(super) struct RecordWriter<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) ctx: &'a RequestContext,
    pub(super) offered: &'a Arc<Offered>,
    pub(super) answer: &'a AnswerRecord,
    pub(super) leg: LegState,
    pub(super) thread: Option<&'a ContextThread>,
}

/// A handoff before it is written.
pub(super) struct NewHandoff {
    pub(super) prompt: String,
    pub(super) reason: Option<String>,
    pub(super) parent: Option<HandoffId>,
    pub(super) origin: HandoffOrigin,
    /// The model that later requests go to, where one was named.
    pub(super) to: Option<String>,
}

impl RecordWriter<'_> {
    /// Writes a handoff of the model's; when this has returned, its sentinel may be shown.
    pub(super) async fn write_handoff(
        &self,
        prompt: String,
        reason: Option<String>,
        parent: Option<HandoffId>,
    ) -> Result<Handoff, StoreError> {
        let sent = self.ctx.recorder.read(|e| e.sent_bytes.last().copied());
        let new = NewHandoff {
            prompt,
            reason,
            parent,
            origin: HandoffOrigin::Model,
            to: None,
        };
        self.write_new(new, sent.unwrap_or_default()).await
    }

    /// The same for a handoff of any origin. `before`: the bytes of the request before its cut.
    pub(super) async fn write_new(&self, new: NewHandoff, before: u64) -> Result<Handoff, StoreError> {
        let live = self.offered.agent.live()?;
        let now = self.app.clock.now_ms();
        let work = self.work(self.answer.fired.is_empty());
        let WithFacts { prompt, outcome } = work.with_facts(new.prompt, new.origin);
        let handoff = self.handoff(self.app.clock.new_id(), NewHandoff { prompt, ..new })?;
        let point = self.cut_point(&handoff);
        let hash = self.offered.agent.hash();
        let repeat = RepeatedAnswer {
            body_hash: hash,
            handoff: handoff.id,
            replaces: self.answer.fired.all(),
            at_ms: now,
        };
        self.answer.fired.add(handoff.id);
        let sessions = &self.app.sessions;
        sessions
            .fire(live, handoff.clone(), point, Some(repeat), now)
            .await?;
        live.remember_repeat(hash, handoff.id, &self.answer.id, now);
        live.spoken.handed_over();
        if let Some(thread) = self.thread {
            thread.handed_over(self.ctx, handoff.id);
        }
        self.ctx.recorder.note(|e| e.facts.extend(outcome));
        self.app.drafting.handed_over(live.key());
        self.report(&handoff, before);
        Ok(handoff)
    }

    /// Writes a handoff that waits for a person's approval: it is active in no conversation.
    pub(super) async fn write_for_review(
        &self,
        id: HandoffId,
        prompt: String,
        origin: HandoffOrigin,
    ) -> Result<(), StoreError> {
        let new = NewHandoff {
            prompt,
            reason: None,
            parent: self.offered.active_id(),
            origin,
            to: None,
        };
        let handoff = self.handoff(id, new)?;
        self.app.sessions.store().put_draft(&handoff).await
    }

    /// A handoff of this request.
    fn handoff(&self, id: HandoffId, new: NewHandoff) -> Result<Handoff, StoreError> {
        let agent = &self.offered.agent;
        Ok(Handoff {
            id,
            principal: self.ctx.principal.clone(),
            conversation: agent.live()?.key().to_owned(),
            wire: agent.wire.id(),
            head: self.offered.head_for(self.app, &new.prompt),
            prompt: new.prompt,
            parent: new.parent,
            model: agent.request.view().facts.model.clone(),
            created_ms: self.app.clock.now_ms(),
            history_bytes: agent.request.len() as u64,
            origin: new.origin,
            recall: self.offered.offer.recall_next,
            archived: false,
            spelled_out: Some(self.app.config.handoff.transcript == config::TranscriptDetail::Full),
            routed: self.routed(new.to, new.reason.as_deref()),
            reason: new.reason,
        })
    }

    /// The model that requests after a handoff go to: the named one, else that of the first route, else that of the handoff before.
    fn routed(&self, named: Option<String>, reason: Option<&str>) -> Option<String> {
        let model = self.offered.agent.request.view().facts.model.as_deref()?;
        let routes = &self.app.config.handoff.routes;
        let route = || {
            let route = routes.iter().find(|route| route.matches(model, reason));
            let routed = route.map(|route| route.to.as_str()).or(self.offered.routed());
            routed.map(str::to_owned)
        };
        named.or_else(route).filter(|to| to != model && to != OWN_MODEL)
    }

    /// Reports a handoff that is written: to the log, the journal, the event, and the writer of documents.
    fn report(&self, handoff: &Handoff, before: u64) {
        let after = splice::len(&self.offered.fresh(self.app, handoff).rope) as u64;
        let event = HandoffEvent::of(handoff, &self.ctx.id, (before, after), &self.app.redactor);
        match self.app.config.log.json {
            true => event.log(),
            false => event.log_line(),
        }
        self.app.journal.handoff(&event);
        let work = self.work(self.answer.fired.is_first(handoff.id));
        work.write_document(&self.ctx.id, handoff, HandoffSize { before, after });
        self.ctx.recorder.note(|e| {
            e.fired.push(event.id.clone());
            e.handoffs.push(event);
        });
    }

    fn work(&self, has_work: bool) -> HandedOverWork {
        HandedOverWork {
            app: Arc::clone(self.app),
            offered: Arc::clone(self.offered),
            tooled: self.leg.tooled,
            has_work,
        }
    }

    /// Counts a leg that has ended, and measures the context by it.
    pub(super) fn count(&self, report: &LegReport) {
        if let Some(thread) = self.thread {
            let cut = self.answer.fired.last().or(self.offered.active_id());
            thread.measure(self.ctx, cut, report.usage);
        }
        self.count_draft(report);
    }

    /// Counts a leg that a draft was requested with: its size is not that of the conversation.
    pub(super) fn count_draft(&self, report: &LegReport) {
        let agent = &self.offered.agent;
        if let Some(live) = agent.live.as_ref().filter(|_| !agent.side_call) {
            live.spoken.answered();
        }
        recording::count(self.ctx, report);
    }

    /// Where the handoff is in the agent's transcript: after all that this request has. `None` where the request has
    /// only a system prompt, the rest being upstream: that place could not be found again.
    fn cut_point(&self, handoff: &Handoff) -> Option<CutPoint> {
        let view = self.offered.agent.request.view();
        let since = self.offered.pin.active.as_ref().and_then(Active::turn);
        let position = positions::of(view);
        let texts = text_fingerprints::texts(
            self.offered.agent.wire,
            view,
            since.unwrap_or_default()..view.turns.len(),
        );
        (position.turns > 0).then(|| CutPoint {
            handoff: handoff.id,
            principal: handoff.principal.clone(),
            conversation: handoff.conversation.clone(),
            position,
            texts,
            created_ms: handoff.created_ms,
        })
    }

    /// Writes the pairs of a mixed batch, each next to its sibling; those without a place are left out.
    pub(super) async fn write_beside(
        &self,
        all: Vec<(AnsweredCall, Option<InsertionPlace>)>,
    ) -> Result<(), StoreError> {
        let mut pairs = Vec::with_capacity(all.len());
        for (call, place) in all {
            if let Some(place) = place {
                pairs.push(self.pair(call, place)?);
            }
        }
        self.write_pairs(pairs).await
    }

    /// Writes pairs; when this has returned, their marks may be shown.
    pub(super) async fn write_pairs(&self, pairs: Vec<HiddenPair>) -> Result<(), StoreError> {
        let now = self.app.clock.now_ms();
        self.app
            .sessions
            .add_pairs(self.offered.agent.live()?, pairs, now)
            .await
    }

    /// Writes the origin of the response that the agent knows by this id.
    pub(super) async fn write_id(&self, shown: &str, origin: &ResponseOrigin) -> Result<(), StoreError> {
        let (store, origin) = (self.app.sessions.store(), origin.written());
        store.put_response_id(&self.ctx.principal, shown, &origin).await
    }

    /// A hidden call with its answer. A call without siblings has the aside's id.
    pub(super) fn pair(
        &self,
        answered: AnsweredCall,
        place: InsertionPlace,
    ) -> Result<HiddenPair, StoreError> {
        let conversation = self.offered.agent.live()?.key().to_owned();
        let call = &answered.call;
        let (answer, outcome) = match answered.answer {
            Some(answer) if answer == HiddenResult::TOO_OFTEN => (answer, AnswerOutcome::TooOften),
            Some(answer) => (answer, AnswerOutcome::BadArguments),
            None => {
                let weight = self.offered.agent.weight.saturating_mul(SEARCHED);
                heavy::work(weight, || {
                    self.app.answers.answer(&self.tool_call(call, &conversation))
                })
            }
        };
        let refused = u32::from(answer.is_error());
        self.ctx.recorder.note(|e| match call.name() {
            RECALL_NAME => e.recalls.push(outcome),
            _ => e.refused_calls += refused,
        });
        Ok(HiddenPair {
            id: self.app.clock.new_id(),
            principal: self.ctx.principal.clone(),
            conversation,
            wire: self.offered.agent.wire.id(),
            tool: call.name().to_owned(),
            call: self.offered.agent.wire.hidden_call(call),
            call_id: answered.call.id,
            answer,
            place,
            pending: answered.pending,
            created_ms: self.app.clock.now_ms(),
        })
    }

    /// The call of a tool that is answered with a text.
    fn tool_call<'c>(&'c self, call: &'c HiddenCall, conversation: &'c str) -> RecallCall<'c> {
        let view = self.offered.agent.request.view();
        RecallCall {
            tool: call.name(),
            arguments: call.put_back(),
            principal: &self.ctx.principal,
            conversation,
            cut: CutPart {
                transcript: Transcript::of(view),
                end: match self.leg.fresh {
                    true => view.list.end,
                    false => self.offered.cut_end(),
                },
            },
        }
    }
}
