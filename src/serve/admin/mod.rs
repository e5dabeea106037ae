//! The admin listener: health checks, metrics, the inspector page and its JSON API.
//!
//! The listener reads the metrics, a readiness check, the journal and the store, and it requests and cancels
//! drafts. Everything it shows was written by models and agents, so it is treated as text, never as markup.

mod api;
mod api_drafts;
mod api_handoffs;
mod error;
mod guard;
mod page;
pub mod pinned_tls;
mod query;
pub mod readiness;
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use self::readiness::Ready;
use crate::state::config::Config;
use crate::state::jobs::drafts::DraftQueue;
use crate::state::journal::Recorder;
use crate::state::prices::Prices;
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
use crate::state::telemetry::Metrics;

pub use server::serve;

/// State that the admin listener serves.
pub struct AdminState {
    /// Metrics shown at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Check evaluated at `/readyz`.
    pub ready: Ready,
    /// Config: the state directory with the journal, the token, and the settings that the page shows.
    pub config: Arc<Config>,
    /// Journal, the source of live updates.
    pub journal: Recorder,
    /// Store of the handoffs.
    pub store: SharedStore,
    /// Queue of the drafts.
    pub drafting: Arc<DraftQueue>,
    /// Conversations in use.
    pub sessions: Arc<Sessions>,
    /// Prices of the bill.
    pub prices: Prices,
    /// Address of the data listener. `None` if no proxy runs, which makes the page read-only.
    pub data_listener: Option<SocketAddr>,
    /// Name of this process among those with the same store.
    pub instance: String,
    /// Start time of the process.
    pub started: Instant,
}
