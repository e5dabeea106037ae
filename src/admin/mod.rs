//! The admin listener: health, metrics, and a page that says what is there.
//!
//! Knows HTTP and who may ask; is handed metrics and a readiness question, and knows nothing of exchanges.

mod guard;
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::config::Secret;
use crate::telemetry::Metrics;

pub use server::serve;

/// Asks whether requests can be served now; the error says what is missing.
pub type Ready = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What the admin listener shows.
pub struct AdminState {
    /// Behind `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Behind `/readyz`.
    pub ready: Ready,
    /// The bearer token that everything but the health checks asks for.
    pub token: Option<Secret>,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}
