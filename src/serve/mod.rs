//! What listens: the data listener (`proxy`), one agent request from end to end (`exchange`), and the admin listener.
//!
//! Knows the core and the state. Must not know commands.

pub mod admin;
pub mod exchange;
pub mod proxy;
