//! Checks of the installed agents: the destination of their requests, and sign-ins that do not reach baton.
//!
//! Reads only settings. Files with credentials of agents are never opened.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::installation::Installation;
use crate::cli::agents::{self, AgentSetup};
use crate::cli::declared::{self, OwnUrl};
use crate::cli::run;
use crate::cli::running::{self, RunState};

/// Destination that an agent's setting gives its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Baton,
    /// An upstream of baton. `baton run` replaces such a setting.
    Upstream,
    Elsewhere,
}

/// Checks each agent on the PATH, with the setting that directs its requests.
pub(super) fn found(installation: &Installation) -> Vec<Finding> {
    let installed: Vec<_> = installed().collect();
    if installed.is_empty() {
        let names: Vec<_> = agents::known().iter().map(|agent| agent.name.as_str()).collect();
        return vec![Finding::warning(
            "PATH",
            "contains no known agent",
            format!(
                "install one of {}, or point another at baton (`baton env AGENT`)",
                names.join(", ")
            ),
        )];
    }
    let installed = installed.into_iter();
    installed
        .map(|(agent, path)| pointed(installation, agent, &path))
        .collect()
}

fn installed() -> impl Iterator<Item = (&'static AgentSetup, PathBuf)> {
    agents::known()
        .iter()
        .filter_map(|agent| Some((agent, on_path(&agent.name)?)))
}

fn on_path(program: &str) -> Option<PathBuf> {
    agents::on_path(program.as_ref()).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn pointed(installation: &Installation, agent: &'static AgentSetup, path: &Path) -> Finding {
    let subject = agent.title.as_str();
    let here = path.display();
    let url = proxy_url(installation);
    let (overriding, replaced) = (declared::own_urls(agent, true), own_urls(agent, &url));
    let of = |theirs: &OwnUrl| target(installation, &url, theirs);
    // Reported first, because even `baton run` cannot override it.
    if let Some(theirs) = overriding.iter().find(|theirs| of(theirs) != Target::Baton) {
        return Finding::warning(
            subject,
            format!(
                "{} is {}, which takes precedence over `baton run`",
                theirs.setting, theirs.url
            ),
            format!("remove it, or set it to {url}"),
        );
    }
    if let Some(theirs) = replaced.iter().find(|theirs| of(theirs) == Target::Elsewhere) {
        let help = match theirs.upstreams.first() {
            Some(upstream) => {
                format!("to go there through baton, set `upstreams.{upstream}.base_url` to it; else unset it")
            }
            None => "unset it".to_owned(),
        };
        let message = format!(
            "{} is {}, which is not an upstream of baton",
            theirs.setting, theirs.url
        );
        return Finding::warning(subject, message, help);
    }
    let mut all = overriding.iter().chain(&replaced);
    match all.find(|theirs| of(theirs) == Target::Baton) {
        None => Finding::ok(
            subject,
            format!("{here}; goes through baton with `baton run {}`", agent.name),
        ),
        Some(theirs) if matches!(installation.running, RunState::Running(_)) => {
            Finding::ok(subject, format!("{here}; pointed at baton by {}", theirs.setting))
        }
        Some(theirs) => Finding::warning(
            subject,
            format!("pointed at baton by {}, but no proxy is running", theirs.setting),
            "start `baton serve`, or have it started at login: `baton service install`",
        ),
    }
}

/// Returns the settings that `baton run` replaces: environment variables, and keys of the agent's own files.
fn own_urls(agent: &'static AgentSetup, url: &str) -> Vec<OwnUrl> {
    let set = agent.setup(url, url, "").variables;
    // Other variables do not direct requests.
    let directing = set.iter().filter(|(_, value)| value.starts_with(url));
    let variables = directing.filter_map(|(name, _)| run::own_variable(name));
    variables.chain(declared::own_urls(agent, false)).collect()
}

fn target(installation: &Installation, url: &str, theirs: &OwnUrl) -> Target {
    let there = run::place(&theirs.url);
    if there == run::place(url) {
        return Target::Baton;
    }
    let upstreams = theirs.upstreams.iter();
    let mut known = upstreams.filter_map(|name| installation.config.upstreams.get(*name));
    match known.any(|upstream| run::place(&upstream.base_url) == there) {
        true => Target::Upstream,
        false => Target::Elsewhere,
    }
}

/// URL of the running proxy, else the configured one.
fn proxy_url(installation: &Installation) -> String {
    if let RunState::Running(Some(process)) = &installation.running {
        return process.data.clone();
    }
    let config = &installation.config;
    running::url(config, running::reachable(config.server.listen))
}

/// Checks the sign-ins of the agents on the PATH.
///
/// Warns of a chosen one that does not reach baton, and of one that its provider's terms exclude.
pub(super) fn sign_ins(_: &Installation) -> Vec<Finding> {
    let of = |agent: &'static AgentSetup| {
        let terms = agent.terms();
        let terms = terms.map(|why| Finding::warning(&agent.title, why, "use an API key"));
        std::iter::once(sign_in(agent)).chain(terms)
    };
    installed().flat_map(|(agent, _)| of(agent)).collect()
}

fn sign_in(agent: &'static AgentSetup) -> Finding {
    match agent.unreached.iter().find(|row| row.is_chosen()) {
        Some(row) => Finding::warning(
            &agent.title,
            format!("{} does not go through baton", row.sign_in),
            &row.help,
        ),
        None => Finding::ok(&agent.title, format!("works with {}", agent.sign_ins)),
    }
}
