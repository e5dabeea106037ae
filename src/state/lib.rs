//! State that outlives a request: configuration, clients, the store, conversations, the journal, telemetry,
//! files and jobs.
//!
//! Depends on the core. Must not depend on HTTP requests, exchanges or commands.

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
