//! The integration tests: one binary, so that a rebuild stays short.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod agents;
mod bad_input;
mod browser;
mod conversations;
mod crash;
mod dashboard;
mod descriptors;
mod docs;
mod drafts;
mod export;
mod failures;
mod golden;
mod harness;
mod insertions;
mod inspector;
mod instruction_counts;
mod joined_texts;
mod journal;
mod left_out;
mod malformed_answers;
mod matrix;
mod nudges;
mod oneshot;
mod risks;
mod sdk;
mod seal_keys;
mod sentinels;
mod serve_output;
mod smuggling;
mod summaries;
mod tools;
mod traces;
mod untooled;
mod unwritable_state;
mod upstreams;
