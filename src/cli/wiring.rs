//! The seam to the rooms that the commands start: the store and the data listener.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::config::{Config, StoreKind};
use crate::store::{SharedStore, StoreError};
use crate::telemetry::Metrics;

/// The store beside a running proxy, or without one.
pub(super) fn open_for_reading(_kind: &StoreKind, _dir: &Path) -> Result<SharedStore, StoreError> {
    Err(StoreError {
        message: NOT_WIRED.to_owned(),
    })
}

/// The store of the proxy itself.
pub(super) fn open(_kind: &StoreKind, _dir: &Path) -> Result<SharedStore, StoreError> {
    Err(StoreError {
        message: NOT_WIRED.to_owned(),
    })
}

/// A bound data listener.
pub(super) struct Data {
    addr: SocketAddr,
}

impl Data {
    /// Binds `server.listen` and reads the certificate.
    pub(super) fn bind(_config: &Config) -> io::Result<Self> {
        Err(io::Error::other(NOT_WIRED))
    }

    /// The address, with the port that was picked.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `stop` is done and what was under way has ended, or the drain time is over.
    pub(super) async fn run(
        self,
        _config: Config,
        _store: SharedStore,
        _metrics: Arc<Metrics>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        stop.await;
        Ok(())
    }
}

const NOT_WIRED: &str = "not wired";
