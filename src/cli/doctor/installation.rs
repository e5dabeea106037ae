//! What the checks examine, gathered once.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::probe::{self, UpstreamProbe};
use crate::cli::running::{self, RunState};
use crate::state::config::Config;
use crate::state::journal::{ExchangeFilter, ExchangeRow, JournalError, JournalReader, JournalTotals};

/// What the checks examine.
pub(super) struct Installation {
    pub(super) config: Config,
    pub(super) running: RunState,
    pub(super) journal: Result<Option<JournalSummary>, JournalError>,
    /// The answers of the upstreams, in the order of the config.
    pub(super) probes: Vec<UpstreamProbe>,
    pub(super) now: SystemTime,
}

/// What the journal has.
pub(super) struct JournalSummary {
    pub(super) totals: JournalTotals,
    /// Start of the newest exchange, in milliseconds since the Unix epoch.
    pub(super) newest_ms: Option<u64>,
    /// The upstreams of the newest exchanges.
    pub(super) upstreams: BTreeSet<String>,
    /// The models that wrote handoff calls as text in these exchanges.
    pub(super) written_calls: BTreeSet<String>,
}

/// Exchanges whose upstreams count as used.
const NEWEST: usize = 200;

impl Installation {
    pub(super) fn of(config: Config) -> Self {
        Self {
            running: running::find(&config.state_dir),
            journal: journal(&config),
            probes: probe::probe(&config),
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
        newest_ms: rows.first().map(|row| row.at_ms),
        written_calls: written_calls(&rows),
        upstreams: rows.into_iter().filter_map(|row| row.upstream).collect(),
    }))
}

pub(super) fn written_calls(rows: &[ExchangeRow]) -> BTreeSet<String> {
    let writing = rows.iter().filter(|row| row.event.written_calls > 0);
    writing.filter_map(|row| row.model.clone()).collect()
}
