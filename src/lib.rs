//! baton: an HTTP proxy in front of LLM provider APIs that lets the model hand its session over to
//! a fresh context.
//!
//! The library has two halves. The pure core (`json`, `wire`, `handoff`, `merge`, `redact`) takes bytes and `now`
//! and returns values; it builds with `--no-default-features`. The rim (feature `proxy`, on by default)
//! owns sockets, files, clocks and the terminal.

pub mod handoff;
pub mod json;
pub mod limits;
pub mod merge;
pub mod redact;
mod scan;
pub mod skim;
pub mod splice;
mod steps;
pub mod wire;

#[cfg(feature = "proxy")]
mod access;
#[cfg(feature = "proxy")]
pub mod admin;
#[cfg(feature = "proxy")]
pub mod cli;
#[cfg(feature = "proxy")]
pub mod config;
#[cfg(feature = "proxy")]
pub mod journal;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "proxy")]
pub mod session;
#[cfg(feature = "proxy")]
pub mod store;
#[cfg(feature = "proxy")]
pub mod strict;
#[cfg(feature = "proxy")]
pub mod telemetry;
