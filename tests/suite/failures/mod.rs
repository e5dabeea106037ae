//! One test for each fault of other proxies (FAILURES in the design notes, by row number) that this wire can
//! have and no other test has met.
//!
//! Met elsewhere: 1 in `golden` and here; 2, 4, 6, 8, 9, 10, 11, 21, 24, 25, 30, 31 by `conversations`, whose
//! reference model asserts each of them on every exchange; 12 in `bad_input`; 15 in `bad_input`; 29 in `crash`.

mod answers;
mod transcripts;

use crate::harness::scene::PROMPT;

/// The carry-over message, as `texts` shows it.
fn carry() -> String {
    format!("u: {PROMPT}")
}
