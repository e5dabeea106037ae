//! What is due with a request by what its thread has used and cost: a notice to the model, a handoff, a cut that costs
//! nothing.

use super::{PlannedRequest, is_model_call};
use crate::bill::{CutLedger, DraftCost, FreeCut, RequestCosts};
use crate::handoffs::draft::completed_since;
use crate::nudge::{self, ContextUse, ModelThresholds, NearLimit, NudgeDecision, NudgeOutcome, NudgeWording};
use crate::record::{Position, ReadyDraft};
use crate::rewrite::{insertions, positions};
use crate::wire::{Role, Turn};

/// The thread of a request, as it is known when the request comes.
#[derive(Debug, Clone, Default)]
pub struct ThreadState<'a> {
    pub context: ContextUse,
    pub limits: ModelThresholds,
    /// The model's window.
    pub window: Option<u64>,
    pub wording: NudgeWording,
    /// Whether the model is notified where a handoff pays.
    pub nudge_pays: bool,
    /// By what the request is billed; `None` where no cut depends on it.
    pub bill: Option<&'a RequestCosts>,
    pub costs: ThreadCosts,
    /// The draft that was written ahead of a cut.
    pub ready: Option<Box<ReadyDraft>>,
}

/// What a thread has cost.
#[derive(Debug, Clone, Default)]
pub struct ThreadCosts {
    /// What its answers were billed.
    pub ledger: CutLedger,
    /// Elements of the request before the newest one; `None` where this is the first.
    pub before: Option<usize>,
    /// Whether a user was offered a cut since the last answer of the model's.
    pub offered: bool,
    /// The usage limit that is near by the provider's last answer.
    pub limit: Option<NearLimit>,
    /// When the limit of which the model was notified is lifted.
    pub notified_limit: Option<u64>,
}

/// What is due with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueStep {
    /// A notice to the model.
    Nudge(String),
    /// A handoff, for this reason.
    HandOff { reason: String },
}

/// A moment at which a cut costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ColdCacheCut {
    pub cut: FreeCut,
    /// The document for this cut, where it is written already.
    pub ready: Option<String>,
}

/// What would be done with a request that is only watched.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowDecision {
    pub outcome: NudgeOutcome,
    /// The notice; `None`: a handoff.
    pub notice: Option<String>,
    /// Dollars that a handoff is expected to save; `None` without a price.
    pub saved: Option<f64>,
}

impl ThreadState<'_> {
    /// The usage limit that is near, reported once until it resets.
    fn near_limit(&self, now_ms: u64) -> Option<NearLimit> {
        let limit = self.costs.limit.filter(|limit| limit.resets_ms > now_ms)?;
        (self.costs.notified_limit != Some(limit.resets_ms)).then_some(limit)
    }
}

impl PlannedRequest<'_> {
    /// Whether a handoff that the model has called for is pending until the end of its turn.
    pub fn waits_for_turn_end(&self) -> bool {
        let mut pending = self.places.pairs.iter().filter(|pair| pair.pending.is_some());
        pending.any(|pair| self.places.beside_calls.contains(&pair.id))
    }

    /// Whether the answer's usage tells how full the model's context is, in a request of which that matters: the model may hand
    /// over, or is only watched.
    pub fn is_in_the_loop(&self, is_watched: bool) -> bool {
        let facts = &self.reading.view.facts;
        (self.offer.tooled || is_watched)
            && is_model_call(self.call.operation)
            && !(self.call.side_call || facts.structured)
            // The size of a transcript that upstream stores is unknown here.
            && facts.previous.is_none()
    }

    /// Whether the model sees a notice already.
    pub fn is_notified(&self) -> bool {
        let from = self.pin.kept_from();
        let mut visible = self.places.insertions.iter().filter(|placed| placed.turn >= from);
        visible.any(|placed| nudge::is_nudge(&placed.text))
    }

    /// Where a text of ours goes after all that the request has. `None`: it has no place there, or another one has it. A turn
    /// that is cut, in part too, keeps no text of ours.
    pub fn place_at_end(&self) -> Option<Position> {
        let view = &self.reading.view;
        let turn = insertions::last(view).filter(|turn| *turn >= self.pin.kept_from())?;
        let is_taken = self.places.insertions.iter().any(|placed| placed.turn == turn);
        (!is_taken).then(|| positions::of(view))
    }

    /// What would be done with a new request of a thread that is only watched.
    pub fn watched_moment(&self, thread: &ThreadState<'_>, now_ms: u64) -> Option<ShadowDecision> {
        let expected = |bill: &RequestCosts| thread.costs.ledger.expected(&bill.rates);
        let saved = thread.bill.and_then(expected);
        let (outcome, notice, saved) = match self.due(thread, now_ms) {
            Some(DueStep::Nudge(text)) => (NudgeOutcome::WouldNotify, Some(text), saved),
            _ if !self.is_safe_point() => return None,
            Some(DueStep::HandOff { .. }) => (NudgeOutcome::WouldHandOver, None, saved),
            None if nudge::plan_accepted(&self.reading.view) => (NudgeOutcome::WouldFollowPlan, None, saved),
            None => {
                let cut = self.free_moment(thread)?.cut;
                (NudgeOutcome::WouldCutFree, None, Some(cut.saved))
            }
        };
        Some(ShadowDecision {
            outcome,
            notice,
            saved,
        })
    }

    /// What is due with a new request of this thread.
    pub fn due(&self, thread: &ThreadState<'_>, now_ms: u64) -> Option<DueStep> {
        let step_done = || nudge::step_done(&self.reading.view, self.pin.kept_from());
        match thread.context.decide(&thread.limits, step_done) {
            NudgeDecision::Nudge(tokens) => {
                let text = nudge::text(tokens, thread.window, thread.wording);
                Some(DueStep::Nudge(text))
            }
            NudgeDecision::HandOff(tokens) => Some(DueStep::HandOff {
                reason: format!("the context had {tokens} tokens"),
            }),
            NudgeDecision::Nothing => {
                let tokens = thread.context.may_notify()?;
                let limit = thread.near_limit(now_ms);
                let limit = limit.filter(|limit| limit.is_urgent() || step_done());
                let notice = limit.map(|limit| nudge::limit_text(&limit, now_ms));
                let notice = notice.or_else(|| self.paying_notice(thread, tokens));
                notice.map(DueStep::Nudge)
            }
        }
    }

    /// The notice that a handoff pays within the steps that are left of the to-do list.
    fn paying_notice(&self, thread: &ThreadState<'_>, tokens: u64) -> Option<String> {
        let bill = thread.bill.filter(|_| thread.nudge_pays)?;
        let (view, from) = (&self.reading.view, self.pin.kept_from());
        if !nudge::step_done(view, from) {
            return None;
        }
        let left = nudge::steps_left(view, from)?.calls_left();
        let calls = thread.costs.ledger.pays(&bill.rates, left)?;
        Some(nudge::paying_text(tokens, calls, left, thread.wording))
    }

    /// Whether a new request of this thread is a moment at which a cut costs nothing.
    pub fn free_moment(&self, thread: &ThreadState<'_>) -> Option<ColdCacheCut> {
        let bill = thread.bill?;
        let ready = thread.ready.as_deref();
        let ready = ready.filter(|ready| ready.cut == self.pin.active_id());
        let decide = |is_ready| {
            let cost = if is_ready {
                DraftCost::Nothing
            } else {
                self.policy.draft_cost
            };
            thread.costs.ledger.moment(bill, cost)
        };
        decide(ready.is_some())?;
        if !self.is_safe_point() || !self.goes_straight_on(thread, ready) {
            return None;
        }
        let ready = ready.and_then(|ready| self.ready_document(ready));
        let cut = decide(ready.is_some())?;
        Some(ColdCacheCut { cut, ready })
    }

    /// Whether the request continues the one that the ledger knows, with one answer of the model's between: no other replica
    /// had a request of it since. Where this process knows of none, from the one that the ready draft covers.
    fn goes_straight_on(&self, thread: &ThreadState<'_>, draft: Option<&ReadyDraft>) -> bool {
        let view = &self.reading.view;
        let covered = || draft.map(|draft| view.leading() + draft.covers.turns);
        let Some(from) = thread.costs.before.or_else(covered) else {
            return false;
        };
        let turns = view.turns.get(from..).unwrap_or_default();
        let is_models = |turn: &Turn| turn.role == Role::Assistant;
        let runs = turns.chunk_by(|a, b| is_models(a) == is_models(b));
        runs.filter(|run| is_models(&run[0])).count() == 1
    }

    /// The text of a draft that was written ahead of this cut, with the messages since. `None`: the transcript differs, or too
    /// much came since.
    pub fn ready_document(&self, draft: &ReadyDraft) -> Option<String> {
        let view = &self.reading.view;
        if draft.cut != self.pin.active_id() || !positions::is_in(view, &draft.covers) {
            return None;
        }
        completed_since(&draft.document, view, view.leading() + draft.covers.turns)
    }
}
