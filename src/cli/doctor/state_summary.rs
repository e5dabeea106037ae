//! What a state directory contains and which proxy serves from it, as values and in one line.

use std::time::Instant;

use serde::Serialize;

use super::finding::Finding;
use super::installation::Installation;
use crate::cli::output::{age, first_line, plural, unsent};
use crate::cli::running::{Process, RunState};
use crate::state::clock::now_ms;
use crate::state::config::Config;
use crate::state::files::yaml_files::{HandoffFolder, LineReader};
use crate::state::journal::{ExchangeRow, JournalTotals};

/// The summary. The field names are API.
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

impl StateSummary {
    pub(super) fn of(installation: &Installation) -> Self {
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

    /// A short line of fixed form, for prompts.
    pub(super) fn line(&self, config: &Config) -> String {
        let last = self
            .last_exchange
            .as_ref()
            .map_or_else(|| "-".to_owned(), |row| age(row.at_ms, now_ms()));
        let running = match &self.running {
            Some(process) => format!("running at {}", first_line(&process.data, None)),
            None => "not running".to_owned(),
        };
        format!(
            "baton: {running}, {}, {}, {} saved, last {last}{}",
            plural(self.journal.exchanges, "exchange"),
            plural(self.handoffs as u64, "handoff"),
            unsent(self.unsent_tokens),
            handed_over(config)
        )
    }
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

/// Whether a proxy serves, and where.
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

pub(super) fn ago(then_ms: u64, now_ms: u64) -> String {
    match age(then_ms, now_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}
