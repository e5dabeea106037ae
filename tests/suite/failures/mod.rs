//! Known failures of other proxies that no other test covers. Most are covered by `conversations`, whose oracle checks
//! every exchange, and by `golden`, `bad_input`, `crash` and `risks`.

mod answers;
mod transcripts;

use crate::harness::fixture::PROMPT;

/// The carry-over message, as `texts` shows it.
fn carry() -> String {
    format!("u: {PROMPT}")
}
