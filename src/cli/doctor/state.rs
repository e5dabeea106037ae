//! Checks of the files: the store's permissions and schema, and the journal.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::config;
use super::finding::Finding;
use super::installation::{Installation, ago};
use crate::cli::output::{age, first_line, plural, size, unsent};
use crate::cli::running::RunState;
use crate::state::clock::{millis, now_ms};
use crate::state::config::{Config, StoreKind};
use crate::state::store::sqlite;
use baton_core::handoffs::carry::{self, Omissions};
use baton_core::record::Handoff;

/// Silence that suggests that no agent is pointed at a running proxy.
const SILENT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Checks whether this version can open the store, and whether it is writable and closed to other users.
pub(super) fn store(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    match config.store.kind {
        StoreKind::Memory => vec![Finding::warning(
            "store.kind",
            "the store is in memory, so handoffs are lost when the proxy stops",
            "set `store.kind = \"sqlite\"`, unless that is intended",
        )],
        StoreKind::Redis => config::store_server(config).into_iter().collect(),
        StoreKind::Sqlite => {
            let mut findings = vec![file(installation)];
            findings.extend(open_to_others(&config.state_dir));
            findings
        }
    }
}

fn file(installation: &Installation) -> Finding {
    let config = &installation.config;
    let path = config.state_dir.join(sqlite::FILE);
    let subject = path.display().to_string();
    if !path.exists() {
        return absent(config, subject);
    }
    // Opening for append tests the permission and changes nothing.
    if let Err(error) = OpenOptions::new().append(true).open(&path) {
        let message = format!("cannot be written: {error}");
        return Finding::error(
            subject,
            message,
            "give its owner write permission, or choose another `state.dir`",
        );
    }
    match &installation.handoffs {
        Ok(handoffs) => {
            let last = handoffs.first().map_or_else(String::new, |last| {
                let made = ago(last.created_ms, now_ms());
                let title = first_line(&crate::cli::handoffs::named(last), Some(60));
                format!("; the last {made}: {}  {title}", last.id)
            });
            let count = plural(handoffs.len() as u64, "handoff");
            Finding::ok(subject, format!("can be opened, {count}{last}"))
        }
        Err(message) => Finding::error(
            subject,
            message.clone(),
            "use the version that wrote it, restore a backup (`baton store copy --from`), or choose another `state.dir`",
        ),
    }
}

/// Checks whether a store that does not exist yet can be created, in the nearest directory that exists.
fn absent(config: &Config, subject: String) -> Finding {
    let directory = config.state_dir.ancestors().find(|directory| directory.exists());
    let writable = directory.is_some_and(|directory| {
        fs::metadata(directory).is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
    });
    match writable {
        true => Finding::ok(subject, "does not exist yet; the first start creates it"),
        false => Finding::error(
            subject,
            "cannot be created there",
            "choose another directory with --state-dir or `state.dir`",
        ),
    }
}

/// Warns of files with transcripts or keys that other users may read.
fn open_to_others(state_dir: &Path) -> Option<Finding> {
    const OTHERS: u32 = 0o077;
    let mode = |path: &Path| Some(fs::metadata(path).ok()?.permissions().mode() & OTHERS);
    // A closed directory protects its files, whatever their modes.
    if mode(state_dir)? == 0 {
        return None;
    }
    let names = [sqlite::FILE, "journal.db", "seal.key", "seal-older.keys"];
    let open = names
        .into_iter()
        .find(|name| mode(&state_dir.join(name)).is_some_and(|mode| mode != 0))?;
    Some(Finding::warning(
        state_dir.join(open).display().to_string(),
        "other users of this machine may open it",
        format!("chmod 700 {}", state_dir.display()),
    ))
}

/// Checks whether the journal can be read, and whether a running proxy writes to it.
pub(super) fn journal(installation: &Installation) -> Vec<Finding> {
    let subject = "journal.db";
    let mut findings = Vec::new();
    if let RunState::Stale(process) = &installation.running {
        findings.push(Finding::warning(
            subject,
            format!(
                "the last proxy (process {}) was killed; data that it had not written is lost",
                process.pid
            ),
            "ignore this if it was intended; stop a proxy with Ctrl-C or SIGTERM",
        ));
    }
    if !installation.config.journal.enabled {
        findings.push(Finding::ok(subject, "off (journal.enabled)"));
        return findings;
    }
    let running = matches!(installation.running, RunState::Running(_));
    let now_ms = millis(installation.now.duration_since(UNIX_EPOCH).unwrap_or_default());
    findings.push(match &installation.journal {
        Err(error) => Finding::error(
            subject,
            error.to_string(),
            "move the file away; the next start creates a new one",
        ),
        Ok(None) if running => Finding::warning(
            subject,
            "a proxy is running without a journal",
            "look for `the journal is off` in its log",
        ),
        Ok(None) => Finding::ok(subject, "does not exist yet; the first start creates it"),
        Ok(Some(summary)) => {
            let totals = &summary.totals;
            let newest_ms = summary.newest.as_ref().map(|row| row.at_ms);
            let newest = newest_ms.map_or_else(|| "none yet".to_owned(), |at| age(at, now_ms));
            let message = format!(
                "{}, {}, {}, newest: {newest}; input saved: {} (estimated)",
                plural(totals.exchanges, "exchange"),
                plural(totals.conversations, "conversation"),
                size(totals.bytes),
                unsent(totals.unsent_tokens)
            );
            let silence = newest_ms.map_or(0, |at| now_ms.saturating_sub(at));
            match running && silence > millis(SILENT) {
                true => Finding::warning(
                    subject,
                    format!("stale: {message}, although a proxy is running"),
                    "point an agent at the proxy: `baton run AGENT`, or `baton env AGENT`",
                ),
                false => Finding::ok(subject, message),
            }
        }
    });
    findings
}

/// Checks for omissions in the prompts of models.
///
/// Warns of models that write handoff calls as text, because servers do not read those as calls.
pub(super) fn models(installation: &Installation) -> Vec<Finding> {
    let mut findings = installation
        .handoffs
        .as_deref()
        .map(omissions)
        .unwrap_or_default();
    if let Ok(Some(summary)) = &installation.journal {
        findings.extend(text_tool_calls(&summary.text_tool_calls));
    }
    findings
}

/// Minimum number of a model's handoffs for a judgment.
const ENOUGH: usize = 5;
/// Minimum omissions per handoff for a warning.
const MUCH: f64 = 2.0;

/// Counts the rules and to-dos that the carry-over prompts of each model leave out.
pub(super) fn omissions(handoffs: &[Handoff]) -> Vec<Finding> {
    let models = carry::omissions(handoffs).into_iter();
    let enough = models.filter(|(_, omitted)| omitted.handoffs >= ENOUGH);
    let finding = |(model, omitted): (&str, Omissions)| {
        let (each, count) = (omitted.each(), omitted.handoffs);
        let found =
            format!("omits {each:.1} rules and to-dos per handoff, over {count}; baton adds those that fit");
        match each < MUCH {
            true => Finding::ok(model, found),
            false => Finding::warning(
                model,
                found,
                "ask for them in `handoff.description`, hand over earlier (`handoff.auto_at`), or let baton draft (`draft.method`)",
            ),
        }
    };
    enough.map(finding).collect()
}

pub(super) fn text_tool_calls(models: &BTreeSet<String>) -> Vec<Finding> {
    let finding = |model: &String| {
        Finding::warning(
            model.clone(),
            "wrote calls of session_handoff as text, which servers do not treat as calls, so nothing was handed over",
            "use a model and a chat template with tool calls (llama-server: `--jinja`), or hand over by `::handoff --method local`",
        )
    };
    models.iter().map(finding).collect()
}
