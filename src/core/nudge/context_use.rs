//! Decides when to notify a model of its filling context, and when to hand its session over without it.

use serde::{Deserialize, Serialize};

use crate::record::HandoffId;
use crate::wire::Usage;

/// Additional tokens before a model is notified again.
const RENOTIFY_TOKENS: u64 = 100_000;

/// Grace for a model that marks no step as done, as a share of the window.
///
/// If the threshold is a number of tokens, the grace is proportional to it.
const PATIENCE: f64 = 0.1;

/// Two handoffs within this many exchanges leave no room for work between them.
const MIN_HANDOFF_DISTANCE: u32 = 10;

/// Additional tokens before a failed handoff is retried.
const RETRY_TOKENS: u64 = 20_000;

/// Configured thresholds. Zero turns a threshold off.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Thresholds {
    /// Minimum share of the window for a notice to the model.
    pub nudge_at: f64,
    /// Minimum number of tokens for a notice to the model.
    pub nudge_tokens: u64,
    /// Minimum share of the window for an automatic handoff.
    pub auto_at: f64,
    /// Whether the model is notified at the end of a step, if a handoff pays within the remaining steps.
    pub nudge_pays: bool,
}

/// Thresholds of one model, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelThresholds {
    /// Minimum context use for a notice to the model.
    pub nudge: Option<u64>,
    /// Minimum context use for a notice that does not wait for the end of a step.
    late: Option<u64>,
    /// Minimum context use for an automatic handoff.
    auto: Option<u64>,
}

impl Thresholds {
    /// Computes the limits of a model with this window.
    ///
    /// If the window is unknown, only the threshold in tokens applies.
    pub fn of(&self, window: Option<u64>) -> ModelThresholds {
        let share = |at: f64| {
            let window = window.filter(|_| at > 0.0)?;
            Some((window as f64 * at) as u64)
        };
        let tokens = Some(self.nudge_tokens).filter(|tokens| *tokens > 0);
        let nudge = share(self.nudge_at).into_iter().chain(tokens).min();
        // A threshold in tokens scales the grace in proportion.
        let scale = if self.nudge_at > 0.0 { self.nudge_at } else { 0.5 };
        let late = nudge.map(|nudge| nudge.saturating_add((nudge as f64 * PATIENCE / scale) as u64));
        ModelThresholds {
            nudge,
            late,
            auto: share(self.auto_at),
        }
    }

    /// Whether all thresholds are off.
    pub fn are_off(&self) -> bool {
        self.nudge_at <= 0.0 && self.nudge_tokens == 0 && self.auto_at <= 0.0 && !self.nudge_pays
    }
}

/// The decision for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NudgeDecision {
    Nothing,
    /// The model is notified at this context use, in tokens.
    Nudge(u64),
    /// The session is handed over at this context use, in tokens.
    HandOff(u64),
}

named! {
    /// Outcome of a nudge in an exchange.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NudgeOutcome {
        /// The model was notified.
        #[serde(rename = "told")]
        Notified = "told",
        /// The model handed over after a nudge.
        Followed = "followed",
        /// A nudge was due but could not be stored.
        NotWritten = "not_written",
        /// An automatic handoff produced no draft.
        AutoFailed = "auto_failed",
        /// The context was above a threshold right after a cut. Another handoff would not shrink it, so the model
        /// gets no more nudges in this task.
        LargeCut = "large_cut",
        /// Two handoffs came in close succession, so the model gets no more nudges in this task.
        CloseHandoffs = "close_handoffs",
        /// In shadow mode: the model would have been notified.
        #[serde(rename = "would_tell")]
        WouldNotify = "would_tell",
        /// In shadow mode: a threshold would have caused a handoff.
        WouldHandOver = "would_hand_over",
        /// In shadow mode: a handoff would have cost nothing.
        WouldCutFree = "would_cut_free",
        /// In shadow mode: a handoff would have followed the plan that the user has just accepted.
        WouldFollowPlan = "would_follow_plan",
    }
}

/// Action that shadow mode would have taken on a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowMoment {
    /// Name of the [`NudgeOutcome`].
    pub what: String,
    /// The notice, or the carry-over prompt of a draft without a model.
    pub text: String,
    /// Dollars that a handoff here is expected to save; negative if it costs money, `None` without a price.
    #[serde(serialize_with = "crate::bill::dollars")]
    pub saved: Option<f64>,
}

impl NudgeOutcome {
    /// Whether the model gets no more nudges in this task, because it would hand over in a loop.
    pub fn stops(self) -> bool {
        matches!(self, Self::LargeCut | Self::CloseHandoffs)
    }
}

/// Context use of one branch, and its nudges.
///
/// Usage is that of the newest response *after* the present cut, because an older one does not describe the
/// model's view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextUse {
    /// Handoff that the branch is cut at.
    pub cut: Option<HandoffId>,
    /// Tokens of the context, if known.
    pub tokens: Option<u64>,
    /// Context use at the last notification.
    nudged: Option<u64>,
    /// Whether the transcript holds a nudge of another process, or from before a restart.
    notified: bool,
    /// Context use at the last attempt of a handoff.
    tried: Option<u64>,
    /// Whether the first response after the last handoff is still pending.
    first: bool,
    /// Exchanges since the last handoff that was seen.
    since: Option<u32>,
    /// Handoff loop that stops all further decisions.
    pub(super) treadmill: Option<NudgeOutcome>,
}

impl ContextUse {
    /// Records a request of the branch, cut at `cut`. `notified` means that the transcript holds a nudge
    /// after that cut.
    pub fn exchange(&mut self, cut: Option<HandoffId>, notified: bool) {
        if cut != self.cut {
            self.begin(cut);
        }
        self.since = self.since.map(|n| n.saturating_add(1));
        self.notified |= notified;
        self.count_notified();
    }

    /// Records a handoff. Returns the reason if the branch is in a handoff loop since.
    pub fn handed_over(&mut self, handoff: HandoffId) -> Option<NudgeOutcome> {
        // Counted before `begin`, which starts over for the new cut.
        let close = self.since.is_some_and(|n| n <= MIN_HANDOFF_DISTANCE);
        self.begin(Some(handoff));
        self.first = true;
        self.since = Some(0);
        self.treadmill = close.then_some(NudgeOutcome::CloseHandoffs);
        self.treadmill
    }

    /// Records the usage of a leg, in a request cut at `cut`. Returns the reason if the branch is in a
    /// handoff loop since.
    pub fn measured(
        &mut self,
        cut: Option<HandoffId>,
        usage: Usage,
        limits: &ModelThresholds,
    ) -> Option<NudgeOutcome> {
        let input = usage.all_input();
        // A response without usage changes nothing.
        if cut != self.cut || input == 0 {
            return None;
        }
        // The next request begins with this input and output.
        self.tokens = Some(input.saturating_add(usage.output));
        self.count_notified();
        // A context that is above a threshold right after a cut would cause the next handoff at once.
        let most = limits.nudge.into_iter().chain(limits.auto).min();
        let large = most.is_some_and(|most| input >= most);
        if std::mem::take(&mut self.first) && large && self.treadmill.is_none() {
            self.treadmill = Some(NudgeOutcome::LargeCut);
            return self.treadmill;
        }
        None
    }

    /// Decides on an action for the present request.
    ///
    /// `step_done` tells whether the model has just finished a step. It is called only if the result depends
    /// on it, because it reads the transcript.
    pub fn decide(&self, limits: &ModelThresholds, step_done: impl FnOnce() -> bool) -> NudgeDecision {
        let (Some(tokens), None) = (self.tokens, self.treadmill) else {
            return NudgeDecision::Nothing;
        };
        let waited = self
            .tried
            .is_none_or(|tried| tokens >= tried.saturating_add(RETRY_TOKENS));
        // Checked before the nudge, because a handoff makes it needless.
        if waited && limits.auto.is_some_and(|auto| tokens >= auto) {
            return NudgeDecision::HandOff(tokens);
        }
        let (Some(nudge), Some(late)) = (limits.nudge, limits.late) else {
            return NudgeDecision::Nothing;
        };
        let patience = late - nudge;
        let from = match self.nudged {
            // A model that ignored a notice gets no other one until its context has grown.
            Some(last) => nudge.max(last.saturating_add(RENOTIFY_TOKENS)),
            None => nudge,
        };
        if tokens >= from && (tokens >= from.saturating_add(patience) || step_done()) {
            return NudgeDecision::Nudge(tokens);
        }
        NudgeDecision::Nothing
    }

    /// Returns the context's tokens if the model may be notified for a reason other than the size of its
    /// context.
    pub fn may_notify(&self) -> Option<u64> {
        let is_open = self.treadmill.is_none() && self.nudged.is_none() && !self.notified;
        self.tokens.filter(|_| is_open)
    }

    /// Records that the model is notified with the present request.
    pub fn nudged(&mut self) {
        self.nudged = self.tokens;
    }

    /// Records a failed handoff.
    pub fn tried(&mut self) {
        self.tried = self.tokens;
    }

    /// Whether the model was notified after the present cut.
    pub fn was_nudged(&self) -> bool {
        self.nudged.is_some()
    }

    /// Counts growth from the first known use, because the use at the notification is unknown.
    fn count_notified(&mut self) {
        if self.notified && self.nudged.is_none() {
            self.nudged = self.tokens;
        }
    }

    /// Starts over after a new cut, because usage before it is void.
    fn begin(&mut self, cut: Option<HandoffId>) {
        *self = Self {
            cut,
            since: self.since,
            ..Self::default()
        };
    }
}
