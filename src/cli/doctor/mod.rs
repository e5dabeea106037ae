//! `baton doctor`: examines an installation and prints what to do about each problem. Changes nothing.
//!
//! A check is a row of [`CHECKS`]: a name and a function from the installation to its findings.

mod agents;
mod finding;
mod installation;
mod machine;
mod probe;
mod state;
mod upstreams;

use serde::Serialize;

use self::finding::{Finding, FindingSeverity};
use self::installation::Installation;
use super::check;
use super::exit::{CommandFailure, Exit};
use super::output::{Out, plural, visible};
use super::system_args::DoctorArgs;
use super::{config_file, load};
use crate::state::config::{Flags, Problem};

/// A check's name, and what it finds.
type DoctorCheck = (&'static str, fn(&Installation) -> Vec<Finding>);

/// The checks of an installation whose config is valid, in the order in which they are printed.
const CHECKS: &[DoctorCheck] = &[
    (CONFIG, config_warnings),
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

#[derive(Serialize)]
struct DoctorReport {
    /// Whether no finding is an error.
    ok: bool,
    version: &'static str,
    findings: Vec<ReportedFinding>,
}

pub(super) fn run(args: &DoctorArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let flags = Flags {
        state_dir: args.state.state_dir.clone(),
        ..Flags::default()
    };
    let loaded = load(args.state.config.as_ref(), &flags);
    let broken = loaded.is_err();
    let findings = match loaded {
        Ok(config) => examine(&Installation::of(config)),
        Err(problems) => reported(CONFIG, config_problems(&problems)).collect(),
    };
    let file = config_file(args.state.config.as_ref());
    let file = file.map_or_else(
        || "the defaults, with the environment".to_owned(),
        |path| path.display().to_string(),
    );
    let report = DoctorReport {
        ok: !findings
            .iter()
            .any(|row| row.finding.severity == FindingSeverity::Error),
        version: env!("CARGO_PKG_VERSION"),
        findings,
    };
    match args.json {
        true => out.json(&report)?,
        false => print(&report, &file, out)?,
    }
    match (report.ok, broken) {
        (true, _) => Ok(()),
        (false, true) => Err(Exit::CONFIG.silent()),
        (false, false) => Err(Exit::UNAVAILABLE.silent()),
    }
}

fn examine(installation: &Installation) -> Vec<ReportedFinding> {
    let rows = CHECKS.iter();
    rows.flat_map(|(name, run)| reported(name, run(installation)))
        .collect()
}

fn reported(check: &'static str, findings: Vec<Finding>) -> impl Iterator<Item = ReportedFinding> {
    findings
        .into_iter()
        .map(move |finding| ReportedFinding { check, finding })
}

fn config_problems(problems: &[Problem]) -> Vec<Finding> {
    let finding = |problem: &Problem| {
        let subject = match problem.key.as_str() {
            "" => problem.origin.to_string(),
            key => format!("{}: {key}", problem.origin),
        };
        let help = match &problem.help {
            // A question is nothing to do.
            Some(help) if help.ends_with('?') => format!("correct it: {help}"),
            Some(help) => help.clone(),
            None => "correct it; `baton check` checks it again".to_owned(),
        };
        Finding::error(subject, problem.message.clone(), help)
    };
    problems.iter().map(finding).collect()
}

fn config_warnings(installation: &Installation) -> Vec<Finding> {
    let warnings = check::warnings(&installation.config);
    let findings: Vec<_> = warnings
        .into_iter()
        .map(|warning| {
            Finding::warning(
                warning.key,
                warning.message,
                "change the key, or leave it if that is intended",
            )
        })
        .collect();
    match findings.is_empty() {
        true => vec![Finding::ok("all keys", "no problems")],
        false => findings,
    }
}

fn print(report: &DoctorReport, file: &str, out: &mut Out) -> Result<(), CommandFailure> {
    out.line(format_args!(
        "baton {}, config: {}",
        report.version,
        visible(file)
    ))?;
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
