//! Limits of the core that need no config key, each with its reason.

/// Bytes of a carry-over prompt.
pub const PROMPT: usize = 1 << 20;

/// Bytes of a leg's stream that are kept for a follow-up after a refused call; a longer stream is dropped.
pub const LEG_LOG: usize = 8 << 20;

/// Refused calls answered within one agent request.
pub const ASK_AGAIN: u32 = 2;

/// Minimum messages since the last cut for a handoff.
pub const LEAST_MESSAGES: usize = 2;

/// Texts that a user may pin in one conversation: each handoff carries them all.
pub const PINS: usize = 20;

/// Bytes of them all together: about a thousand tokens.
pub const PINNED_BYTES: usize = 4096;

/// Bytes of JSON that make about one token: the estimate for a request not yet counted by its provider.
pub const BYTES_PER_TOKEN: u64 = 4;
