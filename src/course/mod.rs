//! One response to the agent out of one or more legs: read a leg, hide our call, judge what it came to.
//!
//! Knows frames and a wire's dialect. Does no IO: bytes go in, bytes and a verdict come out; who writes the
//! handoff and sends the next leg is the proxy's business.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod merge;
#[cfg(test)]
mod tests;
mod verdict;

pub use merge::StreamMerge;
pub use verdict::{Circumstances, Refused, Verdict, judge, place_beside};
