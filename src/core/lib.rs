//! The pure core of baton: bytes and `now` in, values out.
//!
//! The crate contains the wires, the handoff rules and the response machine. It must not use sockets, files,
//! clocks, threads or the environment. `clippy.toml` bans the calls, and `.ci/purity` finds those that a lint
//! cannot see.
//!
//! ```
//! use baton_core::record::WireId;
//! use baton_core::wire::{Operation, Role, wire};
//!
//! let body = r#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}"#;
//! let view = wire(WireId::OpenaiChat).read(&body.into(), Operation::Generate).unwrap();
//! assert_eq!(view.facts.model.as_deref(), Some("m"));
//! assert_eq!(view.turns[0].role, Role::User);
//! ```
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[macro_use]
mod named;

pub mod agents;
pub mod bill;
pub mod brake;
pub mod commands;
pub mod handoffs;
pub mod limits;
pub mod marker;
pub mod nudge;
pub mod plan;
pub mod quota;
pub mod record;
pub mod redact;
pub mod response;
pub mod rewrite;
pub mod text;
pub mod tools;
pub mod transcript;
pub mod trial;
pub mod wire;
pub mod work;
