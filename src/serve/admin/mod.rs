//! The admin listener: health checks, metrics, the inspector page and its JSON API.
//!
//! It gets the metrics, a readiness check, the journal and the store, and only reads them. It requests and cancels drafts.
//! Everything it shows was written by models and agents: it is treated as text, never as markup.

mod api;
mod api_drafts;
mod api_events;
mod api_handoffs;
mod error;
mod guard;
mod page;
mod query;
pub mod readiness;
mod responses;
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

/// What the admin listener serves from.
pub struct AdminState {
    /// Shown at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Evaluated at `/readyz`.
    pub ready: Ready,
    /// The config: the state directory with the journal, the token, and what the page shows of it.
    pub config: Arc<Config>,
    /// Source of live updates.
    pub journal: Recorder,
    /// The handoffs.
    pub store: SharedStore,
    /// The drafts.
    pub drafting: Arc<DraftQueue>,
    /// The conversations in use.
    pub sessions: Arc<Sessions>,
    /// The prices of the bill.
    pub prices: Prices,
    /// Address of the data listener; none where no proxy runs. The page is read only then.
    pub data_listener: Option<SocketAddr>,
    /// What this process is called, among those with the same store.
    pub instance: String,
    /// When the process started to serve.
    pub started: Instant,
}
