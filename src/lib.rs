//! baton: an HTTP proxy in front of LLM provider APIs that lets the model hand its session over to
//! a fresh context.
//!
//! Three layers, each of which depends only on those before it: the crates `baton_core` (pure) and `baton_state` (what
//! outlives a request), [`serve`] (what listens). [`cli`] starts them, `app` composes the data listener.

pub mod app;
pub mod cli;
pub mod serve;

pub use baton_state as state;

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../tests/fuzz/checks/mod.rs"]
mod fuzz;
