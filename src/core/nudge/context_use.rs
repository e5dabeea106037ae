//! Decides when to notify a model of its filling context, and when to hand its session over without it.

use serde::{Deserialize, Serialize};

use crate::record::HandoffId;

/// Additional tokens before a model is notified again.
const AGAIN: u64 = 100_000;

/// Grace for finishing a step where none is marked as done: this share of the window, scaled by the threshold that was
/// passed.
const PATIENCE: f64 = 0.1;

/// Two handoffs within this many exchanges leave no room for work between them.
const CLOSE: u32 = 10;

/// Additional tokens before a failed handoff is retried.
const TRY_AGAIN: u64 = 20_000;

/// The thresholds of the config; zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Thresholds {
    /// The model is notified at this share of its window.
    pub nudge_at: f64,
    /// The model is notified from this many tokens on.
    pub nudge_tokens: u64,
    /// The session is handed over at this share.
    pub auto_at: f64,
    /// The model is notified at the end of a step where a handoff pays within the steps that are left.
    pub nudge_pays: bool,
}

/// The thresholds of one model, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelThresholds {
    /// The model is notified from here on.
    nudge: Option<u64>,
    /// The model is notified from here on without waiting for the end of a step.
    late: Option<u64>,
    /// The session is handed over.
    auto: Option<u64>,
}

impl Thresholds {
    /// The limits of a model with this window. Where it is unknown, the threshold in tokens is the only one.
    pub fn of(&self, window: Option<u64>) -> ModelThresholds {
        let share = |at: f64| {
            let window = window.filter(|_| at > 0.0)?;
            Some((window as f64 * at) as u64)
        };
        let tokens = Some(self.nudge_tokens).filter(|tokens| *tokens > 0);
        let nudge = share(self.nudge_at).into_iter().chain(tokens).min();
        // A threshold in tokens scales it in proportion.
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

impl ModelThresholds {
    /// The tokens from which on the model is notified.
    pub fn nudge(&self) -> Option<u64> {
        self.nudge
    }
}

/// The decision for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NudgeDecision {
    Nothing,
    /// The model is notified, at this use.
    Nudge {
        /// Tokens of its context.
        tokens: u64,
    },
    /// The session is handed over, at this use.
    HandOff {
        /// Tokens of its context.
        tokens: u64,
    },
}

named! {
    /// Why a model gets no more nudges: it would hand over in a loop.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffLoop {
        /// What follows the cut is over the threshold by itself.
        LargeCut = "large_cut",
        /// Two handoffs came in close succession.
        CloseHandoffs = "close_handoffs",
    }
}

/// Outcome of a nudge in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NudgeOutcome {
    /// The model was notified.
    #[serde(rename = "told")]
    Notified,
    /// The model handed over after a nudge.
    Followed,
    /// A nudge was due and could not be stored.
    NotWritten,
    /// An automatic handoff produced no draft.
    AutoFailed,
    /// A shadow: a notice would have been given, an automatic handoff made, one that costs nothing, or one behind a plan.
    #[serde(rename = "would_tell")]
    WouldNotify,
    WouldHandOver,
    WouldCutFree,
    WouldFollowPlan,
    /// The model gets no more nudges in this task.
    #[serde(untagged)]
    Stopped(HandoffLoop),
}

/// What would have been sent with a request in its shadow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShadowMoment {
    /// The name of the [`NudgeOutcome`].
    pub what: String,
    /// The notice, or the carry-over prompt of a draft without a model.
    pub text: String,
    /// Dollars that a handoff here is expected to save; negative where it costs, none without a price.
    #[serde(serialize_with = "crate::bill::dollars")]
    pub saved: Option<f64>,
}

impl NudgeOutcome {
    /// Every outcome.
    pub const ALL: [Self; 10] = [
        Self::Notified,
        Self::Followed,
        Self::NotWritten,
        Self::AutoFailed,
        Self::Stopped(HandoffLoop::LargeCut),
        Self::Stopped(HandoffLoop::CloseHandoffs),
        Self::WouldNotify,
        Self::WouldHandOver,
        Self::WouldCutFree,
        Self::WouldFollowPlan,
    ];

    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notified => "told",
            Self::Followed => "followed",
            Self::NotWritten => "not_written",
            Self::AutoFailed => "auto_failed",
            Self::Stopped(why) => why.name(),
            Self::WouldNotify => "would_tell",
            Self::WouldHandOver => "would_hand_over",
            Self::WouldCutFree => "would_cut_free",
            Self::WouldFollowPlan => "would_follow_plan",
        }
    }
}

/// Token usage of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerUsage {
    /// The cut of the request that was answered.
    pub cut: Option<HandoffId>,
    /// Tokens of that request and its answer: what the next one begins with.
    pub tokens: u64,
    /// Tokens of that request alone.
    pub input: u64,
}

/// The context use of one thread, and its nudges. Usage is that of the newest answer *after* the present cut: an older
/// one does not describe what the model sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextUse {
    cut: Option<HandoffId>,
    measured: Option<u64>,
    /// Context use at the last notification.
    nudged: Option<u64>,
    /// The transcript holds a nudge of another process, or from before a restart.
    notified: bool,
    /// Context use at the last attempt of a handoff.
    tried: Option<u64>,
    /// Whether the first answer after the last handoff is still pending.
    first: bool,
    /// Exchanges since the last handoff that was seen.
    since: Option<u32>,
    treadmill: Option<HandoffLoop>,
}

impl ContextUse {
    /// Takes in a request of the thread, cut at `cut`; `notified`: the transcript holds a nudge after that cut.
    pub fn exchange(&mut self, cut: Option<HandoffId>, notified: bool) {
        if cut != self.cut {
            self.begin(cut);
        }
        self.since = self.since.map(|n| n.saturating_add(1));
        self.notified |= notified;
        self.count_notified();
    }

    /// Records a handoff. Returns the reason if the thread is in a handoff loop since.
    pub fn handed_over(&mut self, handoff: HandoffId) -> Option<HandoffLoop> {
        let close = self.since.is_some_and(|n| n <= CLOSE);
        self.begin(Some(handoff));
        self.first = true;
        self.since = Some(0);
        self.treadmill = close.then_some(HandoffLoop::CloseHandoffs);
        self.treadmill
    }

    /// Records the usage of a leg. Returns the reason if the thread is in a handoff loop since.
    pub fn measured(&mut self, answer: AnswerUsage, limits: &ModelThresholds) -> Option<HandoffLoop> {
        // An answer without usage changes nothing.
        if answer.cut != self.cut || answer.input == 0 {
            return None;
        }
        self.measured = Some(answer.tokens);
        self.count_notified();
        let most = limits.nudge.into_iter().chain(limits.auto).min();
        let large = most.is_some_and(|most| answer.input >= most);
        if std::mem::take(&mut self.first) && large && self.treadmill.is_none() {
            self.treadmill = Some(HandoffLoop::LargeCut);
            return self.treadmill;
        }
        None
    }

    /// Decides what to do with the present request. `step_done`: whether the model has just finished a step; called
    /// only where it matters.
    pub fn decide(&self, limits: &ModelThresholds, step_done: impl FnOnce() -> bool) -> NudgeDecision {
        let (Some(tokens), None) = (self.measured, self.treadmill) else {
            return NudgeDecision::Nothing;
        };
        let waited = self
            .tried
            .is_none_or(|tried| tokens >= tried.saturating_add(TRY_AGAIN));
        if waited && limits.auto.is_some_and(|auto| tokens >= auto) {
            return NudgeDecision::HandOff { tokens };
        }
        let (Some(nudge), Some(late)) = (limits.nudge, limits.late) else {
            return NudgeDecision::Nothing;
        };
        let patience = late - nudge;
        let from = match self.nudged {
            Some(last) => nudge.max(last.saturating_add(AGAIN)),
            None => nudge,
        };
        if tokens >= from && (tokens >= from.saturating_add(patience) || step_done()) {
            return NudgeDecision::Nudge { tokens };
        }
        NudgeDecision::Nothing
    }

    /// Whether the model may be notified for another reason than the size of its context; the context's tokens, then.
    pub fn may_notify(&self) -> Option<u64> {
        let is_open = self.treadmill.is_none() && self.nudged.is_none() && !self.notified;
        self.measured.filter(|_| is_open)
    }

    /// Records that the model is notified with the present request.
    pub fn nudged(&mut self) {
        self.nudged = self.measured;
    }

    /// Records a failed handoff.
    pub fn tried(&mut self) {
        self.tried = self.measured;
    }

    /// Whether the model was notified after the present cut.
    pub fn was_nudged(&self) -> bool {
        self.nudged.is_some()
    }

    /// The handoff that it is cut at.
    pub fn cut(&self) -> Option<HandoffId> {
        self.cut
    }

    /// Tokens of its context, where they are known.
    pub fn tokens(&self) -> Option<u64> {
        self.measured
    }

    /// Why nothing is decided any more.
    pub fn treadmill(&self) -> Option<HandoffLoop> {
        self.treadmill
    }

    /// The use at the notification is unknown: growth counts from the first known use.
    fn count_notified(&mut self) {
        if self.notified && self.nudged.is_none() {
            self.nudged = self.measured;
        }
    }

    /// Usage before an older cut is void after this one.
    fn begin(&mut self, cut: Option<HandoffId>) {
        *self = Self {
            cut,
            since: self.since,
            ..Self::default()
        };
    }
}
