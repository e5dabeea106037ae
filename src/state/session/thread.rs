//! The thread of a conversation that a request belongs to: how full its context is, and what it has cost.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{LiveConversation, ThreadId};
use baton_core::bill::{CutLedger, RequestCosts, TokenCounts};
use baton_core::nudge::{self, ContextUse, ModelThresholds, NudgeOutcome, NudgeWording};
use baton_core::plan::ThreadState;
use baton_core::record::HandoffId;
use baton_core::wire::LegReport;

/// The thread of an exchange, and its thresholds.
#[derive(Clone)]
pub struct ContextThread {
    pub live: Arc<LiveConversation>,
    pub thread: ThreadId,
    pub limits: ModelThresholds,
    pub window: Option<u64>,
    pub nudge_pays: bool,
    pub wording: NudgeWording,
    pub costs: Option<Arc<RequestCosts>>,
}

impl ContextThread {
    /// The thread as it is now, in requests that are cut at `cut`. By a draft that was written ahead, another process knew what
    /// the thread has cost.
    pub fn state(&self, cut: Option<HandoffId>) -> Option<ThreadState<'_>> {
        let context = self.with(|context| context.clone())?;
        let bill = self.costs();
        let ready = bill.and_then(|_| self.live.ready_draft(cut));
        let costs = self.live.costs(self.thread, |costs| {
            if let Some(draft) = ready.as_ref().filter(|_| costs.ledger.history().is_none()) {
                costs.ledger = CutLedger::resumed(&draft.last);
            }
            costs.clone()
        })?;
        Some(ThreadState {
            context,
            limits: self.limits,
            window: self.window,
            wording: self.wording,
            nudge_pays: self.nudge_pays,
            bill,
            costs,
            ready,
        })
    }

    /// Takes in what an answer's headers say of usage limits.
    pub fn note_limit<'h>(&self, header: impl Fn(&str) -> Option<&'h str>, now_ms: u64) {
        let limit = nudge::near_limit(header, now_ms);
        self.live.costs(self.thread, |costs| costs.limit = limit);
    }

    /// A notice is given.
    pub fn notified(&self) {
        self.with(ContextUse::nudged);
        self.live.costs(self.thread, |costs| {
            costs.notified_limit = costs.limit.map(|limit| limit.resets_ms);
        });
    }

    /// Measures the context by the usage of a leg that was answered, in a request of this many bytes, cut at `cut`. Returns why
    /// notices stop.
    pub fn measure(&self, bytes: u64, cut: Option<HandoffId>, leg: &LegReport) -> Option<NudgeOutcome> {
        if let Some(request) = self.costs() {
            let counts = TokenCounts::from(leg.usage);
            self.live.costs(self.thread, |costs| {
                costs.offered = false;
                let ledger = &mut costs.ledger;
                ledger.answered(request, counts, leg.served.cache_miss, bytes);
            });
        }
        self.with(|context| context.measured(cut, leg.usage, &self.limits))?
    }

    /// By what its request is billed; `None` where no cut depends on it.
    pub fn costs(&self) -> Option<&RequestCosts> {
        self.costs.as_deref()
    }

    /// Looks at what the thread has cost, or adds to it; `None` where it is forgotten.
    pub fn ledger<T>(&self, with: impl FnOnce(&mut CutLedger) -> T) -> Option<T> {
        self.live.costs(self.thread, |costs| with(&mut costs.ledger))
    }

    /// Has something wait until the thread's next request.
    pub fn set_pause(&self, until_next: oneshot::Sender<()>) {
        self.live.set_pause(self.thread, until_next);
    }

    /// The user is offered a cut: once between two answers of the model's.
    pub fn offered_cut(&self) {
        self.live.costs(self.thread, |costs| costs.offered = true);
    }

    /// A handoff has taken effect. Returns whether it followed a notice, and why notices stop.
    pub fn handed_over(&self, handoff: HandoffId) -> impl Iterator<Item = NudgeOutcome> + use<> {
        self.ledger(CutLedger::handed_over);
        let context = self.with(|context| (context.was_nudged(), context.handed_over(handoff)));
        let (followed, stopped) = context.unwrap_or_default();
        let followed = followed.then_some(NudgeOutcome::Followed);
        followed.into_iter().chain(stopped)
    }

    /// A draft failed: none is begun by a threshold again until the context has grown further.
    pub fn draft_failed(&self) {
        self.with(ContextUse::tried);
    }

    fn with<T>(&self, change: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        self.live.context(self.thread, change)
    }
}
