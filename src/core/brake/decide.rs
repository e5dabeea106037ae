//! Decides on a request.

use super::policy::{Account, BudgetUnit, is_same_again};
use super::repeats::RepeatedCall;
use crate::record::{Ledger, LoopMark};

named! {
    /// Outcome of the brake for a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BrakeOutcome {
        /// The model was told that little is left, or that it repeats itself.
        Told = "told",
        /// A user's message passed though the budget is used up.
        Passed = "passed",
        /// The agent was stopped at a budget.
        StoppedBudget = "stopped_budget",
        /// The agent was stopped because it repeated itself.
        StoppedLoop = "stopped_loop",
        /// The agent was stopped because the user had stopped the session.
        StoppedUser = "stopped_user",
        /// The user let a stopped agent continue.
        #[serde(rename = "went_on")]
        Released = "went_on",
    }
}

impl BrakeOutcome {
    /// Whether the agent's request was not sent.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::StoppedBudget | Self::StoppedLoop | Self::StoppedUser)
    }
}

/// Why the brake acts.
#[derive(Debug, Clone, PartialEq)]
pub enum BrakeReason<'a> {
    /// A budget is used up, or nearly so.
    Budget(&'a Account, BudgetUnit),
    /// The model repeats a call.
    Repeat(RepeatedCall),
    /// The agent repeats a request that has had this many complete responses.
    SameRequest(u32),
    /// The user stopped the session.
    Halted,
}

/// The decision for a request.
#[derive(Debug, Clone, PartialEq)]
pub enum BrakeDecision<'a> {
    /// The request passes.
    Pass,
    /// The request passes with a notice to the model.
    TellModel(BrakeReason<'a>),
    /// The request passes with a notice to the user, before the model's response.
    TellUser(BrakeReason<'a>),
    /// The request is not sent, and the response is a finished turn.
    End(BrakeReason<'a>),
}

/// A request, as the brake sees it.
#[derive(Debug, Clone)]
pub struct BrakeInput<'a> {
    /// Accounts that the request is charged to, the session's first.
    pub accounts: &'a [Account],
    /// Whether the request continues the agent's own work.
    pub continues: bool,
    /// The call that the model repeats.
    pub repeat: Option<RepeatedCall>,
    /// Hash of the request.
    pub request: u64,
}

/// Decides on a request.
pub fn decide<'a>(input: &BrakeInput<'a>) -> BrakeDecision<'a> {
    let used_up = input.accounts.iter().find_map(|account| {
        let unit = account.used_up()?;
        Some(BrakeReason::Budget(account, unit))
    });
    let session = input.accounts.first().map(|account| &account.ledger);
    let is_halted = session.is_some_and(|ledger| ledger.halted);
    // The user's own stop is reported rather than a budget.
    let stop = is_halted.then_some(BrakeReason::Halted).or(used_up);
    match (stop, input.continues) {
        (Some(reason), true) => return BrakeDecision::End(reason),
        // A user's message always passes, since the user is there to decide.
        (Some(reason), false) => return BrakeDecision::TellUser(reason),
        (None, true) => {}
        (None, false) => return near(input),
    }
    // Only requests without new user input get here, so a user who repeats a message is never stopped as a loop.
    if let Some(ledger) = session.filter(|ledger| ledger.request == input.request)
        && is_same_again(ledger)
    {
        return BrakeDecision::End(BrakeReason::SameRequest(ledger.repeats));
    }
    match input.repeat.clone() {
        Some(repeat) if over(&repeat, session) > 0 => BrakeDecision::End(BrakeReason::Repeat(repeat)),
        Some(repeat) if over(&repeat, session) == 0 => BrakeDecision::TellModel(BrakeReason::Repeat(repeat)),
        _ => near(input),
    }
}

/// The notice that little is left of a budget.
fn near<'a>(input: &BrakeInput<'a>) -> BrakeDecision<'a> {
    let near = input.accounts.iter().find_map(|account| {
        let unit = account.nearly_used_up()?;
        Some(BrakeReason::Budget(account, unit))
    });
    near.map_or(BrakeDecision::Pass, BrakeDecision::TellModel)
}

/// Number of repetitions since the model was told, without those that the user let pass; negative before that.
fn over(repeat: &RepeatedCall, session: Option<&Ledger>) -> i64 {
    let passed = session.map_or(&[][..], |ledger| &ledger.passed);
    let passed = passed.iter().find(|mark| mark.key == repeat.mark.key);
    // After a compaction the transcript has fewer calls than the user let pass.
    let passed = passed.map_or(0, |mark: &LoopMark| {
        mark.count.min(repeat.mark.count.saturating_sub(1))
    });
    i64::from(repeat.mark.count) - i64::from(passed) - i64::from(repeat.kind.told_at())
}
