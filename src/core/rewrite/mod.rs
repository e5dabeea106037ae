//! Turns the agent's request into the upstream request: cut, hidden pairs, unescaped text, tool.
//!
//! There are two steps, so that the caller can query the store between them. `RequestReading` finds anything
//! that may be baton's, and `rewrite` applies the confirmed parts. Both are pure. The module depends on
//! a wire only through its [`Wire`](crate::wire::Wire) and its [`View`](crate::wire::View), and not on sockets,
//! stores or clocks.

mod apply;
mod chained;
mod chat_markers;
mod cut;
mod elements;
#[cfg(test)]
mod elements_tests;
pub mod flattened;
mod harness_texts;
pub mod insertions;
pub mod left_out;
#[cfg(test)]
mod linear_tests;
pub mod notes;
mod orphans;
mod pairs;
mod plan;
pub mod positions;
pub mod preamble;
#[cfg(test)]
mod preamble_tests;
mod reading;
pub mod text_fingerprints;
pub mod thinking;
pub mod untooled;
mod users_words;

pub use apply::{lone_text, rewrite};
pub use chained::chained;
pub use pairs::lost;
pub use plan::{ChangeReason, ContinuedResponse, Cut, PlacedInsertion, Rewrite, RewriteOutcome, SizeChange};
pub use reading::{BodyScan, Candidate, RequestReading};
