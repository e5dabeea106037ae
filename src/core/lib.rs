//! The pure core of baton: bytes and `now` in, values out.
//!
//! Knows the wires, the handoff rules and the merge machine. Must not know sockets, files, clocks, threads or the
//! environment: `clippy.toml` bans the calls, `.ci/purity` finds what a lint cannot see.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[macro_use]
mod named;

pub mod agents;
pub mod bill;
pub mod commands;
pub mod handoffs;
pub mod limits;
pub mod marker;
pub mod nudge;
pub mod plan;
pub mod record;
pub mod redact;
pub mod response;
pub mod rewrite;
pub mod text;
pub mod tools;
pub mod transcript;
pub mod trial;
pub mod wire;
