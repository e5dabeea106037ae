//! Stages of a plan. Each one runs once it has its records.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    AgentCall, CutPosition, CutTarget, InsertionPoints, Known, MissingRecords, Need, Policy, Records,
    ToolDecision, ToolOffer, active, commands, cut_target, insertion_points, offer,
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

/// The outcome of a stage, as the change that applies it. Returns the next stage.
type StageCommit<'a> = Box<dyn FnOnce(&mut Planner) -> Stage + 'a>;

/// A stage reads, and returns its outcome or the records that it lacks.
type StageResult<'a> = Known<StageCommit<'a>>;

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
        let previous = previous.map(|previous| Need::Response(previous.id.clone()));
        let needs = newest.map(active::meant).into_iter().chain(previous);
        needs.chain([call.pairs_after(cut, from)]).collect()
    }

    /// Plans as far as the records reach.
    ///
    /// # Errors
    /// Returns the records to read before calling `advance` again.
    pub fn advance(&mut self, records: &Records, policy: &Policy<'_>) -> Known<()> {
        loop {
            let commit = match self.stage {
                // Commands come first, because their removal moves all offsets.
                Stage::Commands => self.take_commands_out(records, policy)?,
                Stage::CutTarget => self.find_cut_target(records, policy)?,
                Stage::Pairs => self.find_pairs(records, policy)?,
                Stage::Insertions => self.find_insertions(records, policy)?,
                Stage::Offer => self.decide(records, policy)?,
                Stage::Done => return Ok(()),
            };
            self.stage = commit(self);
        }
    }

    /// Returns the request to pass on, and its plan.
    pub fn done(self) -> (AgentCall, Plan) {
        (self.call, self.plan)
    }

    /// Removes chat commands. All offsets, and possibly the last user message, change.
    fn take_commands_out(&self, records: &Records, policy: &Policy<'_>) -> StageResult<'static> {
        let call = &self.call;
        let taken = commands::taken_out(&call.reading, records.conversation.as_ref(), policy)?;
        // A side call has the same results, and would execute the commands twice.
        let executes = taken.is_some() && call.is_agent_loop() && !call.is_side_call();
        let interjected = match executes {
            true => notes::interjected(&call.reading, policy.look),
            false => Vec::new(),
        };
        let unanswered = taken.is_some() && notes::has_unanswered(&call.reading.view, policy.look);
        Ok(Box::new(move |planner| {
            if let Some(taken) = taken {
                let Self { call, plan, .. } = planner;
                plan.pin.interjected = interjected;
                let before = call.replace(taken.reading);
                // The offsets of all sentinels have moved.
                call.candidates = call.reading.candidates();
                plan.pin.undone = taken.undone;
                plan.pin.taken_out.unanswered = unanswered;
                plan.pin.taken_out.removed = Some(taken.removed);
                plan.pin.taken_out.original = Some((&before.view).into());
            }
            Stage::CutTarget
        }))
    }

    /// Finds the cut target of the request.
    fn find_cut_target<'a>(&self, records: &Records, policy: &'a Policy<'_>) -> StageResult<'a> {
        let found = cut_target::find(&self.call, &self.plan.pin, records, policy)?;
        Ok(Box::new(move |planner| {
            let effects = &mut planner.plan.effects;
            effects.extend(found.taken_over.into_iter().map(PlanWrite::TakeOverCutPoint));
            effects.extend(found.relies_on.map(PlanWrite::KeepCutPoint));
            planner.plan.pin.set(found.pin);
            planner.cut_at_draft();
            let Self { call, plan, .. } = planner;
            let recalls = plan.pin.active.as_ref().is_some_and(|active| active.recall);
            // The configuration offers no search tool now, but requests with this cut still have it. So calls of that
            // name count as baton's.
            if !policy.recall && recalls && call.may_recall() {
                planner.may_recall = true;
                call.reading.view.facts.ours = policy.tools.recall.names();
                call.edition += 1;
            }
            Stage::Pairs
        }))
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
    fn find_pairs(&self, records: &Records, policy: &Policy<'_>) -> StageResult<'static> {
        let Some(live) = &records.conversation else {
            return Ok(Box::new(|_| Stage::Offer));
        };
        let found = insertion_points::find_pairs(&self.call, live, &self.plan.pin, records, policy)?;
        Ok(Box::new(move |planner| {
            planner.plan.places.pairs = found.pairs;
            planner.plan.places.beside_calls = found.beside_calls;
            planner.plan.places.lapses = found.lapses;
            planner.plan.effects.push(PlanWrite::KnowPairs(found.new));
            if !planner.has_recall() && !planner.plan.places.pairs.is_empty() {
                planner.leave_out_searches();
            }
            Stage::Insertions
        }))
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
    fn find_insertions(&self, records: &Records, policy: &Policy<'_>) -> StageResult<'static> {
        let Some(live) = &records.conversation else {
            return Ok(Box::new(|_| Stage::Offer));
        };
        let found = insertion_points::find_insertions(&self.call, live, &self.plan.pin, records, policy)?;
        let takes_over = live.may_be_copy && policy.may_have_insertions;
        Ok(Box::new(move |planner| {
            let Plan { places, effects, .. } = &mut planner.plan;
            places.insertions = found.placed;
            places.omitted = places.omitted.max(found.omitted);
            effects.extend(takes_over.then_some(PlanWrite::TakeOverInsertions(found.taken_over)));
            // Side calls share a session's id but not its transcript. A transcript that upstream stores has its
            // insertions.
            let lost = found.lost.filter(|_| planner.call.is_agent_loop());
            effects.extend(lost.map(PlanWrite::LoseInsertions));
            Stage::Offer
        }))
    }

    /// Decides whether the request gets the tool.
    fn decide(&self, records: &Records, policy: &Policy<'_>) -> StageResult<'static> {
        let Self { call, plan, .. } = self;
        let decision = offer::decide(call, &plan.pin, &plan.places, records, policy)?;
        let mut offer = offer::offer(call, &plan.pin, policy, self.may_recall);
        offer.set(decision.untooled);
        let follows = records.conversation.is_some() && call.is_agent_loop();
        Ok(Box::new(move |planner| {
            let Plan { pin, effects, .. } = &mut planner.plan;
            effects.extend(decision.is_kept.then_some(PlanWrite::DecideTool(decision)));
            effects.extend(follows.then(|| PlanWrite::Follow(pin.active_id())));
            planner.plan.offer = offer;
            Stage::Done
        }))
    }
}
