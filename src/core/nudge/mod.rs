//! Decides when a model should hand over, from its context use, its window and the configured thresholds. Pure.
//!
//! ```text
//! usage of a response ─► ContextUse ─► NudgeDecision: nothing yet | notify the model (a nudge) | hand off
//!                            ▲
//!        requests, handoffs ─┘
//! ```
//!
//! Depends on tables of models and agents, and on transcripts to look for a finished step. Does not depend on the position
//! of a nudge in a request, on the author of a draft, or on clocks.

mod context_use;
mod models;
mod steps;
#[cfg(test)]
mod tests;
mod windows;
mod wording;

pub use context_use::{ContextUse, ModelThresholds, NudgeDecision, NudgeOutcome, ShadowMoment, Thresholds};
pub use steps::{StepsLeft, plan_accepted, step_done, steps_left};
pub use windows::{
    AGENTS, Compaction, OLDER, PRESENT, WindowQuery, Windows, compaction_point, declares_windows,
};
pub use wording::{NudgeWording, is_nudge, limit_text, paying_text, text};
