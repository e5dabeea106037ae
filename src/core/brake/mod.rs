//! The brake: an agent that works on its own stops before it has spent too much, or when it repeats itself. Pure.
//!
//! ```text
//! ledgers and limits ─┐
//! calls ─► RepeatedCall ├─► decide ─► pass | tell the model | pass, and tell the user | end
//! request ─────────────┘
//! ```
//! Only a request that continues the agent's own work can be stopped. The user's new message always passes. The brake
//! compares calls and not numbers of messages: a transcript also shrinks by a cut or a compaction, which is not a loop.
//!
//! Must not depend on stores, clocks or prices, or on how a response is sent.

mod decide;
mod policy;
mod repeats;
#[cfg(test)]
mod tests;
mod wording;

pub use decide::{BrakeDecision, BrakeInput, BrakeOutcome, BrakeReason, decide};
pub use policy::{Account, AccountKind, BrakePolicy, BudgetUnit, DAY_MS, MICRODOLLARS, parse_dollars};
pub use repeats::{RepeatKind, RepeatedCall, continues_own_work, opening, repeated_call};
pub use wording::{
    EndText, ends, go_on, halted, model_notice, nothing_braked, off, provider_limit, status_line, user_notice,
};
