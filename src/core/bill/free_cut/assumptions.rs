//! The assumed costs of a cut besides its draft.

/// Tokens of a carry-over prompt.
pub(crate) const PROMPT: u64 = 1_500;

/// Tokens that are read again after a cut, and of each call that does so. Pessimistic: most cuts need less.
pub(crate) const READ_AGAIN: u64 = 20_000;
pub(crate) const READ: u64 = 5_000;
pub(crate) const READ_OUTPUT: u64 = 150;

/// Tokens of the summary that an agent's own compaction writes.
pub(crate) const SUMMARY: u64 = 4_000;
