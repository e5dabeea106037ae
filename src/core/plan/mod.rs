//! Decides how an agent's request is handled, without IO.
//!
//! ```text
//! missing records ─► (the driver reads) ─► Records ─► Planner::advance ─► Plan: cut target, insertion points, offer, writes
//!                                            ▲            └ a record is missing
//!                                            └────────────────┘
//! ```
//!
//! A stage reads the plan so far, and returns the change that applies its outcome, or the records that it lacks.
//! Depends on the request, the records and the policy, but not on stores or clocks.

mod active;
mod call;
mod commands;
mod cut_target;
mod drafted;
mod flattened;
mod insertion_points;
mod later_leg;
mod legs;
mod moment;
mod offer;
mod planned_request;
mod planner;
mod policy;
mod records;
mod remedy;
mod responder;
mod undo;

#[cfg(test)]
mod tests;

pub use self::active::{Active, CutPosition, CutTargetLookup, Unresolved};
pub use self::call::{AgentCall, CallFacts, is_agent_loop, is_model_call, opening, resends};
pub use self::commands::{RemovedCommands, handoff_to_resume, resumed_text};
pub use self::cut_target::CutTarget;
pub use self::insertion_points::InsertionPoints;
pub(crate) use self::later_leg::LegAttempts;
pub use self::later_leg::{NextLeg, RetryPolicy, is_retryable};
pub use self::legs::{HandoffSource, NewHandoff, RuleQuery};
pub use self::moment::{BranchCosts, BranchState, DueStep, ShadowDecision};
pub use self::offer::{ToolDecision, ToolOffer};
pub use self::planned_request::PlannedRequest;
pub use self::planner::{Plan, PlanWrite, Planner};
pub use self::policy::{Policy, RefusedModels};
pub use self::records::{
    Answer, Known, KnownConversation, ListedRecords, MissingRecords, Need, PairsAfter, Records,
};
pub use self::remedy::{Retry, refuses_model, replaces_refusal};
pub use self::responder::{Decision, DueHandoff, FreeCutPolicy, OpenDraft, RespondInput, Responder};
pub use self::undo::UndoQuery;
