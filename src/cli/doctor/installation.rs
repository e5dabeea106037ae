//! Input of all checks, gathered once.
//!
//! This is the proxy that serves from a state directory, the content of the directory, and the response of
//! each upstream to one HEAD request without credentials.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;

use crate::cli::output::{age, plural, short};
use crate::cli::running::{self, Process, RunState};
use crate::cli::runtime;
use baton_core::record::Handoff;
use baton_serve::proxy::upload::RopeBody;
use baton_serve::proxy::upstream::{Upstream, Upstreams};
use baton_state::clock::now_ms;
use baton_state::config::{Config, StoreKind};
use baton_state::journal::{ExchangeFilter, ExchangeRow, JournalReader, JournalResult, JournalTotals};
use baton_state::store::copy_and_check;
use baton_state::store::records::RecordKind;
use baton_state::store::{self, HandoffFilter, SharedStore, StoreError, StoreResult};

/// Input of the checks.
pub(super) struct Installation {
    pub(super) config: Config,
    pub(super) running: RunState,
    pub(super) journal: JournalResult<Option<JournalSummary>>,
    /// Handoffs, newest first; empty if they exist only inside the running proxy.
    pub(super) handoffs: StoreResult<Vec<Handoff>>,
    /// Responses of the upstreams, in the order of the config; empty if no request was sent.
    pub(super) probes: Vec<UpstreamProbe>,
}

/// Content of the journal.
pub(super) struct JournalSummary {
    pub(super) totals: JournalTotals,
    /// Newest exchanges, the newest first.
    pub(super) newest: Vec<ExchangeRow>,
}

impl JournalSummary {
    /// Upstreams of the newest exchanges.
    pub(super) fn upstreams(&self) -> BTreeSet<String> {
        let rows = self.newest.iter();
        rows.filter_map(|row| row.upstream.clone()).collect()
    }
}

/// Number of newest exchanges that are examined.
const NEWEST: usize = 200;

impl Installation {
    /// Gathers the input. With `ask`, sends a request to each upstream.
    pub(super) fn new(config: Config, ask: bool) -> Self {
        Self {
            running: running::find(&config.state_dir),
            journal: journal(&config),
            handoffs: handoffs(&config),
            probes: if ask { probe(&config) } else { Vec::new() },
            config,
        }
    }

    /// Whether the proxy serves other users than the one who runs the check.
    pub(super) fn is_server(&self) -> bool {
        !self.config.clients.is_empty() || self.config.server.is_shared()
    }
}

fn journal(config: &Config) -> JournalResult<Option<JournalSummary>> {
    let Some(reader) = JournalReader::open(&config.state_dir)? else {
        return Ok(None);
    };
    Ok(Some(JournalSummary {
        totals: reader.totals()?,
        newest: reader.list(&ExchangeFilter::newest(None, NEWEST))?,
    }))
}

fn handoffs(config: &Config) -> StoreResult<Vec<Handoff>> {
    if config.store.kind == StoreKind::Memory {
        return Ok(Vec::new());
    }
    read_store(config, async |store| {
        store.handoffs(&HandoffFilter::default()).await
    })
}

/// Counts the handoffs and documents that cannot be read. Reads all of them, which takes too long for a status bar.
pub(super) fn damaged(config: &Config) -> StoreResult<usize> {
    read_store(config, async |store| {
        let mut damaged = 0;
        for kind in [RecordKind::Handoff, RecordKind::Document] {
            damaged += copy_and_check::unreadable(&*store, kind).await?.len();
        }
        Ok(damaged)
    })
}

/// Opens the store and reads it by `read`.
pub(super) fn read_store<T>(
    config: &Config,
    read: impl AsyncFnOnce(SharedStore) -> StoreResult<T>,
) -> StoreResult<T> {
    let runtime = runtime().map_err(|failure| StoreError::new(failure.message))?;
    // Opened inside the runtime, because the client of a server spawns its tasks there.
    runtime.block_on(async { read(store::open_for_reading(&config.store, &config.state_dir)?).await })
}

/// Summary of the state. The field names are public API.
#[derive(Serialize)]
pub(super) struct StateSummary {
    /// The proxy that serves from this state directory.
    running: Option<Process>,
    /// The last proxy, if it was killed.
    stale: Option<Process>,
    state_dir: String,
    listen: String,
    admin: String,
    journal: JournalTotals,
    last_exchange: Option<ExchangeRow>,
    handoffs: usize,
    last_handoff: Option<String>,
    unsent_tokens: i64,
}

/// Maximum length of [`StateSummary::line`], in characters.
const LINE_CHARS: usize = 40;

impl StateSummary {
    pub(super) fn from_installation(installation: &Installation) -> Self {
        let config = &installation.config;
        let journal = installation.journal.as_ref().ok().and_then(Option::as_ref);
        let totals = journal.map(|journal| journal.totals).unwrap_or_default();
        let handoffs = installation.handoffs.as_deref().unwrap_or_default();
        let (running, stale) = match &installation.running {
            RunState::Running(process) => (process.clone(), None),
            RunState::Stale(process) => (None, Some(process.clone())),
            RunState::Nobody => (None, None),
        };
        Self {
            running,
            stale,
            state_dir: config.state_dir.display().to_string(),
            listen: config.server.at.listen.to_string(),
            admin: config.admin.at.listen.to_string(),
            journal: totals,
            last_exchange: journal.and_then(|journal| journal.newest.first().cloned()),
            handoffs: handoffs.len(),
            last_handoff: handoffs.first().map(|handoff| handoff.id.to_string()),
            unsent_tokens: totals.unsent_tokens,
        }
    }

    /// Formats one line of at most 40 characters, for a prompt or a status bar.
    pub(super) fn line(&self) -> String {
        let running = if self.running.is_some() { "on" } else { "off" };
        let mut parts = vec![
            format!("baton {running}"),
            plural(self.handoffs as u64, "handoff"),
        ];
        if self.unsent_tokens > 0 {
            parts.push(format!("{} saved", short(self.unsent_tokens.unsigned_abs())));
        }
        let last = self.last_exchange.as_ref();
        parts.extend(last.map(|row| age(row.at_ms, now_ms())));
        fitted(parts)
    }
}

/// Joins the parts of a line. If it is too long, those before the last one are left out, since the last one changes most.
fn fitted(mut parts: Vec<String>) -> String {
    while parts.join(", ").chars().count() > LINE_CHARS && parts.len() > 2 {
        parts.remove(parts.len() - 2);
    }
    parts.join(", ")
}

/// Time limit for a response. A user waits for it.
const PROBE_TIME: Duration = Duration::from_secs(8);

/// Response of an upstream.
pub(super) struct UpstreamProbe {
    pub(super) name: String,
    pub(super) base_url: String,
    /// Status of the response, or the reason why there is none.
    pub(super) answer: Result<StatusCode, String>,
}

/// Sends one request to each upstream concurrently.
fn probe(config: &Config) -> Vec<UpstreamProbe> {
    let runtime = runtime().map_err(|failure| failure.message);
    match (runtime, Upstreams::new(config).map_err(|error| error.to_string())) {
        (Ok(runtime), Ok(upstreams)) => runtime.block_on(async {
            let all = config.upstreams.keys().filter_map(|name| upstreams.get(name));
            join_all(all.map(|upstream| ask(upstream))).await
        }),
        // Without a runtime or a client no request can be sent, so each upstream has the same error.
        (Err(error), _) | (_, Err(error)) => {
            let all = config.upstreams.iter();
            let failed = all.map(|(name, upstream)| UpstreamProbe {
                name: name.clone(),
                base_url: upstream.base_url.clone(),
                answer: Err(error.clone()),
            });
            failed.collect()
        }
    }
}

async fn ask(upstream: &Upstream) -> UpstreamProbe {
    // No credential is sent, because a refusal also shows that the upstream answers.
    let mut headers = HeaderMap::new();
    let agent = HeaderValue::from_static(concat!("baton-doctor/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    let again = headers.clone();
    let sent = upstream.send(&Method::HEAD, "/", headers, || again, RopeBody::default());
    let answer = match tokio::time::timeout(PROBE_TIME, sent).await {
        Ok(Ok(response)) => Ok(response.status()),
        Ok(Err(fault)) => Err(fault.to_string()),
        Err(_) => Err(format!("no answer in {} s", PROBE_TIME.as_secs())),
    };
    UpstreamProbe {
        name: upstream.name.clone(),
        base_url: upstream.config.base_url.clone(),
        answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_loses_whole_parts() {
        let line = |parts: &[&str]| fitted(parts.iter().map(|&part| part.to_owned()).collect());
        let long = ["baton on", "95 handoffs", "198.6 k saved", "now"];
        assert_eq!(line(&long), "baton on, 95 handoffs, now");
        let short = ["baton on", "9 handoffs", "98.6 k saved", "now"];
        assert_eq!(line(&short), "baton on, 9 handoffs, 98.6 k saved, now");
    }
}
