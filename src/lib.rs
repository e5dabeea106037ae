//! baton: an HTTP proxy in front of LLM provider APIs that lets the model hand its session over to
//! a fresh context.
//!
//! Three storeys, each of which knows those above it alone: the crate `baton_core` (pure), [`state`] (what outlives a
//! request), [`serve`] (what listens). [`cli`] starts them, `app` puts the data listener together.

pub mod app;
pub mod cli;
pub mod serve;
pub mod state;
