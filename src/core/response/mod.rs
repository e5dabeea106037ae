//! Builds one response for the agent from one or more legs: reads each leg, hides baton's calls, judges the
//! result, and decides the next step.
//!
//! The module knows frames and a wire's decoder. It is sans-I/O: bytes and events go in, bytes and actions
//! come out. The caller writes the handoff and sends the next upstream request.

mod answer;
mod events;
#[cfg(test)]
mod foreign_tests;
mod machine;
#[cfg(test)]
mod machine_steps_tests;
#[cfg(test)]
mod machine_tests;
mod merge;
mod opening;
mod progress_line;
mod verdict;

pub use answer::{JoinedAnswer, LegProgress, StreamedAnswer};
pub use events::{Action, LegEvent, ResponseEffect, ResponseEnd};
pub use machine::{ResponseMachine, ResponseOptions};
pub use merge::{StreamMerge, writes_call};
pub use opening::AnswerOpening;
pub use progress_line::ProgressLine;
pub use verdict::{AnsweredCall, Verdict, VerdictInput, judge, place_beside};
