//! When a model should hand over: its context use against its model's window and the thresholds of the config. Pure.
//!
//! ```text
//! usage of an answer ─► ContextUse ─► NudgeDecision: nothing yet | tell the model (a nudge) | hand off
//!                          ▲
//!      requests, handoffs ─┘
//! ```
//! Knows tables of models and agents, and transcripts where it looks for a finished step. Must not know: where a nudge
//! is put into a request, who writes a draft, clocks.

mod context_use;
mod models;
mod quota;
mod steps;
#[cfg(test)]
mod tests;
mod windows;
mod wording;

pub use context_use::{ContextUse, ModelThresholds, NudgeDecision, NudgeOutcome, ShadowMoment, Thresholds};
pub use quota::{NearLimit, near_limit};
pub use steps::{StepsLeft, plan_accepted, step_done, steps_left};
pub use windows::{
    AGENTS, Compaction, OLDER, PRESENT, WindowQuery, Windows, compaction_point, declares_windows,
};
pub use wording::{NudgeWording, is_nudge, limit_text, paying_text, text};
