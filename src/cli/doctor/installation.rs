//! What the checks examine, gathered once.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::probe::{self, UpstreamProbe};
use crate::cli::running::{self, RunState};
use crate::cli::runtime;
use crate::state::config::{Config, StoreKind};
use crate::state::journal::{ExchangeFilter, ExchangeRow, JournalError, JournalReader, JournalTotals};
use crate::state::store::{self, HandoffFilter};
use baton_core::record::Handoff;

/// What the checks examine.
pub(super) struct Installation {
    pub(super) config: Config,
    pub(super) running: RunState,
    pub(super) journal: Result<Option<JournalSummary>, JournalError>,
    /// Newest first; none where they exist only inside the running proxy.
    pub(super) handoffs: Result<Vec<Handoff>, String>,
    /// The answers of the upstreams, in the order of the config; none where they were not asked.
    pub(super) probes: Vec<UpstreamProbe>,
    pub(super) now: SystemTime,
}

/// What the journal has.
pub(super) struct JournalSummary {
    pub(super) totals: JournalTotals,
    pub(super) newest: Option<ExchangeRow>,
    /// The upstreams of the newest exchanges.
    pub(super) upstreams: BTreeSet<String>,
    /// The models that wrote handoff calls as text in these exchanges.
    pub(super) written_calls: BTreeSet<String>,
}

/// Exchanges whose upstreams count as used.
const NEWEST: usize = 200;

impl Installation {
    /// `ask`: whether the upstreams are asked.
    pub(super) fn of(config: Config, ask: bool) -> Self {
        Self {
            running: running::find(&config.state_dir),
            journal: journal(&config),
            handoffs: handoffs(&config),
            probes: if ask { probe::probe(&config) } else { Vec::new() },
            now: SystemTime::now(),
            config,
        }
    }
}

fn journal(config: &Config) -> Result<Option<JournalSummary>, JournalError> {
    let Some(reader) = JournalReader::open(&config.state_dir)? else {
        return Ok(None);
    };
    let newest = ExchangeFilter {
        limit: NEWEST,
        ..Default::default()
    };
    let rows = reader.list(&newest)?;
    Ok(Some(JournalSummary {
        totals: reader.totals()?,
        newest: rows.first().cloned(),
        written_calls: written_calls(&rows),
        upstreams: rows.into_iter().filter_map(|row| row.upstream).collect(),
    }))
}

fn handoffs(config: &Config) -> Result<Vec<Handoff>, String> {
    if config.store.kind == StoreKind::Memory {
        return Ok(Vec::new());
    }
    let runtime = runtime().map_err(|failure| failure.message)?;
    // Within the runtime: a client of a server starts its tasks there.
    let read = runtime.block_on(async {
        let store = store::open_for_reading(&config.store, &config.state_dir)?;
        store.handoffs(&HandoffFilter::default()).await
    });
    read.map_err(|error| error.message)
}

pub(super) fn written_calls(rows: &[ExchangeRow]) -> BTreeSet<String> {
    let writing = rows.iter().filter(|row| row.event.written_calls > 0);
    writing.filter_map(|row| row.model.clone()).collect()
}
