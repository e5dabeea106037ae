//! The effect of handoffs in recorded sessions: each session is replayed call by call under policies that decide when to cut.
//!
//! ```text
//! an agent's lines ─► session (calls with usage and times) ─► counted once ─► replay under each policy ─► report
//! ```
//! Depends on the format of agents' session files, and not on file systems, databases or clocks. Entries come in one at a time. Of their
//! text, only the beginning of a session's first request is kept.

mod lost;
mod policies;
mod reader;
mod reckon;
mod replay;
mod report;
mod session;
mod sizes;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use lost::{LossCause, LostCaches, lost_cache};
pub use policies::{JOURNAL_POLICIES, JOURNAL_SHADOW, POLICIES, Policy};
pub use reader::{MissedReader, TrialReader};
pub use reckon::{ArmResult, DEFAULT_FOLLOW_SHARE, ModelUse, Reckoned, TrialSettings, reckon};
pub use replay::{ReplayBill, ReplayCut};
pub use report::{ArmSum, GroupSum, Judged, LengthSum, Outcome, TrialReport, Verdict};
pub use session::{RecordedCall, RecordedSession, SubscriptionUse, counted_once};
pub use sizes::tool_tokens;
