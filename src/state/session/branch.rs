//! The branch of a conversation that a request belongs to: its context use and its costs.

use std::sync::Arc;

use super::{BranchId, LiveConversation};
use baton_core::bill::{CutLedger, RequestCosts, TokenCounts};
use baton_core::nudge::{ContextUse, ModelThresholds, NudgeOutcome, NudgeWording};
use baton_core::plan::BranchState;
use baton_core::quota::{UsageLimit, near_limit};
use baton_core::record::HandoffId;
use baton_core::wire::LegReport;

/// The branch of an exchange, with its thresholds.
#[derive(Clone)]
pub struct ContextBranch {
    pub live: Arc<LiveConversation>,
    pub branch: BranchId,
    pub limits: ModelThresholds,
    pub window: Option<u64>,
    pub nudge_pays: bool,
    pub wording: NudgeWording,
    pub costs: Option<Arc<RequestCosts>>,
}

impl ContextBranch {
    /// Returns the current state of the branch.
    pub fn state(&self) -> Option<BranchState<'_>> {
        let context = self.with(|context| context.clone())?;
        let costs = self.live.costs(self.branch, |costs| costs.clone())?;
        Some(BranchState {
            context,
            limits: self.limits,
            window: self.window,
            wording: self.wording,
            nudge_pays: self.nudge_pays,
            bill: self.costs(),
            costs,
        })
    }

    /// Records the near one of the usage limits that a response states.
    pub fn note_limits(&self, limits: &[UsageLimit], now_ms: u64) {
        let limit = near_limit(limits, now_ms);
        self.live.costs(self.branch, |costs| costs.limit = limit);
    }

    /// Records that the model got a notice.
    pub fn notified(&self) {
        self.with(ContextUse::nudged);
        self.live.costs(self.branch, |costs| {
            // Until the limit resets, the model is not notified of it again.
            costs.notified_limit = costs.limit.map(|limit| limit.resets_ms);
        });
    }

    /// Measures the context by the usage of a leg's response. Returns the reason why notices stop, if they
    /// do.
    ///
    /// `bytes` is the size of the request, which is cut at `cut`.
    pub fn measure(&self, bytes: u64, cut: Option<HandoffId>, leg: &LegReport) -> Option<NudgeOutcome> {
        if let Some(request) = self.costs() {
            let counts = TokenCounts::from(leg.usage);
            self.live.costs(self.branch, |costs| {
                // After a response of the model, a cut may be offered again.
                costs.offered = false;
                let ledger = &mut costs.ledger;
                ledger.answered(request, counts, leg.served.cache_miss, bytes);
            });
        }
        self.with(|context| context.measured(cut, leg.usage, &self.limits))?
    }

    /// Returns the billing data of the request. `None` if no cut depends on it.
    pub fn costs(&self) -> Option<&RequestCosts> {
        self.costs.as_deref()
    }

    /// Calls `with` on the ledger that decides when a cut of this branch pays off.
    ///
    /// Returns the result of `with`, or `None` if the branch was evicted.
    pub fn ledger<T>(&self, with: impl FnOnce(&mut CutLedger) -> T) -> Option<T> {
        self.live.costs(self.branch, |costs| with(&mut costs.ledger))
    }

    /// Records that the user was offered a cut, which happens once between two of the model's responses.
    pub fn offered_cut(&self) {
        self.live.costs(self.branch, |costs| costs.offered = true);
    }

    /// Records that a handoff has taken effect. Returns whether it followed a notice, and why notices stop.
    pub fn handed_over(&self, handoff: HandoffId) -> impl Iterator<Item = NudgeOutcome> + use<> {
        self.ledger(CutLedger::handed_over);
        let context = self.with(|context| (context.was_nudged(), context.handed_over(handoff)));
        let (followed, stopped) = context.unwrap_or_default();
        let followed = followed.then_some(NudgeOutcome::Followed);
        followed.into_iter().chain(stopped)
    }

    /// Records that a draft failed. No threshold begins another one until the context has grown further.
    pub fn draft_failed(&self) {
        self.with(ContextUse::tried);
    }

    fn with<T>(&self, change: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        self.live.context(self.branch, change)
    }
}
