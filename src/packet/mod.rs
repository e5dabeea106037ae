//! Packets: a handoff as a document for people and tools. Pure.
//!
//! ```text
//! handoff, what was seen of its transcript (draft::seen) ─► fields: handoff.json ─► handoff.md, rendered from it
//! ```
//! `ntm` is another document, the handoff file in YAML, which people and other tools write as well.
//!
//! Knows handoffs, and what drafts read off a transcript. Must not know: stores, files, clocks, git. The same handoff and
//! the same transcript make the same bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod fields;
pub mod ntm;
