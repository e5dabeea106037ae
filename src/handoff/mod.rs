//! What a handoff is, and what it does to a transcript.
//!
//! Knows sentinels, the tool, hidden pairs and the plan of a rewrite. Knows a wire only by its trait, and
//! no socket, store or clock at all.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod breaker;
mod pasted;
pub mod place;
pub mod plan;
pub mod preamble;
pub mod record;
pub mod seal;
pub mod sentinel;
pub mod summary;
pub mod tool;
pub mod untooled;
