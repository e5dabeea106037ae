//! `baton status`: summarises the state directory. Reads the files, with or without a running proxy.

use std::time::Instant;

use serde::Serialize;

use super::args::StatusArgs;
use super::exit::{CommandFailure, Exit};
use super::log::{open, unread};
use super::output::{Out, age, first_line, plural, size, unsent};
use super::readiness;
use super::running::{self, Process, RunState};
use super::{load_state, runtime};
use crate::state::clock::now_ms;
use crate::state::config::{Config, StoreKind};
use crate::state::files::yaml_files::{HandoffFolder, LineReader};
use crate::state::journal::{ExchangeFilter, ExchangeRow, JournalTotals};
use crate::state::store::{self, HandoffFilter};
use baton_core::record::Handoff;

/// The summary. The field names are API.
#[derive(Serialize)]
struct Status {
    version: &'static str,
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
    #[serde(skip)]
    newest: Option<Handoff>,
}

pub(super) fn run(args: &StatusArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    if args.ready {
        return readiness::report(&config.state_dir, out);
    }
    let handoffs = match config.store.kind {
        // They exist only inside the running proxy.
        StoreKind::Memory => Vec::new(),
        _ => handoffs(&config)?,
    };
    let query = open(&config.state_dir)?;
    let (mut journal, mut last) = (JournalTotals::default(), None);
    if let Some(query) = &query {
        journal = query.totals().map_err(unread)?;
        let newest = ExchangeFilter {
            limit: 1,
            ..ExchangeFilter::default()
        };
        last = query.list(&newest).map_err(unread)?.pop();
    }
    let (running, stale) = match running::find(&config.state_dir) {
        RunState::Running(process) => (process, None),
        RunState::Stale(process) => (None, Some(process)),
        RunState::Nobody => (None, None),
    };
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        running,
        stale,
        state_dir: config.state_dir.display().to_string(),
        listen: config.server.listen.to_string(),
        admin: config.admin.listen.to_string(),
        journal,
        last_exchange: last,
        handoffs: handoffs.len(),
        last_handoff: handoffs.first().map(|h| h.id.to_string()),
        unsent_tokens: journal.unsent_tokens,
        newest: handoffs.into_iter().next(),
    };
    match (args.json, args.line) {
        (true, _) => out.json(&status)?,
        (_, true) => out.line(format_args!("{}{}", line(&status), handed_over(&config)))?,
        _ => out.lines(rows(&status))?,
    }
    Ok(())
}

fn handoffs(config: &Config) -> Result<Vec<Handoff>, CommandFailure> {
    let runtime = runtime()?;
    let store = store::open_for_reading(&config.store, &config.state_dir);
    let read =
        store.and_then(|store| runtime.block_on(async { store.handoffs(&HandoffFilter::default()).await }));
    read.map_err(|error| Exit::UNAVAILABLE.failure(error.to_string()))
}

/// A short line of fixed form, for prompts.
fn line(status: &Status) -> String {
    let now = now_ms();
    let last = status
        .last_exchange
        .as_ref()
        .map_or_else(|| "-".to_owned(), |row| age(row.at_ms, now));
    let running = match &status.running {
        Some(process) => format!("running at {}", first_line(&process.data, None)),
        None => "not running".to_owned(),
    };
    format!(
        "baton: {running}, {}, {}, {} saved, last {last}",
        plural(status.journal.exchanges, "exchange"),
        plural(status.handoffs as u64, "handoff"),
        unsent(status.unsent_tokens)
    )
}

/// Goal and next step of the newest handoff file, if there is one. A prompt shows no errors of that file.
fn handed_over(config: &Config) -> String {
    let folder = HandoffFolder::new(&config.handoffs_dir()).ok();
    let line = folder.and_then(|folder| LineReader::new(folder).read(None, Instant::now()).ok()?);
    match line.map(|line| line.line()) {
        Some(line) if !line.is_empty() => format!(" | {}", first_line(&line, None)),
        _ => String::new(),
    }
}

fn ago(then_ms: u64, now_ms: u64) -> String {
    match age(then_ms, now_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// Whether a proxy runs, and since when.
fn running(status: &Status, now: u64) -> String {
    match (&status.running, &status.stale) {
        (Some(process), _) => format!(
            "yes: process {}, version {}, started {}",
            process.pid,
            first_line(&process.version, None),
            ago(process.started_ms, now)
        ),
        (None, Some(process)) => format!(
            "no: process {}, started {}, was killed",
            process.pid,
            ago(process.started_ms, now)
        ),
        (None, None) => "no".to_owned(),
    }
}

fn rows(status: &Status) -> Vec<String> {
    let now = now_ms();
    let last = status.last_exchange.as_ref().map_or_else(
        || "none yet".to_owned(),
        |row| format!("{}, {}", ago(row.at_ms, now), row.id),
    );
    let handoff = status.newest.as_ref().map_or_else(
        || "none yet".to_owned(),
        |h| {
            format!(
                "{}, {}  {}",
                ago(h.created_ms, now),
                h.id,
                first_line(&super::handoffs::named(h), Some(60))
            )
        },
    );
    // Without a proxy there is nothing at the configured addresses.
    let place = |found: fn(&Process) -> &String, without: String| match &status.running {
        Some(process) => first_line(found(process), None),
        None => without,
    };
    [
        ("version", status.version.to_owned()),
        ("running", running(status, now)),
        ("state", first_line(&status.state_dir, None)),
        (
            "agents at",
            place(
                |process| &process.data,
                format!(
                    "not listening; `baton serve` would listen at http://{}",
                    status.listen
                ),
            ),
        ),
        (
            "inspector",
            place(
                |process| &process.admin,
                "not open; `baton ui` opens it over the journal".to_owned(),
            ),
        ),
        (
            "journal",
            format!(
                "{}, {}, {}",
                plural(status.journal.exchanges, "exchange"),
                plural(status.journal.conversations, "conversation"),
                size(status.journal.bytes)
            ),
        ),
        ("last exchange", last),
        ("handoffs", status.handoffs.to_string()),
        ("last handoff", handoff),
        (
            "input saved",
            format!("{} (estimated)", unsent(status.unsent_tokens)),
        ),
    ]
    .iter()
    .map(|(name, value)| format!("{name:<14} {value}"))
    .collect()
}
