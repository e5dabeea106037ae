//! `baton doctor`: says what runs and what is stored, and what to do about each problem. Changes nothing. `baton check` is the
//! part that needs a config alone.
//!
//! A check is a row of [`CHECKS`]: a name and a function from the installation to its findings.

mod agents;
pub(super) mod config;
mod finding;
mod installation;
mod machine;
mod probe;
mod state;
mod state_summary;
mod upstreams;

use std::path::PathBuf;

use serde::Serialize;

use self::finding::{Finding, FindingSeverity};
use self::installation::Installation;
use self::state_summary::StateSummary;
use super::args::CheckArgs;
use super::exit::{CommandFailure, Exit};
use super::output::{Out, plural, visible};
use super::system_args::DoctorArgs;
use super::{config_file, load, load_state, readiness};
use crate::state::config::{DEFAULT_TEXT, Flags};

/// A check's name, and what it finds.
type DoctorCheck = (&'static str, fn(&Installation) -> Vec<Finding>);

/// The checks of an installation whose config is valid, in the order in which they are printed.
const CHECKS: &[DoctorCheck] = &[
    (CONFIG, |installation| config::warnings(&installation.config)),
    ("proxy", state_summary::proxy),
    ("service", machine::service),
    ("ports", machine::ports),
    ("clock", machine::clock),
    ("store", state::store),
    ("journal", state::journal),
    ("models", state::models),
    ("upstreams", upstreams::reachable),
    ("agents", agents::found),
    ("sign-ins", agents::sign_ins),
];

/// The check that also runs with an invalid config.
const CONFIG: &str = "config";

/// A finding with the name of its check.
#[derive(Serialize)]
struct ReportedFinding {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// The field names are API.
#[derive(Serialize)]
struct DoctorReport {
    /// Whether no finding is an error.
    ok: bool,
    version: &'static str,
    /// The config file; none for the defaults, with the environment.
    config: Option<String>,
    #[serde(flatten)]
    state: Option<StateSummary>,
    findings: Vec<ReportedFinding>,
}

pub(super) fn run(args: &DoctorArgs, out: &mut Out) -> Result<(), CommandFailure> {
    if args.ready || args.line {
        let config = load_state(&args.state)?;
        if args.ready {
            return readiness::report(&config.state_dir, out);
        }
        let installation = Installation::of(config, false);
        let line = StateSummary::of(&installation).line(&installation.config);
        return Ok(out.line(line)?);
    }
    let flags = Flags {
        state_dir: args.state.state_dir.clone(),
        ..Flags::default()
    };
    let file = args.state.config.as_ref();
    match load(file, &flags) {
        Ok(config) => {
            let installation = Installation::of(config, !args.offline);
            let state = Some(StateSummary::of(&installation));
            report(
                file,
                state,
                examine(&installation),
                args.json,
                Exit::UNAVAILABLE,
                out,
            )
        }
        Err(problems) => {
            let findings = reported(CONFIG, config::problems(&problems)).collect();
            report(file, None, findings, args.json, Exit::CONFIG, out)
        }
    }
}

/// `baton check`.
pub(super) fn check(args: &CheckArgs, out: &mut Out) -> Result<(), CommandFailure> {
    if args.defaults {
        return Ok(out.document(DEFAULT_TEXT)?);
    }
    let findings = match load(args.config.as_ref(), &Flags::default()) {
        Ok(config) => reported(CONFIG, config::warnings(&config))
            .chain(reported("store", config::store_server(&config)))
            .collect(),
        Err(problems) => reported(CONFIG, config::problems(&problems)).collect(),
    };
    report(args.config.as_ref(), None, findings, args.json, Exit::CONFIG, out)
}

/// Prints what was found, and fails with `exit` if an error is among it.
fn report(
    file: Option<&PathBuf>,
    state: Option<StateSummary>,
    findings: Vec<ReportedFinding>,
    json: bool,
    exit: Exit,
    out: &mut Out,
) -> Result<(), CommandFailure> {
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
    match report.ok {
        true => Ok(()),
        false => Err(exit.silent()),
    }
}

fn examine(installation: &Installation) -> Vec<ReportedFinding> {
    let rows = CHECKS.iter();
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

fn print(report: &DoctorReport, out: &mut Out) -> Result<(), CommandFailure> {
    let file = report.config.as_deref();
    let file = file.map_or_else(|| "the defaults, with the environment".to_owned(), visible);
    out.line(format_args!("baton {}, config: {file}", report.version))?;
    for ReportedFinding { check, finding } in &report.findings {
        let style = finding.severity.style();
        out.line(format_args!(
            "{style}{:<7}{style:#}  {check:<9}  {}: {}",
            finding.severity.name(),
            visible(&finding.subject),
            visible(&finding.message)
        ))?;
        if let Some(help) = &finding.help {
            out.line(format_args!("                      do: {}", visible(help)))?;
        }
    }
    let count = |severity| {
        let rows = report.findings.iter();
        rows.filter(|row| row.finding.severity == severity).count() as u64
    };
    out.line(format_args!(
        "\n{}, {}",
        plural(count(FindingSeverity::Error), "error"),
        plural(count(FindingSeverity::Warning), "warning")
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests;
