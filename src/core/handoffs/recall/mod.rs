//! Recall: lets the model search the part of a conversation that handoffs cut. Pure.
//!
//! ```text
//! the part that was cut ─► index ───────────────────────────┐
//! question ─► words, their stems, words of like meaning ────┴► passages ranked ─► excerpts, redacted
//! ```
//! The index is built from the current request, because the agent sends its whole history each time. It is dropped
//! after the answer. Neither the history that the model still sees nor earlier recalls are searched; no agent's
//! transcript contains the recalls. The same transcript and question give the same answer.
//!
//! Depends on transcripts and the tables of `agents`. Must not depend on stores, clocks or the caller.

mod answer;
mod index;
mod question;
mod rank;
mod sections;

#[cfg(test)]
mod tests;

pub use answer::RecallAnswer;
pub(in crate::handoffs) use answer::found_nothing;
pub use index::RecallIndex;
pub use question::Question;
pub(in crate::handoffs) use question::is_empty_word;
pub use sections::{CutPart, RecallIndexSettings};
