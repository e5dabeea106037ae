//! The settings that a shared proxy was started with, for comparison with those of a later `baton run`.
//!
//! The first run starts the proxy in its own environment, and that decides where the credentials of later runs go. A
//! repository may set that environment, so a run with other settings must not use the proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::exit::{CliResult, Exit};
use super::output::{shown, visible};
use baton_state::config::{Config, Environment, Secret};

/// Variables outside the config that decide where requests go, and which certificates are valid.
const NETWORK: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The variable of `state.dir`. Runs that find the same proxy have the same directory, however they name it.
const STATE_DIR: &str = "BATON_STATE__DIR";

/// The config file of a process, and the variables of its environment that change its behaviour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartedWith {
    config: Option<PathBuf>,
    /// Variables, each with a digest of its value, which may be a secret.
    variables: BTreeMap<String, String>,
}

impl StartedWith {
    /// The settings of this process, whose config was loaded from `file`.
    pub(super) fn of_process(config: &Config, file: Option<&Path>) -> Self {
        let environment = Environment::of_process();
        let names = config
            .variables
            .iter()
            .map(String::as_str)
            .chain(NETWORK.iter().copied());
        let set = names.filter(|name| *name != STATE_DIR).filter_map(|name| {
            let digest = Secret::new(environment.get(name)?).digest();
            Some((
                name.to_owned(),
                digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            ))
        });
        Self {
            config: file.and_then(|file| std::path::absolute(file).ok()),
            variables: set.collect(),
        }
    }

    /// Checks that a run with these settings may use a proxy that another run started with `proxy`.
    ///
    /// # Errors
    /// Names every difference, but no value.
    pub(super) fn check(&self, proxy: &Self) -> CliResult {
        let names: BTreeSet<_> = self.variables.keys().chain(proxy.variables.keys()).collect();
        let differences = names.into_iter().filter_map(|name| {
            let (own, theirs) = (self.variables.get(name), proxy.variables.get(name));
            let difference = match (own, theirs) {
                _ if own == theirs => return None,
                (Some(_), Some(_)) => "another",
                (Some(_), None) => "without",
                (None, _) => "with",
            };
            Some(format!("{difference} {}", visible(name)))
        });
        let mut differences: Vec<_> = differences.collect();
        if self.config != proxy.config {
            let file = proxy.config.as_deref().map_or("no config file".to_owned(), shown);
            differences.push(format!("with {file}"));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let message = format!(
            "another run started the proxy with other settings: {}",
            differences.join(", ")
        );
        Err(Exit::CONFIG.with_help(
            message,
            "this run's requests and credentials would go where those settings say: end the other runs first, or keep this one apart with --state-dir",
        ))
    }
}
