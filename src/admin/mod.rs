//! The admin listener: health, metrics, the inspector's page and its JSON.
//!
//! Knows HTTP and who may ask; is handed metrics, a readiness question, the journal and the store, and only
//! reads. What it shows was written by models and agents: it is text, never markup.

mod answers;
mod api;
mod api_events;
mod api_handoffs;
mod guard;
mod page;
mod question;
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;

use crate::config::Secret;
use crate::journal::Tap;
use crate::store::SharedStore;
use crate::telemetry::Metrics;

pub use server::serve;

/// Asks whether requests can be served now.
pub type Ready = Arc<dyn Fn() -> BoxFuture<'static, Result<(), NotReady>> + Send + Sync>;

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// Which dependency fails, in a word that anybody may read: `store_read`, `store_write`; or `stopping`.
    pub what: &'static str,
    /// How it fails, for the log: it may hold paths.
    pub why: String,
}

/// What the admin listener shows.
pub struct AdminState {
    /// Behind `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Behind `/readyz`.
    pub ready: Ready,
    /// The bearer token that everything but the health checks asks for.
    pub token: Option<Secret>,
    /// Behind `/api`; without it there is none.
    pub inspector: Option<Inspector>,
}

/// What the inspector looks at.
pub struct Inspector {
    /// Tells what is written, live.
    pub journal: Tap,
    /// The state directory, where the journal is.
    pub dir: PathBuf,
    /// The handoffs.
    pub store: SharedStore,
    /// Where agents connect.
    pub data_listener: SocketAddr,
    /// When the process began to serve.
    pub started: Instant,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}
