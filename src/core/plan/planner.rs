//! Stages of a plan. Each one runs once it has its records.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    AgentCall, CutPosition, CutTarget, InsertionPoints, MissingRecords, Need, Policy, Records, ToolDecision,
    ToolOffer, active, commands, cut_target, insertion_points, offer,
};
use crate::record::{CutPoint, HandoffId, HiddenPair, Insertion};
use crate::rewrite::notes;
use crate::tools::RECALL_NAME;

/// A write that a plan makes, or a note for the next request of its conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanWrite {
    /// Adopts a cut point of the conversation that this one was forked from. Durable.
    TakeOverCutPoint(CutPoint),
    /// Keeps the cut point of this handoff, because the request was cut there. Durable.
    KeepCutPoint(HandoffId),
    /// Records that the hidden pairs next to these new calls are complete.
    KnowPairs(Vec<Arc<HiddenPair>>),
    /// Adopts the insertions of the conversation that this one may be forked from. Durable.
    TakeOverInsertions(Vec<Insertion>),
    /// Records that these insertions have no position in the transcript.
    LoseInsertions(Vec<Uuid>),
    /// Records whether this conversation's requests include the tool. Durable; an earlier decision by another
    /// process wins.
    DecideTool(ToolDecision),
    /// Records the handoff that the newest transcript of the conversation is cut at.
    Follow(Option<HandoffId>),
}

/// How a request is handled.
#[derive(Debug, Default)]
pub struct Plan {
    pub pin: CutTarget,
    pub places: InsertionPoints,
    pub offer: ToolOffer,
    /// Writes in order. All of them are made before anything is sent.
    pub effects: Vec<PlanWrite>,
}

/// The current planning stage.
#[derive(Clone, Copy)]
enum Stage {
    Commands,
    CutTarget,
    Pairs,
    Insertions,
    Offer,
    Done,
}

/// A plan in progress.
pub struct Planner {
    pub call: AgentCall,
    stage: Stage,
    plan: Plan,
    may_recall: bool,
}

impl Planner {
    /// Begins the plan of a request.
    pub fn new(mut call: AgentCall, policy: &Policy<'_>) -> Self {
        let may_recall = policy.recall && call.may_recall();
        if may_recall {
            call.reading.view.facts.ours = policy.tools.recall.names();
        }
        Self {
            call,
            stage: Stage::Commands,
            plan: Plan::default(),
            may_recall,
        }
    }

    /// Returns the records that this request most likely needs, in addition to its conversation.
    pub fn needs(&self) -> MissingRecords {
        let call = &self.call;
        // A truncated id may mean another handoff.
        let newest = call.candidates.first().filter(|newest| newest.id_range.is_none());
        let previous = call.reading.view.facts.previous.as_ref();
        let cut = newest.map(|newest| newest.sentinel.id);
        let from = newest.map_or(0, |newest| newest.turn);
        newest
            .map(active::meant)
            .into_iter()
            .chain(previous.map(|previous| Need::Response(previous.id.clone())))
            .chain([call.pairs_after(cut, from)])
            .collect()
    }

    /// Plans as far as the records reach.
    ///
    /// # Errors
    /// Returns the records to read before calling `advance` again.
    pub fn advance(&mut self, records: &Records, policy: &Policy<'_>) -> Result<(), MissingRecords> {
        loop {
            self.stage = match self.stage {
                // Commands come first, because their removal moves all offsets.
                Stage::Commands => self.take_commands_out(records, policy)?,
                Stage::CutTarget => self.find_cut_target(records, policy)?,
                Stage::Pairs => self.find_pairs(records, policy)?,
                Stage::Insertions => self.find_insertions(records, policy)?,
                Stage::Offer => self.decide(records, policy)?,
                Stage::Done => return Ok(()),
            }
        }
    }

    /// Returns the request to pass on, and its plan.
    pub fn done(self) -> (AgentCall, Plan) {
        (self.call, self.plan)
    }

    /// Removes chat commands. All offsets, and possibly the last user message, change.
    fn take_commands_out(&mut self, records: &Records, policy: &Policy<'_>) -> Result<Stage, MissingRecords> {
        let call = &mut self.call;
        if let Some(taken) = commands::taken_out(&call.reading, records.conversation.as_ref(), policy)? {
            // A side call has the same results, and would execute the commands twice.
            if call.is_agent_loop() && !call.is_side_call() {
                self.plan.pin.interjected = notes::interjected(&call.reading.view, policy.look);
            }
            let before = call.replace(taken.reading);
            // The offsets of all sentinels have moved.
            call.candidates = call.reading.candidates();
            self.plan.pin.undone = taken.undone;
            self.plan.pin.taken_out.removed = Some(taken.removed);
            self.plan.pin.taken_out.original = Some((&before.view).into());
        }
        Ok(Stage::CutTarget)
    }

    /// Finds the cut target of the request.
    fn find_cut_target(&mut self, records: &Records, policy: &Policy<'_>) -> Result<Stage, MissingRecords> {
        let Self { call, plan, .. } = self;
        let (taken_over, relies_on) = cut_target::find(call, &mut plan.pin, records, policy)?;
        let taken_over = taken_over.into_iter().map(PlanWrite::TakeOverCutPoint);
        plan.effects.extend(taken_over);
        plan.effects.extend(relies_on.map(PlanWrite::KeepCutPoint));
        self.cut_at_draft();
        let Self { call, plan, .. } = self;
        let recalls = plan.pin.active.as_ref().is_some_and(|active| active.recall);
        // The configuration offers no search tool now, but requests with this cut still have it. So calls of that name
        // count as baton's.
        if !policy.recall && recalls && call.may_recall() {
            self.may_recall = true;
            call.reading.view.facts.ours = policy.tools.recall.names();
            call.edition += 1;
        }
        Ok(Stage::Pairs)
    }

    /// Moves the cut of a reviewed draft to the position where the draft was made.
    ///
    /// The sentinel is removed. The turns between the two stay without their thinking, which is bound to the
    /// history that was cut.
    fn cut_at_draft(&mut self) {
        let Self { call, plan, .. } = self;
        let view = &call.reading.view;
        let Some(active) = &mut plan.pin.active else {
            return;
        };
        let Some(kept) = active.kept(view) else { return };
        active.place = CutPosition::BeforeTurn(kept.start);
        plan.places.omitted = Some(kept.end);
        if let Some(without) = notes::without_sentinel(&call.reading, kept.end) {
            plan.pin.taken_out.replaced(call.replace(without), &call.reading);
        }
    }

    /// Whether the request gets the tool that searches the cut transcript.
    fn has_recall(&self) -> bool {
        let active = self.plan.pin.active.as_ref();
        self.may_recall && active.is_some_and(|active| active.recall)
    }

    /// Finds the insertion points of hidden pairs.
    fn find_pairs(&mut self, records: &Records, policy: &Policy<'_>) -> Result<Stage, MissingRecords> {
        let Some(live) = &records.conversation else {
            return Ok(Stage::Offer);
        };
        let Plan { pin, places, .. } = &mut self.plan;
        let new = insertion_points::find_pairs(&self.call, places, live, pin, records, policy)?;
        self.plan.effects.push(PlanWrite::KnowPairs(new));
        if !self.has_recall() && !self.plan.places.pairs.is_empty() {
            self.leave_out_searches();
        }
        Ok(Stage::Insertions)
    }

    /// Removes earlier search calls after an undo.
    ///
    /// The model then sees the full history again and has no search tool.
    fn leave_out_searches(&mut self) {
        let Self { call, plan, .. } = self;
        let searches = plan.places.pairs.extract_if(.., |pair| pair.tool == RECALL_NAME);
        let searches: Vec<_> = searches.map(|pair| pair.id).collect();
        if searches.is_empty() {
            return;
        }
        // Nothing before the cut is sent, and the cut is identified by its offset, which must not change.
        let from = plan.pin.turn().and_then(|turn| call.reading.view.turns.get(turn));
        let from = from.map_or(0, |turn| turn.span.end);
        if let Some(without) = notes::without_asides(&call.reading, &searches, from) {
            plan.pin.taken_out.replaced(call.replace(without), &call.reading);
        }
        plan.places.without_searches = searches;
    }

    /// Finds the insertion points of notices, and the thinking to leave out.
    fn find_insertions(&mut self, records: &Records, policy: &Policy<'_>) -> Result<Stage, MissingRecords> {
        let Some(live) = &records.conversation else {
            return Ok(Stage::Offer);
        };
        let Plan {
            pin, places, effects, ..
        } = &mut self.plan;
        let (taken_over, lost) =
            insertion_points::find_insertions(&self.call, places, live, pin, records, policy)?;
        if live.may_be_copy && policy.may_have_insertions {
            effects.push(PlanWrite::TakeOverInsertions(taken_over));
        }
        // Side calls share a session's id but not its transcript. A transcript that upstream stores has its
        // insertions.
        let lost = lost.filter(|_| self.call.is_agent_loop());
        effects.extend(lost.map(PlanWrite::LoseInsertions));
        Ok(Stage::Offer)
    }

    /// Decides whether the request gets the tool.
    fn decide(&mut self, records: &Records, policy: &Policy<'_>) -> Result<Stage, MissingRecords> {
        let Self { call, plan, .. } = self;
        let decision = offer::decide(call, &plan.pin, &plan.places, records, policy)?;
        plan.offer = offer::offer(call, &plan.pin, policy, self.may_recall);
        plan.offer.set(decision.untooled);
        plan.effects
            .extend(decision.is_kept.then_some(PlanWrite::DecideTool(decision)));
        if records.conversation.is_some() && call.is_agent_loop() {
            plan.effects.push(PlanWrite::Follow(plan.pin.active_id()));
        }
        Ok(Stage::Done)
    }
}
