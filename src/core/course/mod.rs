//! One response to the agent out of one or more legs: read a leg, hide our call, judge what it came to, and decide
//! what happens next.
//!
//! Knows frames and a wire's dialect. Does no IO: bytes and events go in, bytes and actions come out; who writes the
//! handoff and sends the next leg is the proxy's business.

mod machine;
#[cfg(test)]
mod machine_tests;
mod merge;
mod retry;
#[cfg(test)]
mod tests;
mod verdict;

pub use machine::{Action, Course, CourseEvent, CourseTerms, Effect, NextLeg, RepeatedHandoff, ResponseEnd};
pub use merge::StreamMerge;
pub use verdict::{AnsweredCall, Verdict, VerdictInput, judge, place_beside};
