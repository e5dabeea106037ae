//! Writes handoffs, hidden pairs and response ids to the store, before anything of them is shown.

use super::Exchange;
use super::active_handoff::Active;
use super::heavy;
use crate::state::config;
use crate::state::jobs::recalls::{AnswerOutcome, RecallCall};
use crate::state::store::StoreError;
use crate::state::telemetry::HandoffEvent;
use baton_core::course::AnsweredCall;
use baton_core::handoffs::document::fields::HandoffSize;
use baton_core::handoffs::recall::CutPart;
use baton_core::record::{
    CutPoint, Handoff, HandoffId, HandoffOrigin, HiddenPair, HiddenResult, InsertionPlace, RepeatedAnswer,
    ResponseOrigin,
};
use baton_core::rewrite::{positions, text_fingerprints};
use baton_core::text::splice;
use baton_core::tools::RECALL_NAME;
use baton_core::transcript::Transcript;
use baton_core::wire::HiddenCall;

/// What a byte weighs that is searched: its words are told apart and looked up.
const SEARCHED: usize = 32;

impl Exchange {
    /// Writes the handoff; when this has returned, its sentinel may be shown.
    pub(super) async fn write_handoff(
        &self,
        prompt: String,
        reason: Option<String>,
        parent: Option<HandoffId>,
    ) -> Result<Handoff, StoreError> {
        let sent = self.ctx.recorder.read(|e| e.sent_bytes.last().copied());
        let before = sent.flatten().unwrap_or_default();
        self.write_drafted(prompt, reason, parent, (HandoffOrigin::Model, before))
            .await
    }

    /// The same for a handoff that another one than the model may have begun, in a request of so many bytes.
    pub(super) async fn write_drafted(
        &self,
        prompt: String,
        reason: Option<String>,
        parent: Option<HandoffId>,
        (origin, before): (HandoffOrigin, u64),
    ) -> Result<Handoff, StoreError> {
        let live = self.live()?;
        let now = self.app.clock.now_ms();
        let (prompt, facts) = self.with_facts(prompt, origin);
        let handoff = self.made(self.app.clock.new_id(), (prompt, reason, parent, origin))?;
        let point = self.cut_point(&handoff);
        let hash = self.hash();
        let repeat = RepeatedAnswer {
            body_hash: hash,
            handoff: handoff.id,
            replaces: self.fired.all(),
            at_ms: now,
        };
        self.fired.add(handoff.id);
        let sessions = &self.app.sessions;
        sessions
            .fire(live, handoff.clone(), point, Some(repeat), now)
            .await?;
        live.remember_repeat(hash, handoff.id, &self.answer, now);
        self.note_handed_over(handoff.id);
        self.ctx.recorder.note(|e| e.facts.extend(facts));
        self.app.drafting.handed_over(live.key());
        self.tell(&handoff, before);
        Ok(handoff)
    }

    /// Writes a handoff that waits for a person's yes: it is active in no conversation.
    pub(super) async fn write_for_review(
        &self,
        id: HandoffId,
        prompt: String,
        origin: HandoffOrigin,
    ) -> Result<(), StoreError> {
        let parent = self.offered.pin.active.as_ref().map(|active| active.id);
        let handoff = self.made(id, (prompt, None, parent, origin))?;
        self.app.sessions.store().put_draft(&handoff).await
    }

    /// A handoff of this request.
    fn made(
        &self,
        id: HandoffId,
        (prompt, reason, parent, origin): (String, Option<String>, Option<HandoffId>, HandoffOrigin),
    ) -> Result<Handoff, StoreError> {
        let live = self.live()?;
        Ok(Handoff {
            id,
            principal: self.ctx.principal.clone(),
            conversation: live.key().to_owned(),
            wire: self.offered.agent.wire.id(),
            head: self.offered.head_for(&self.app, &prompt),
            prompt,
            reason,
            parent,
            model: self.offered.agent.request.view().facts.model.clone(),
            created_ms: self.app.clock.now_ms(),
            history_bytes: self.offered.agent.request.len() as u64,
            origin,
            recall: self.offered.offer.recall_next,
            archived: false,
            spelled_out: Some(self.app.config.handoff.transcript == config::TranscriptDetail::Full),
        })
    }

    /// Tells of a handoff that is written.
    fn tell(&self, handoff: &Handoff, before: u64) {
        let after = splice::len(&self.fresh(&handoff.head).rope) as u64;
        let event = HandoffEvent::of(handoff, &self.ctx.id, (before, after), &self.app.redactor);
        match self.app.config.log.json {
            true => event.log(),
            false => event.log_line(),
        }
        self.app.journal.handoff(&event);
        self.packet(handoff, HandoffSize { before, after });
        self.ctx.recorder.note(|e| {
            e.fired.push(event.id.clone());
            e.handoffs.push(event);
        });
    }

    /// Where the handoff stands in the agent's transcript: behind all that this request holds. `None` where it holds
    /// nothing but the system's word, the rest being upstream: no place that could be found again.
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

    /// Writes the pairs of a mixed batch, each beside its sibling; those without a place are left out.
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

    /// Writes pairs; when this has returned, what stands for them may be shown.
    pub(super) async fn write_pairs(&self, pairs: Vec<HiddenPair>) -> Result<(), StoreError> {
        let now = self.app.clock.now_ms();
        self.app.sessions.add_pairs(self.live()?, pairs, now).await
    }

    /// Writes what stands behind the id that the agent knows the response by.
    pub(super) async fn write_id(&self, shown: &str, behind: &ResponseOrigin) -> Result<(), StoreError> {
        let (store, behind) = (self.app.sessions.store(), behind.written());
        store.put_response_id(&self.ctx.principal, shown, &behind).await
    }

    /// A hidden call with its answer. That of a call which stands alone has the aside's id.
    pub(super) fn pair(
        &self,
        answered: AnsweredCall,
        place: InsertionPlace,
    ) -> Result<HiddenPair, StoreError> {
        let conversation = self.live()?.key().to_owned();
        let call = &answered.call;
        let (answer, outcome) = match answered.answer {
            Some(answer) if answer == HiddenResult::TOO_OFTEN => (answer, AnswerOutcome::TooOften),
            Some(answer) => (answer, AnswerOutcome::BadArguments),
            None => self.ask_tool(call, &conversation),
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

    /// The answer of the tool that is called.
    fn ask_tool(&self, call: &HiddenCall, conversation: &str) -> (HiddenResult, AnswerOutcome) {
        let view = self.offered.agent.request.view();
        let asked = RecallCall {
            tool: call.name(),
            arguments: call.put_back(),
            principal: &self.ctx.principal,
            conversation,
            cut: CutPart {
                transcript: Transcript::of(view),
                end: match self.fresh {
                    true => view.list.end,
                    false => self.offered.cut_end(),
                },
            },
        };
        let weight = self.offered.agent.weight.saturating_mul(SEARCHED);
        heavy::work(weight, || self.app.answers.answer(&asked))
    }
}
