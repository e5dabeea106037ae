//! The integration tests: one binary, so that a rebuild stays short.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod bad_input;
mod browser;
mod conversations;
mod counts;
mod crash;
mod dashboard;
mod descriptors;
mod failures;
mod glued;
mod golden;
mod harness;
mod inspector;
mod journal;
mod left_out;
mod matrix;
mod odd_shapes;
mod risks;
mod sdk;
mod sentinels;
mod serving;
mod smuggling;
mod state;
mod summaries;
mod traces;
mod untooled;
mod upstreams;
