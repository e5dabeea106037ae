//! Known failures of other proxies that no other test covers. `conversations`, whose oracle checks every
//! exchange, covers most of them, as do `golden`, `bad_input`, `crash` and `risks`.

mod answers;
mod transcripts;

use crate::harness::fixture::PROMPT;

/// The carry-over message in the format of `texts`.
fn carry() -> String {
    format!("u: {PROMPT}")
}
