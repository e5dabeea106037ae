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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use self::readiness::Ready;
use crate::state::config::Secret;
use crate::state::jobs::drafts::DraftQueue;
use crate::state::journal::Recorder;
use crate::state::prices::Prices;
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
use crate::state::telemetry::Metrics;
use baton_core::nudge::{Thresholds, Windows};

pub use server::serve;

/// State of the admin listener.
pub struct AdminState {
    /// Shown at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Evaluated at `/readyz`.
    pub ready: Ready,
    /// The bearer token required for everything except the health checks.
    pub token: Option<Secret>,
    /// The data of `/api`; `None` turns the API off.
    pub inspector: Option<Inspector>,
}

/// The inspector's data sources.
pub struct Inspector {
    /// Source of live updates.
    pub journal: Recorder,
    /// The state directory with the journal.
    pub dir: PathBuf,
    /// The handoffs.
    pub store: SharedStore,
    /// The drafts.
    pub drafting: Arc<DraftQueue>,
    /// The conversations in use.
    pub sessions: Arc<Sessions>,
    /// How many tokens models take.
    pub windows: Windows,
    /// When models are notified how full their context is.
    pub thresholds: Thresholds,
    /// What commands in the chat begin with.
    pub command_prefix: String,
    /// The prices of the bill.
    pub prices: Prices,
    /// Address of the data listener; none where no proxy runs. The page is read only then.
    pub data_listener: Option<SocketAddr>,
    /// What this process is called, among those with the same store.
    pub instance: String,
    /// When the process started to serve.
    pub started: Instant,
}
