//! What listens: the data listener (`proxy`), one agent request from end to end (`exchange`), the admin listener, and the
//! process that serves both (`service`).
//!
//! Knows the core and the state. Must not know commands.

pub mod admin;
pub mod app;
pub mod exchange;
mod heavy;
pub mod proxy;
pub mod service;

use baton_state as state;
