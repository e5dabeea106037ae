//! Checks of the files: the store with its permissions and schema, and the journal.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::finding::Finding;
use super::installation::Installation;
use crate::cli::check;
use crate::cli::output::{age, plural, size};
use crate::cli::running::RunState;
use crate::state::config::{Config, StoreKind};
use crate::state::store::{self, HandoffFilter, sqlite};

/// Silence of a running proxy from which on agents are probably not pointed at it.
const SILENT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whether the store can be opened by this version, is writable, and closed to other users.
pub(super) fn store(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    match config.store.kind {
        StoreKind::Memory => vec![Finding::warning(
            "store.kind",
            "the store is in memory: handoffs end with the proxy",
            "set `store.kind = \"sqlite\"`, unless that is intended",
        )],
        StoreKind::Redis => vec![server(config)],
        StoreKind::Sqlite => {
            let mut findings = vec![file(config)];
            findings.extend(open_to_others(&config.state_dir));
            findings
        }
    }
}

fn server(config: &Config) -> Finding {
    match check::store_server_problem(config) {
        None => Finding::ok("store.url", "the server answers, and its settings keep handoffs"),
        Some(problem) => Finding::error(problem.key, problem.message, problem.help.unwrap_or_default()),
    }
}

fn file(config: &Config) -> Finding {
    let path = config.state_dir.join(sqlite::FILE);
    let subject = path.display().to_string();
    if !path.exists() {
        return absent(config, subject);
    }
    if let Err(error) = OpenOptions::new().append(true).open(&path) {
        let message = format!("cannot be written: {error}");
        return Finding::error(
            subject,
            message,
            "give its owner write permission, or choose another `state.dir`",
        );
    }
    match handoffs(config) {
        Ok(count) => Finding::ok(subject, format!("can be opened, {}", plural(count, "handoff"))),
        Err(message) => Finding::error(
            subject,
            message,
            "use the version that wrote it, restore a backup (`baton store copy --from`), or choose another `state.dir`",
        ),
    }
}

/// A store that does not exist yet, in the nearest folder that does.
fn absent(config: &Config, subject: String) -> Finding {
    let folder = config.state_dir.ancestors().find(|folder| folder.exists());
    let writable = folder.is_some_and(|folder| {
        fs::metadata(folder).is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
    });
    match writable {
        true => Finding::ok(subject, "does not exist yet; the first start creates it"),
        false => Finding::error(
            subject,
            "cannot be created there",
            "choose another folder with --state-dir or `state.dir`",
        ),
    }
}

fn handoffs(config: &Config) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let store = store::open_for_reading(&config.store, &config.state_dir).map_err(|error| error.message)?;
    let found = runtime.block_on(async { store.handoffs(&HandoffFilter::everything()).await });
    found.map(|all| all.len() as u64).map_err(|error| error.message)
}

/// Files with transcripts or keys that other users may read.
#[cfg(unix)]
fn open_to_others(state_dir: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;

    const OTHERS: u32 = 0o077;
    let mode = |path: &Path| Some(fs::metadata(path).ok()?.permissions().mode() & OTHERS);
    // A closed folder protects what is in it.
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

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<Finding> {
    None
}

/// Whether the journal can be read and is written to.
pub(super) fn journal(installation: &Installation) -> Vec<Finding> {
    let subject = "journal.db";
    let mut findings = Vec::new();
    if let RunState::Stale(process) = &installation.running {
        findings.push(Finding::warning(
            subject,
            format!(
                "the last proxy (process {}) was killed; what it had not written yet is lost",
                process.pid
            ),
            "nothing, if that was intended; stop a proxy with Ctrl-C or SIGTERM",
        ));
    }
    if !installation.config.journal.enabled {
        findings.push(Finding::ok(subject, "off (journal.enabled)"));
        return findings;
    }
    let running = matches!(installation.running, RunState::Running(_));
    let now_ms = installation.now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now_ms.as_millis()).unwrap_or(u64::MAX);
    findings.push(match &installation.journal {
        Err(error) => Finding::error(
            subject,
            error.to_string(),
            "move the file; a new one is made at the next start",
        ),
        Ok(None) if running => Finding::warning(
            subject,
            "a proxy runs and keeps no journal",
            "look for `the journal is off` in its log",
        ),
        Ok(None) => Finding::ok(subject, "does not exist yet; the first start creates it"),
        Ok(Some(summary)) => {
            let totals = &summary.totals;
            let newest = summary
                .newest_ms
                .map_or_else(|| "none yet".to_owned(), |at| age(at, now_ms));
            let message = format!(
                "{}, {}, newest: {newest}",
                plural(totals.exchanges, "exchange"),
                size(totals.bytes)
            );
            let silence = summary.newest_ms.map_or(0, |at| now_ms.saturating_sub(at));
            match running && u128::from(silence) > SILENT.as_millis() {
                true => Finding::warning(
                    subject,
                    format!("stale: {message}, although a proxy runs"),
                    "point an agent at the proxy: `baton run AGENT`, or `baton env AGENT`",
                ),
                false => Finding::ok(subject, message),
            }
        }
    });
    findings
}

/// Models that write handoff calls as text, which their servers do not read as calls.
pub(super) fn models(installation: &Installation) -> Vec<Finding> {
    let Ok(Some(summary)) = &installation.journal else {
        return Vec::new();
    };
    written_calls(&summary.written_calls)
}

pub(super) fn written_calls(models: &BTreeSet<String>) -> Vec<Finding> {
    let finding = |model: &String| {
        Finding::warning(
            model.clone(),
            "wrote calls of session_handoff as text, which no server reads as calls: nothing was handed over",
            "use a model and a chat template with tool calls (llama-server: `--jinja`), or hand over by `::handoff --method local`",
        )
    };
    models.iter().map(finding).collect()
}
