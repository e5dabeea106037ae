//! The `baton doctor` command: reports the state of the installation, with a remedy for each problem. Changes
//! nothing.
//!
//! `baton check` is the part that needs only a config. A check is a row of [`CHECKS`].

pub(super) mod config;
mod finding;
mod installation;
mod rows;

use std::path::PathBuf;

use anstyle::Style;
use clap::Args as ClapArgs;
use serde::Serialize;

pub(super) use self::finding::Finding;
use self::finding::FindingSeverity;
use self::installation::{Installation, StateSummary};
pub(super) use self::rows::OTHER_KEYS;
use self::rows::{CHECKS, CONFIG, USERS_CHECKS};
use super::exit::{CliResult, Exit};
use super::output::{Out, plural, visible};
use super::state_args::{CONFIG_HELP, StateArgs};
use super::{config_file, load, load_state, running};
use baton_state::config::{DEFAULT_TEXT, Flags};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Sends one HEAD request without credentials to each upstream, and changes nothing. Exits with 0 unless a line is an error, \
with 78 if the config is wrong, and with 69 for any other error.

An upstream that cannot be reached is an error if the config sets it or the journal has requests to it, else a warning. \
Keys and sign-ins are not tried at the provider; a refused one is in `baton log error`.

`--ready` exits with 69 if no proxy serves requests.

Examples:
  baton doctor
  baton doctor --line
  baton doctor --ready
  baton doctor --offline --json | jq .journal.bytes
  baton doctor --json | jq '.findings[] | select(.severity != \"ok\")'")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Send no request to upstreams
    #[arg(long)]
    offline: bool,
    /// Print one line of at most 40 characters, for a prompt or a status bar
    #[arg(long, group = "short")]
    line: bool,
    /// Check only whether the proxy serves requests, as a container's health check does
    #[arg(long, group = "short")]
    ready: bool,
    /// Print JSON
    #[arg(long, group = "short")]
    json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exits with 0 if the config is valid and with 78 if it is not. A configured Redis server is asked for its settings.

Examples:
  baton check --config baton.toml
  baton check --defaults > baton.toml
  baton check --json | jq .findings")]
pub(super) struct CheckArgs {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the built-in config, which explains every key, and check nothing
    #[arg(long, conflicts_with_all = ["config", "json"])]
    defaults: bool,
}

/// A finding with the name of its check.
#[derive(Serialize)]
struct ReportedFinding {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// The report in JSON. The field names are public API.
#[derive(Serialize)]
struct DoctorReport {
    /// Whether no finding is an error.
    ok: bool,
    version: &'static str,
    /// Config file; `None` for the defaults, with the environment.
    config: Option<String>,
    #[serde(flatten)]
    state: Option<StateSummary>,
    findings: Vec<ReportedFinding>,
}

pub(super) fn run(args: &DoctorArgs, out: &mut Out) -> CliResult {
    if args.ready || args.line {
        let config = load_state(&args.state, &[])?;
        if args.ready {
            return running::report_ready(&config.state_dir, out);
        }
        // No request is sent, because a prompt must not wait for upstreams.
        let installation = Installation::new(config, false);
        return out.line(StateSummary::from_installation(&installation).line());
    }
    let flags = Flags {
        state_dir: args.state.state_dir.clone(),
        ..Flags::default()
    };
    let file = args.state.config.as_ref();
    // The exit code distinguishes an invalid config from other problems.
    let (state, findings, exit) = match load(file, &flags) {
        Ok(config) => {
            let installation = Installation::new(config, !args.offline);
            let state = StateSummary::from_installation(&installation);
            (Some(state), examine(&installation), Exit::UNAVAILABLE)
        }
        Err(problems) => {
            let findings = reported(CONFIG, config::problems(&problems));
            (None, findings.collect(), Exit::CONFIG)
        }
    };
    report(file, state, findings, args.json, exit, out)
}

/// Runs `baton check`.
pub(super) fn check(args: &CheckArgs, out: &mut Out) -> CliResult {
    if args.defaults {
        return out.document(DEFAULT_TEXT);
    }
    let findings = match load(args.config.as_ref(), &Flags::default()) {
        Ok(config) => reported(CONFIG, config::warnings(&config))
            .chain(reported("store", config::store_server(&config)))
            .collect(),
        Err(problems) => reported(CONFIG, config::problems(&problems)).collect(),
    };
    report(args.config.as_ref(), None, findings, args.json, Exit::CONFIG, out)
}

/// Prints the findings, and fails with `exit` if one of them is an error.
fn report(
    file: Option<&PathBuf>,
    state: Option<StateSummary>,
    findings: Vec<ReportedFinding>,
    json: bool,
    exit: Exit,
    out: &mut Out,
) -> CliResult {
    let mut rows = findings.iter();
    let report = DoctorReport {
        ok: rows.all(|row| row.finding.severity != FindingSeverity::Error),
        version: env!("CARGO_PKG_VERSION"),
        config: config_file(file).map(|path| path.display().to_string()),
        state,
        findings,
    };
    match json {
        true => out.json(&report)?,
        false => print(&report, out)?,
    }
    exit.unless(report.ok)
}

fn examine(installation: &Installation) -> Vec<ReportedFinding> {
    let is_server = installation.is_server();
    let rows = CHECKS.iter();
    let rows = rows.filter(|(name, _)| !is_server || !USERS_CHECKS.contains(name));
    rows.flat_map(|(name, run)| reported(name, run(installation)))
        .collect()
}

fn reported(
    check: &'static str,
    findings: impl IntoIterator<Item = Finding>,
) -> impl Iterator<Item = ReportedFinding> {
    let findings = findings.into_iter();
    findings.map(move |finding| ReportedFinding { check, finding })
}

fn print(report: &DoctorReport, out: &mut Out) -> CliResult {
    let file = report.config.as_deref();
    let file = file.map_or_else(|| "the defaults, with the environment".to_owned(), visible);
    out.line(format_args!("baton {}, config: {file}", report.version))?;
    for ReportedFinding { check, finding } in &report.findings {
        let (severity, colour) = finding.severity.shown();
        let style = Style::new().fg_color(Some(colour.into())).bold();
        let (subject, message) = (visible(&finding.subject), visible(&finding.message));
        out.line(format_args!(
            "{style}{severity:<7}{style:#}  {check:<9}  {subject}: {message}"
        ))?;
        if let Some(help) = &finding.help {
            out.line(format_args!("                      do: {}", visible(help)))?;
        }
    }
    let counted = |severity, noun| {
        let rows = report.findings.iter();
        plural(
            rows.filter(|row| row.finding.severity == severity).count() as u64,
            noun,
        )
    };
    let errors = counted(FindingSeverity::Error, "error");
    let warnings = counted(FindingSeverity::Warning, "warning");
    out.line(format_args!("\n{errors}, {warnings}"))
}

#[cfg(test)]
mod tests;
