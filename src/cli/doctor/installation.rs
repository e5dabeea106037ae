//! Input of all checks, gathered once.
//!
//! This is the proxy that serves from a state directory, the content of the directory, and the response of
//! each upstream to one HEAD request without credentials.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use serde::Serialize;

use super::finding::Finding;
use crate::cli::output::{age, first_line, plural, short};
use crate::cli::running::{self, Process, RunState};
use crate::cli::runtime;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::{Upstream, Upstreams};
use crate::state::clock::now_ms;
use crate::state::config::{Config, StoreKind};
use crate::state::journal::{ExchangeFilter, ExchangeRow, JournalError, JournalReader, JournalTotals};
use crate::state::store::{self, HandoffFilter};
use baton_core::record::Handoff;

/// Input of the checks.
pub(super) struct Installation {
    pub(super) config: Config,
    pub(super) running: RunState,
    pub(super) journal: Result<Option<JournalSummary>, JournalError>,
    /// Handoffs, newest first; empty if they exist only inside the running proxy.
    pub(super) handoffs: Result<Vec<Handoff>, String>,
    /// Responses of the upstreams, in the order of the config; empty if no request was sent.
    pub(super) probes: Vec<UpstreamProbe>,
    pub(super) now: SystemTime,
}

/// Content of the journal.
pub(super) struct JournalSummary {
    pub(super) totals: JournalTotals,
    pub(super) newest: Option<ExchangeRow>,
    /// Upstreams of the newest exchanges.
    pub(super) upstreams: BTreeSet<String>,
    /// Models that wrote handoff calls as text in these exchanges.
    pub(super) text_tool_calls: BTreeSet<String>,
}

/// Number of newest exchanges whose upstreams count as used.
const NEWEST: usize = 200;

impl Installation {
    /// Gathers the input. With `ask`, sends a request to each upstream.
    pub(super) fn new(config: Config, ask: bool) -> Self {
        Self {
            running: running::find(&config.state_dir),
            journal: journal(&config),
            handoffs: handoffs(&config),
            probes: if ask { probe(&config) } else { Vec::new() },
            now: SystemTime::now(),
            config,
        }
    }
}

impl Installation {
    /// Whether the proxy serves other users than the one who runs the check.
    pub(super) fn is_server(&self) -> bool {
        !self.config.clients.is_empty() || self.config.server.is_shared()
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
        text_tool_calls: text_tool_calls(&rows),
        upstreams: rows.into_iter().filter_map(|row| row.upstream).collect(),
    }))
}

fn handoffs(config: &Config) -> Result<Vec<Handoff>, String> {
    if config.store.kind == StoreKind::Memory {
        return Ok(Vec::new());
    }
    let runtime = runtime().map_err(|failure| failure.message)?;
    // Opened inside the runtime, because the client of a server spawns its tasks there.
    let read = runtime.block_on(async {
        let store = store::open_for_reading(&config.store, &config.state_dir)?;
        store.handoffs(&HandoffFilter::default()).await
    });
    read.map_err(|error| error.message)
}

pub(super) fn text_tool_calls(rows: &[ExchangeRow]) -> BTreeSet<String> {
    let writing = rows.iter().filter(|row| row.event.text_tool_calls > 0);
    writing.filter_map(|row| row.model.clone()).collect()
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
            listen: config.server.listen.to_string(),
            admin: config.admin.listen.to_string(),
            journal: totals,
            last_exchange: journal.and_then(|journal| journal.newest.clone()),
            handoffs: handoffs.len(),
            last_handoff: handoffs.first().map(|handoff| handoff.id.to_string()),
            unsent_tokens: totals.unsent_tokens,
        }
    }

    /// Formats one line of at most 40 characters, for a prompt or a status bar.
    pub(super) fn line(&self) -> String {
        let running = if self.running.is_some() { "on" } else { "off" };
        let last = self.last_exchange.as_ref();
        let last = last.map_or(String::new(), |row| format!(", {}", age(row.at_ms, now_ms())));
        let handoffs = plural(self.handoffs as u64, "handoff");
        let saved = match self.unsent_tokens {
            1.. => format!(", {} saved", short(self.unsent_tokens.unsigned_abs())),
            _ => String::new(),
        };
        first_line(
            &format!("baton {running}, {handoffs}{saved}{last}"),
            Some(LINE_CHARS),
        )
    }
}

/// Reports whether a proxy serves, and its addresses.
pub(super) fn proxy(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    match &installation.running {
        RunState::Running(Some(process)) => {
            let started = ago(process.started_ms, now_ms());
            let about = format!(
                "process {}, version {}, started {started}",
                process.pid, process.version
            );
            vec![
                Finding::ok("agents at", format!("{} ({about})", process.data)),
                Finding::ok("inspector", &process.admin),
            ]
        }
        RunState::Running(None) => vec![Finding::ok("agents at", "a proxy is starting")],
        RunState::Stale(_) | RunState::Nobody => vec![Finding::ok(
            "agents at",
            format!(
                "not running; `baton serve` would listen at {}",
                config.server.listen
            ),
        )],
    }
}

/// Reports what the running proxy itself reports, so that a check is never better than it.
pub(super) fn ready(installation: &Installation) -> Vec<Finding> {
    let RunState::Running(Some(process)) = &installation.running else {
        return Vec::new();
    };
    let help = "its log has the reason";
    match running::failed_checks(&process.admin) {
        Err(why) => vec![Finding::error(
            "readyz",
            why,
            "check whether the proxy hangs, and its log",
        )],
        Ok(failed) if failed.is_empty() => vec![Finding::ok("readyz", "the proxy is ready")],
        Ok(failed) => {
            let finding = |(name, is_required): (String, bool)| {
                let message = "the running proxy reports that it fails";
                match is_required {
                    true => Finding::error(name, message, help),
                    false => Finding::warning(name, message, help),
                }
            };
            failed.into_iter().map(finding).collect()
        }
    }
}

pub(super) fn ago(then_ms: u64, now_ms: u64) -> String {
    match age(then_ms, now_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// Time limit for a response. A user waits for it.
const PROBE_TIME: Duration = Duration::from_secs(8);

/// Response of an upstream.
pub(super) struct UpstreamProbe {
    pub(super) name: String,
    pub(super) base_url: String,
    /// Status and protocol of the response, or the reason why there is none.
    pub(super) answer: Result<(StatusCode, Version), String>,
    /// Difference between the upstream's clock and this machine's, if the response has a date.
    pub(super) clock_offset: Option<Duration>,
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
                clock_offset: None,
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
    let mut clock_offset = None;
    let answer = match tokio::time::timeout(PROBE_TIME, sent).await {
        Ok(Ok(response)) => {
            clock_offset = response.headers().get(header::DATE).and_then(offset);
            Ok((response.status(), response.version()))
        }
        Ok(Err(fault)) => Err(fault.to_string()),
        Err(_) => Err(format!("no answer in {} s", PROBE_TIME.as_secs())),
    };
    UpstreamProbe {
        name: upstream.name.clone(),
        base_url: upstream.config.base_url.clone(),
        answer,
        clock_offset,
    }
}

/// Difference between a `Date` header and this machine's clock.
fn offset(date: &HeaderValue) -> Option<Duration> {
    let theirs = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
    let ours = SystemTime::now();
    let later = theirs
        .duration_since(ours)
        .or_else(|_| ours.duration_since(theirs));
    later.ok()
}
