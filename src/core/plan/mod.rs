//! What becomes of an agent's request, decided without IO.
//!
//! ```text
//! needs ─► (the driver reads) ─► Records ─► Planning::advance ─► Plan: pin, places, offer, effects
//!                                   ▲            └ lacks a record
//!                                   └────────────────┘
//! ```
//!
//! A stage that lacks a record has changed nothing, and runs again. Knows the request, what was read, and the policy; knows no
//! store and no clock.

mod active;
mod answered_by;
mod call;
mod commands;
mod drafted;
mod flattened;
mod later_leg;
mod legs;
mod moment;
mod offer;
mod pin;
mod places;
mod planned;
mod planning;
mod policy;
mod records;
mod remedy;
mod request_costs;
mod resume;
#[cfg(test)]
mod tests;
mod undo;

pub use self::active::{Active, CutPlace, PinLookup, Unresolved};
pub use self::answered_by::{AnsweredBy, Decision, DueHandoff, FreeCutPolicy, OpenDraft, Situation};
pub use self::call::{AgentCall, CallFacts, is_model_call, is_of_the_loop, opening, resends};
pub use self::commands::TakenOut;
pub(crate) use self::later_leg::LegAttempts;
pub use self::later_leg::{NextLeg, is_retryable, requested_pause};
pub use self::legs::{HandoffSource, NewHandoff, RuleQuery};
pub use self::moment::{DueStep, FreeMoment, ThreadCosts, ThreadState, WatchedMoment};
pub use self::offer::{ToolDecision, ToolOffer};
pub use self::pin::Pin;
pub use self::places::Places;
pub use self::planned::Planned;
pub use self::planning::{Effect, Plan, Planning};
pub use self::policy::{Policy, RefusedModels};
pub use self::records::{Answer, KnownConversation, ListedRecords, Need, Needs, PairsAfter, Records};
pub use self::remedy::{Retry, refuses_model, replaces_refusal};
pub use self::resume::{handoff_to_resume, resumed_text};
pub use self::undo::UndoQuery;
