//! baton: an HTTP proxy in front of LLM provider APIs that lets the model hand its session over to
//! a fresh context.
//!
//! The library has two halves. The pure core (`text`, `record`, `mark`, `tools`, `wire`, `transcript`,
//! `rewrite`, `course`, `redact`, `agents`, `draft`, `nudge`, `recall`, `packet`, `commands`)
//! takes bytes and `now` and returns values; it builds with `--no-default-features`. The rim (feature `proxy`, on by
//! default) owns sockets, files, clocks and the terminal. No two rooms import each other (`.ci/circles`).

pub mod agents;
pub mod commands;
pub mod course;
pub mod draft;
pub mod limits;
pub mod mark;
pub mod nudge;
pub mod packet;
pub mod recall;
pub mod record;
pub mod redact;
pub mod rewrite;
pub mod text;
pub mod tools;
pub mod transcript;
pub mod wire;

#[cfg(feature = "proxy")]
mod access;
#[cfg(feature = "proxy")]
pub mod admin;
#[cfg(feature = "proxy")]
pub mod answers;
#[cfg(feature = "proxy")]
pub mod app;
#[cfg(feature = "proxy")]
pub mod cli;
#[cfg(feature = "proxy")]
pub mod config;
#[cfg(feature = "proxy")]
pub mod drafting;
#[cfg(feature = "proxy")]
pub mod exchange;
#[cfg(feature = "proxy")]
pub mod handoff_files;
#[cfg(feature = "proxy")]
pub mod journal;
#[cfg(feature = "proxy")]
pub mod packet_files;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "proxy")]
mod repository;
#[cfg(feature = "proxy")]
pub mod session;
#[cfg(feature = "proxy")]
pub mod store;
#[cfg(feature = "proxy")]
pub mod strict;
#[cfg(feature = "proxy")]
pub mod telemetry;
