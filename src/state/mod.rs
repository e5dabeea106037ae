//! State that outlives a request: configuration, clients, the store, conversations, the journal, telemetry, files and
//! jobs.
//!
//! Knows the core. Must not know HTTP requests, exchanges or commands.

pub(crate) mod access;
pub mod clock;
pub mod config;
pub(crate) mod disk;
pub mod files;
pub(crate) mod instance;
pub mod jobs;
pub mod journal;
pub(crate) mod keyed_hash;
pub(crate) mod looked_up;
pub mod prices;
pub mod session;
pub mod store;
pub(crate) mod sync;
pub mod telemetry;
