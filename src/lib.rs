//! baton: an HTTP proxy in front of LLM provider APIs that lets the model hand its session over to
//! a fresh context.
//!
//! Three layers, each of which depends only on those before it, and each a crate: `baton_core` (pure), `baton_state` (what
//! outlives a request), `baton_serve` (what listens). [`cli`] starts them.

pub mod cli;

pub use baton_serve as serve;
pub use baton_state as state;

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../tests/fuzz/checks/mod.rs"]
mod fuzz;
