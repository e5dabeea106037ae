//! A handoff as a document for people and tools. Pure.
//!
//! ```text
//! handoff, what was seen of its transcript (draft::seen) ─► fields: handoff.json ─► handoff.md, rendered from it
//! ```
//!
//! Knows handoffs, and what drafts read off a transcript. Must not know: stores, files, clocks, git. The same handoff
//! and the same transcript make the same bytes.

pub mod fields;
