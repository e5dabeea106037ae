//! `baton check`: reports all problems of a config.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use super::args::CheckArgs;
use super::exit::{CommandFailure, Exit};
use super::output::{Out, plural, visible};
use super::{config_file, load};
use crate::state::config::{
    Config, DEFAULT_TEXT, Flags, HandoffPolicy, KeyOrigin, Problem, ProblemKind, StoreKind,
};
use crate::state::store::{self, StoreError};
use baton_core::nudge::{self, Compaction};

#[derive(Serialize)]
struct ConfigReport<'a> {
    ok: bool,
    file: Option<String>,
    problems: &'a [Problem],
    warnings: &'a [Warning],
}

/// A setting that is allowed and probably not intended.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Warning {
    /// The key, as `section.key`.
    pub(super) key: String,
    pub(super) message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warning: {}: {}", self.key, self.message)
    }
}

pub(super) fn run(args: &CheckArgs, out: &mut Out) -> Result<(), CommandFailure> {
    if args.defaults {
        return Ok(out.document(DEFAULT_TEXT)?);
    }
    let file = config_file(args.config.as_ref()).map(|path| path.display().to_string());
    let (problems, warnings) = match load(args.config.as_ref(), &Flags::default()) {
        Ok(config) => (
            store_server_problem(&config).into_iter().collect(),
            warnings(&config),
        ),
        Err(problems) => (problems, Vec::new()),
    };
    if args.json {
        let ok = problems.is_empty();
        out.json(&ConfigReport {
            ok,
            file,
            problems: &problems,
            warnings: &warnings,
        })?;
    } else {
        print(out, file.as_deref(), &problems)?;
        for warning in &warnings {
            out.line(format_args!("{warning}"))?;
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Exit::CONFIG.silent()),
    }
}

/// The problem of the store's server, where the store has one.
pub(super) fn store_server_problem(config: &Config) -> Option<Problem> {
    if config.store.kind != StoreKind::Redis {
        return None;
    }
    let problem = |key: &str, message: String, help: &str| Problem {
        kind: ProblemKind::Conflict,
        origin: KeyOrigin::File("the store's server".to_owned()),
        key: key.to_owned(),
        message,
        help: Some(help.to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let opened = store::open(&config.store, &config.state_dir).and_then(|store| {
        let runtime = runtime.map_err(|error| StoreError::new(error.to_string()))?;
        runtime.block_on(store.settings_problem())
    });
    match opened {
        Ok(None) => None,
        Ok(Some(why)) => Some(problem(
            "store.durability",
            why,
            "fix the server's settings, or the key",
        )),
        Err(error) => Some(problem(
            "store.url",
            error.message,
            "start the server, or fix the URL",
        )),
    }
}

/// Warnings about allowed settings that the owner may not want.
pub(super) fn warnings(config: &Config) -> Vec<Warning> {
    let mut warnings = unreached_thresholds(&config.handoff);
    warnings.extend(open_listener(config, config.server.listen));
    warnings
}

/// A data listener that other machines reach, while no client needs a key. `listen`: its address, bound or configured.
pub(super) fn open_listener(config: &Config, listen: SocketAddr) -> Option<Warning> {
    (!listen.ip().is_loopback() && config.clients.is_empty()).then(|| Warning {
        key: "server.listen".to_owned(),
        message: format!(
            "everybody who reaches {listen} may use this proxy without a key, as one and the same client: each may resume \
             and undo the handoffs of all others; add a [[clients]] entry for each person, or listen on 127.0.0.1"
        ),
    })
}

/// Thresholds that an agent never reaches, since it compacts earlier.
fn unreached_thresholds(policy: &HandoffPolicy) -> Vec<Warning> {
    let thresholds = [
        ("handoff.nudge_at", Some(policy.thresholds.nudge_at)),
        ("handoff.auto_at", Some(policy.thresholds.auto_at)),
        ("handoff.subagent_nudge_at", policy.subagents.nudge_at),
        ("handoff.subagent_auto_at", policy.subagents.auto_at),
    ];
    let warning = |(key, share): (&'static str, Option<f64>)| {
        let share = share?;
        let before = nudge::AGENTS.iter().filter_map(|agent| point_below(agent, share));
        let before: Vec<String> = before.collect();
        (!before.is_empty()).then(|| Warning {
            key: key.to_owned(),
            message: format!(
                "{:.0}% of the window lies above the point at which some agents compact by themselves, and is never \
                 reached there: {}",
                share * 100.0,
                before.join(", ")
            ),
        })
    };
    thresholds.into_iter().filter_map(warning).collect()
}

/// An agent with the point at which it compacts, where that lies below `share`: of present windows, or of older ones alone.
fn point_below(agent: &Compaction, share: f64) -> Option<String> {
    let [present, older] = [nudge::PRESENT, nudge::OLDER].map(|window| agent.share(window));
    match (share > present, share > older) {
        (true, _) => Some(format!("{} ({:.0}%)", agent.agent, present * 100.0)),
        (false, true) => Some(format!(
            "{} ({:.0}% where the window is {} tokens)",
            agent.agent,
            older * 100.0,
            nudge::OLDER
        )),
        (false, false) => None,
    }
}

fn print(out: &mut Out, file: Option<&str>, problems: &[Problem]) -> Result<(), CommandFailure> {
    let file = file.map_or_else(|| "the defaults, with the environment".to_owned(), visible);
    for problem in problems {
        out.line(format_args!("{}", visible(&problem.to_string())))?;
    }
    match problems.len() {
        0 => out.line(format_args!("{file}: no problems"))?,
        n => out.line(format_args!("\n{}", plural(n as u64, "problem")))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::config::Config;

    #[test]
    fn a_threshold_that_an_agent_never_reaches_is_warned_of() {
        let mut policy = Config::default_for_tests().handoff;
        assert_eq!(unreached_thresholds(&policy), []);
        policy.thresholds.nudge_at = 0.75;
        let [warning] = &unreached_thresholds(&policy)[..] else {
            panic!()
        };
        assert_eq!(warning.key, "handoff.nudge_at");
        assert!(
            warning
                .message
                .ends_with("reached there: gemini (50%), qwen (70%)"),
            "{warning:?}"
        );
        policy.thresholds.auto_at = 0.75;
        policy.subagents.nudge_at = Some(0.5);
        policy.subagents.auto_at = Some(0.95);
        let keys: Vec<_> = unreached_thresholds(&policy)
            .iter()
            .map(|warning| warning.key.clone())
            .collect();
        assert_eq!(
            keys,
            ["handoff.nudge_at", "handoff.auto_at", "handoff.subagent_auto_at"]
        );
        let late = &unreached_thresholds(&policy)[2].message;
        for agent in ["claude (84% where the window is 200000 tokens)", "codex (90%)"] {
            assert!(late.contains(agent), "{late}");
        }
    }

    #[test]
    fn an_open_listener_without_clients_is_warned_of() {
        let mut config = Config::default_for_tests();
        for (listen, open) in [
            ("127.0.0.1:8787", false),
            ("[::1]:8787", false),
            ("0.0.0.0:8787", true),
            ("[::]:8787", true),
            ("10.0.0.5:0", true),
        ] {
            config.server.listen = listen.parse().unwrap();
            let warning = open_listener(&config, config.server.listen);
            assert_eq!(warning.is_some(), open, "{listen}");
            if let Some(warning) = warning {
                let text = warning.to_string();
                assert!(text.contains(listen) && text.contains("[[clients]]"), "{text}");
            }
        }
    }
}
