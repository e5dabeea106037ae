//! baton: an HTTP proxy for LLM provider APIs that lets the model hand its session over to a fresh context.
//!
//! Three layers, each a crate that depends only on those before it: `baton_core` (pure), `baton_state`
//! (everything that outlives a request), and `baton_serve` (the listeners). The binary has the command line.

pub use baton_serve as serve;
pub use baton_state as state;

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../tests/fuzz/checks/mod.rs"]
mod fuzz;
