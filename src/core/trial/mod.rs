//! What handoffs would have done in sessions that agents have recorded: each session is read as the sizes of its calls,
//! and these are run against the arms of [`bill`](crate::bill).
//!
//! ```text
//! an agent's lines ─► session (calls with usage and times) ─► counted once ─► sizes ─► arms ─► report
//! ```
//! Knows how agents record calls. Must not know files, databases, clocks: entries come in one at a time, and no text of a
//! session is kept but the beginning of its first request.

mod reader;
mod reckon;
mod report;
mod session;
mod sizes;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use reader::TrialReader;
pub use reckon::{ARMS, ArmResult, Reckoned, reckon};
pub use report::{ArmSum, GroupSum, Outcome, TrialReport, Verdict};
pub use session::{RecordedCall, RecordedSession, SubscriptionUse, counted_once};
pub use sizes::{MAX_CALLS, sizes};
