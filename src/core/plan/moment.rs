//! Decides on the action due with a request, from the use and cost of its branch: a notice to the model, a
//! handoff, or a cut that costs nothing.

use super::{PlannedRequest, is_model_call};
use crate::bill::{CutLedger, FreeCut, RequestCosts};
use crate::nudge::{self, ContextUse, ModelThresholds, NudgeDecision, NudgeOutcome, NudgeWording};
use crate::quota::UsageLimit;
use crate::record::{HiddenPair, Position};
use crate::rewrite::{insertions, positions};
use crate::transcript::Transcript;
use crate::wire::{Role, Turn};

/// State of a request's branch when the request arrives.
#[derive(Debug, Clone, Default)]
pub struct BranchState<'a> {
    pub context: ContextUse,
    pub limits: ModelThresholds,
    /// Context window of the model.
    pub window: Option<u64>,
    pub wording: NudgeWording,
    /// Whether the model is notified when a handoff pays.
    pub nudge_pays: bool,
    /// Billing of the request; `None` if no cut depends on it.
    pub bill: Option<&'a RequestCosts>,
    pub costs: BranchCosts,
}

/// Cost of a branch so far.
#[derive(Debug, Clone, Default)]
pub struct BranchCosts {
    /// Billed cost of its responses.
    pub ledger: CutLedger,
    /// Number of turns in the previous request of the branch; `None` if this is the first.
    pub before: Option<usize>,
    /// Whether the user was offered a cut since the model's last response.
    pub offered: bool,
    /// The provider's usage limit, if the last response showed that it is near.
    pub limit: Option<UsageLimit>,
    /// Reset time of the limit that the model was notified of.
    pub notified_limit: Option<u64>,
}

/// Action due with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueStep {
    /// Send this notice to the model.
    Nudge(String),
    /// Hand off for this reason.
    HandOff { reason: String },
}

/// Action that shadow mode would have taken on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowDecision {
    pub outcome: NudgeOutcome,
    /// The notice; `None` for a handoff.
    pub notice: Option<String>,
    /// Dollars that a handoff is expected to save; `None` without a price.
    pub saved: Option<f64>,
}

impl BranchState<'_> {
    /// The near usage limit, reported once until it resets.
    fn near_limit(&self, now_ms: u64) -> Option<UsageLimit> {
        let limit = self.costs.limit.filter(|limit| limit.resets_ms > now_ms)?;
        (self.costs.notified_limit != Some(limit.resets_ms)).then_some(limit)
    }
}

impl PlannedRequest<'_> {
    /// Whether a handoff that the model has called is pending until the end of its turn.
    pub fn waits_for_turn_end(&self) -> bool {
        let mut pending = self.places.pairs.iter().filter(|pair| pair.pending.is_some());
        pending.any(|pair| self.places.beside_calls.contains(&pair.id))
    }

    /// Number of calls whose results came after the model had queued a handoff with this prompt, including parallel ones.
    pub fn calls_since_queued(&self, prompt: &str) -> usize {
        let view = &self.reading.view;
        let is_it = |pair: &&HiddenPair| pair.pending.as_ref().is_some_and(|(queued, _)| queued == prompt);
        let queued = self.places.pairs.iter().rfind(is_it);
        let at = queued.and_then(|pair| view.find_calls(&[pair.place.sibling()], 0)[0]);
        let Some(at) = at else { return 0 };
        // The calls of a response may be turns of their own.
        let before = view.turns[..at.turn]
            .iter()
            .rposition(|turn| !turn.role.may_be_models());
        let begin = before.map_or(0, |before| before + 1);
        let uses = Transcript::from_view(view).tool_uses();
        uses.iter().filter(|used| used.turn >= begin).count()
    }

    /// Whether the response's usage is relevant, because it shows how full the model's context is.
    ///
    /// That holds if the model may hand over, or if shadow mode watches the conversation (`is_watched`).
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

    /// Position for a notice at the end of the request; `None` if there is no room for one.
    ///
    /// Another notice may have the position already. A turn that is cut, even partly, keeps no notice.
    pub fn place_at_end(&self) -> Option<Position> {
        let view = &self.reading.view;
        let turn = insertions::last(view).filter(|turn| *turn >= self.pin.kept_from())?;
        // Two notices in one turn could not be told apart by their position.
        let is_taken = self.places.insertions.iter().any(|placed| placed.turn == turn);
        (!is_taken).then(|| positions::of(view))
    }

    /// Action that shadow mode would take on a new request of a branch.
    pub fn watched_moment(&self, branch: &BranchState<'_>, now_ms: u64) -> Option<ShadowDecision> {
        let expected = |bill: &RequestCosts| branch.costs.ledger.expected(&bill.rates);
        let saved = branch.bill.and_then(expected);
        let (outcome, notice, saved) = match self.due(branch, now_ms) {
            Some(DueStep::Nudge(text)) => (NudgeOutcome::WouldNotify, Some(text), saved),
            // A notice may be sent at any time, but a handoff only between two pieces of work.
            _ if !self.is_safe_point() => return None,
            Some(DueStep::HandOff { .. }) => (NudgeOutcome::WouldHandOver, None, saved),
            None if nudge::plan_accepted(&self.reading.view) => (NudgeOutcome::WouldFollowPlan, None, saved),
            None => {
                let cut = self.free_moment(branch)?;
                (NudgeOutcome::WouldCutFree, None, Some(cut.saved))
            }
        };
        Some(ShadowDecision {
            outcome,
            notice,
            saved,
        })
    }

    /// Action due with a new request of this branch.
    pub fn due(&self, branch: &BranchState<'_>, now_ms: u64) -> Option<DueStep> {
        let step_done = || nudge::step_done(&self.reading.view, self.pin.kept_from());
        match branch.context.decide(&branch.limits, step_done) {
            NudgeDecision::Nudge(tokens) => {
                let text = nudge::text(tokens, branch.window, branch.wording);
                Some(DueStep::Nudge(text))
            }
            NudgeDecision::HandOff(tokens) => Some(DueStep::HandOff {
                reason: format!("the context had {tokens} tokens"),
            }),
            NudgeDecision::Nothing => {
                // Other reasons for a notice, the most urgent one first.
                let tokens = branch.context.may_notify()?;
                let limit = branch.near_limit(now_ms);
                let limit = limit.filter(|limit| limit.is_urgent() || step_done());
                let notice = limit.map(|limit| nudge::limit_text(&limit, now_ms));
                let notice = notice.or_else(|| self.paying_notice(branch, tokens));
                notice.map(DueStep::Nudge)
            }
        }
    }

    /// Composes the notice that a handoff pays within the remaining steps of the to-do list.
    fn paying_notice(&self, branch: &BranchState<'_>, tokens: u64) -> Option<String> {
        let bill = branch.bill.filter(|_| branch.nudge_pays)?;
        let (view, from) = (&self.reading.view, self.pin.kept_from());
        if !nudge::step_done(view, from) {
            return None;
        }
        let left = nudge::steps_left(view, from)?.calls_left();
        let calls = branch.costs.ledger.pays(&bill.rates, left)?;
        Some(nudge::paying_text(tokens, calls, left, branch.wording))
    }

    /// Returns the cut that costs nothing with a new request of this branch, if there is one.
    pub fn free_moment(&self, branch: &BranchState<'_>) -> Option<FreeCut> {
        let cut = branch.costs.ledger.moment(branch.bill?, self.policy.draft_cost)?;
        (self.is_safe_point() && self.goes_straight_on(branch)).then_some(cut)
    }

    /// Whether the request directly continues the one in the ledger, with one model response between.
    ///
    /// Then no other replica had a request of the branch since.
    fn goes_straight_on(&self, branch: &BranchState<'_>) -> bool {
        let Some(from) = branch.costs.before else {
            return false;
        };
        let turns = self.reading.view.turns.get(from..).unwrap_or_default();
        let is_models = |turn: &Turn| turn.role == Role::Assistant;
        let runs = turns.chunk_by(|a, b| is_models(a) == is_models(b));
        // Several turns of the model in a row are one response.
        runs.filter(|run| is_models(&run[0])).count() == 1
    }
}
