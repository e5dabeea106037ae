//! What a handoff is, and what it does to a transcript.

pub mod record;
