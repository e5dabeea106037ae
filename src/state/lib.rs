//! State that outlives a request: configuration, clients, the store, conversations, the journal, telemetry,
//! files and jobs.
//!
//! Depends on the core. Must not depend on HTTP requests, exchanges or commands.
//!
//! ```
//! use baton_state::config::{Config, Environment, Flags};
//!
//! let load = |text| Config::from_text(Some(("baton.toml", text)), &Environment::default(), &Flags::default());
//! assert_eq!(load("handoff.max_chain = 3").unwrap().handoff.max_chain, 3);
//! let problems = load("handoff.max_chian = 3").unwrap_err();
//! assert!(problems[0].to_string().starts_with("baton.toml:1"));
//! ```

pub mod access;
pub mod clock;
pub mod config;
mod database;
pub mod disk;
pub mod files;
pub mod instance;
pub mod jobs;
pub mod journal;
pub mod keyed_hash;
pub mod looked_up;
pub mod prices;
pub mod session;
pub mod store;
pub mod sync;
pub mod telemetry;
