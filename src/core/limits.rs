//! Limits of the core without a configuration key.

/// Maximum size of a carry-over prompt, in bytes.
pub const PROMPT: usize = 1 << 20;

/// Maximum bytes of a leg's stream kept for a follow-up after a refused call. A longer stream is dropped.
pub const LEG_LOG: usize = 8 << 20;

/// Maximum number of refused calls answered within one context of an agent request.
pub const ASK_AGAIN: u32 = 2;

/// Minimum number of messages since the last cut for a handoff.
pub const LEAST_MESSAGES: usize = 2;

/// Maximum number of statements pinned in one conversation. Each handoff carries all of them.
pub const PINS: usize = 20;

/// Maximum total size of the pinned statements in bytes, about a thousand tokens.
pub const PINNED_BYTES: usize = 4096;

/// Bytes of JSON per token, roughly. Used to estimate requests that the provider has not counted yet.
pub const BYTES_PER_TOKEN: u64 = 4;
