//! The known agents (`config/agents.toml`): how each is pointed at the proxy, and how it takes a first prompt.
//!
//! Used by `run`, `env`, `resume` and `doctor`. No IO.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::exit::{CliResult, CommandFailure, Exit};
use baton_core::text::table;
use baton_state::disk::{private_file, read_named};
use baton_state::store::make_dir;

/// Variable that every agent gets: the proxy's URL without a path.
pub(super) const URL: &str = "BATON_URL";

/// The embedded table. A test parses it.
static TABLE: LazyLock<AgentTable> = LazyLock::new(|| table::read(include_str!("../../config/agents.toml")));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    agent: Vec<AgentSetup>,
    generic: AgentSetup,
}

/// An agent. The comments of `config/agents.toml` describe its keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentSetup {
    /// Name on the command line and of the program; empty for an agent that is not in the table.
    pub(super) name: String,
    pub(super) title: String,
    also: Vec<String>,
    variables: Vec<(String, String)>,
    pub(super) pauses: Vec<(String, String)>,
    pub(super) keys: Vec<String>,
    arguments: Vec<String>,
    pub(super) file: Option<ConfigFile>,
    prompt: Vec<String>,
    headless: Vec<String>,
    pub(super) sign_ins: String,
    third_party: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) windows: Vec<AgentSetting>,
    pub(super) base_urls: Vec<BaseUrlSetting>,
    pub(super) overriding: OverridingSettings,
    pub(super) unreached: Vec<UnreachedSignIn>,
}

/// A config file that baton writes for one run.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigFile {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) content: ConfigContent,
}

/// Content of a config file for one run.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ConfigContent {
    Text {
        text: String,
    },
    /// A copy of the user's JSON file, with some values set.
    Copy {
        copy_of: String,
        default: String,
        set: Vec<(Vec<String>, String)>,
    },
}

/// A value in the agent's own settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentSetting {
    pub(super) environment: Option<String>,
    /// Value that applies if the environment variable is `1` or `true`.
    pub(super) on: Option<String>,
    pub(super) variable: Option<String>,
    pub(super) home: Option<String>,
    /// File below the directory. `{}` stands for the value of one of `options`.
    pub(super) file: String,
    /// Options of the agent whose value is that of the setting, or the name in `file`.
    pub(super) options: Vec<String>,
    /// Options of the agent that take `KEY=VALUE`, as in TOML.
    pub(super) assignments: Vec<String>,
    pub(super) keys: Vec<String>,
}

/// A base URL in an agent's own file.
#[derive(Debug, Deserialize)]
pub(super) struct BaseUrlSetting {
    #[serde(flatten)]
    pub(super) setting: AgentSetting,
    pub(super) upstreams: Vec<String>,
}

/// Settings that take precedence over those of `run`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OverridingSettings {
    pub(super) files: Vec<AgentSetting>,
    pub(super) option: Option<String>,
    pub(super) urls: Vec<OverridingUrl>,
    pub(super) switches: Vec<Vec<String>>,
}

/// The key path of a base URL, and the upstream of its requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverridingUrl {
    pub(super) keys: Vec<String>,
    pub(super) upstream: String,
}

/// A sign-in whose requests do not reach baton, and the agent's settings that may choose it.
///
/// The first setting that has a value decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnreachedSignIn {
    pub(super) sign_in: String,
    pub(super) settings: Vec<AgentSetting>,
    pub(super) is: Option<String>,
    pub(super) unless: Option<String>,
    /// Key path of the sign-in's base URL in the same sources; `*` is the value of the setting.
    #[serde(default)]
    pub(super) url_keys: Vec<String>,
    /// Environment variable with the sign-in's base URL.
    pub(super) url_variable: Option<String>,
    pub(super) help: String,
}

/// Environment and arguments of an agent for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) arguments: Vec<String>,
}

/// Upstreams of an agent's URL or key in a variable, by the prefix of the variable's name.
const UPSTREAMS: &[(&str, &[&str])] = &[
    ("ANTHROPIC_", &["anthropic"]),
    ("OPENAI_", &["openai"]),
    ("CODEX_", &["openai"]),
    ("GEMINI_", &["gemini"]),
    ("GOOGLE_", &["gemini"]),
    ("CODE_ASSIST_", &["codeassist"]),
];

/// Names of the upstreams that the URL or key in a variable is for; `None` for any other variable.
pub(super) fn upstreams_for(variable: &str) -> Option<&'static [&'static str]> {
    let row = UPSTREAMS.iter().find(|(prefix, _)| variable.starts_with(prefix));
    row.map(|(_, upstreams)| *upstreams)
}

/// The agents of the table.
pub(super) fn known() -> &'static [AgentSetup] {
    &TABLE.agent
}

/// Finds the agent with a name, or the one for a path whose file has that name.
pub(super) fn find(program: &str) -> Option<&'static AgentSetup> {
    // Finds `claude.exe` and `./node_modules/.bin/claude` as well.
    let name = Path::new(program).file_stem()?.to_str()?.to_ascii_lowercase();
    known()
        .iter()
        .find(|agent| agent.name == name || agent.also.contains(&name))
}

/// Finds the agent with a name; falls back to the generic one.
pub(super) fn find_or_generic(program: &str) -> &'static AgentSetup {
    find(program).unwrap_or(&TABLE.generic)
}

/// Candidate paths of a program in `PATH`, in order. None of them need exist.
pub(super) fn on_path(program: &OsStr) -> impl Iterator<Item = PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<_> = std::env::split_paths(&directories).collect();
    directories
        .into_iter()
        .map(move |directory| directory.join(program))
}

impl AgentSetup {
    /// Warning about a sign-in that the provider's terms exclude for this agent.
    pub(super) fn terms(&self) -> Option<String> {
        let sign_in = self.third_party.as_ref()?;
        Some(format!(
            "with {sign_in}, {} is a third-party client of a subscription, which its provider's terms exclude",
            self.title
        ))
    }

    /// Whether the agent is in the table.
    pub(super) fn is_known(&self) -> bool {
        !self.name.is_empty()
    }

    /// Returns the program to start for a name.
    ///
    /// A path stays as it is. Another name for the agent becomes its program's name.
    pub(super) fn program<'a>(&'a self, named: &'a str) -> &'a str {
        // A path names a certain program, which may be another build of the agent.
        match self.is_known() && Path::new(named).components().count() == 1 {
            true => &self.name,
            false => named,
        }
    }

    /// Returns the variables and arguments for a run.
    ///
    /// The agent reaches the proxy at `url`, with the base URL `base` and the config file at `file`.
    pub(super) fn setup(&'static self, url: &str, base: &str, file: &str) -> Setup {
        let filled = |template: &String| template.replace("{base}", base).replace("{file}", file);
        let own = self.variables.iter();
        let own = own.map(|(name, value)| (name.as_str(), filled(value)));
        Setup {
            variables: std::iter::once((URL, url.to_owned())).chain(own).collect(),
            arguments: self.arguments.iter().map(filled).collect(),
        }
    }

    /// Whether these arguments ask for a single response without a screen.
    pub(super) fn is_headless(&self, arguments: &[OsString]) -> bool {
        let word = self.headless.first().map_or("", String::as_str);
        // Agents differ in the long form of `-p`.
        let long: &[&str] = if word == "-p" {
            &["--print", "--prompt"]
        } else {
            &[]
        };
        arguments
            .iter()
            .any(|argument| argument == word || long.iter().any(|long| argument == long))
    }

    /// Arguments for a session that starts with `text`, or for a single response to it.
    pub(super) fn first_prompt(&self, text: &str, headless: bool) -> Vec<String> {
        let template = if headless { &self.headless } else { &self.prompt };
        let filled = template.iter().map(|argument| argument.replace("{prompt}", text));
        filled.collect()
    }
}

impl ConfigFile {
    /// Writes the file into `directory` for the proxy at `base`, and returns its path.
    pub(super) fn write(&self, directory: &Path, base: &str) -> CliResult<String> {
        let theirs = match &self.content {
            ConfigContent::Text { .. } => None,
            ConfigContent::Copy { copy_of, .. } => {
                let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().join(copy_of));
                // Without such a file, the copy has the defaults.
                home.and_then(|path| read_named(&path).ok())
            }
        };
        let text = self.content.text(theirs.as_deref(), base);
        let text = text.map_err(|error| {
            let message = format!("failed to read your {}: {error}", self.name);
            Exit::CONFIG.failure(message)
        })?;
        let path = directory.join(&self.name);
        let write = || {
            make_dir(directory).map_err(io::Error::other)?;
            // Private, because a copy may contain the user's credentials.
            let mut open = private_file().create(true).truncate(true).open(&path)?;
            io::Write::write_all(&mut open, text.as_bytes())
        };
        write().map_err(|error| unwritten(&path.display().to_string(), &error))?;
        Ok(path.display().to_string())
    }
}

/// Failure for a config file that cannot be written.
pub(super) fn unwritten(file: &str, error: &io::Error) -> CommandFailure {
    let message = format!("failed to write {file} for the agent: {error}");
    Exit::CANNOT_CREATE.failure(message)
}

impl ConfigContent {
    /// Renders the content for the proxy at `base`. A copy merges `theirs`, the user's file, into its
    /// defaults.
    ///
    /// # Errors
    /// The user's file is not a JSON object.
    pub(super) fn text(&self, theirs: Option<&str>, base: &str) -> Result<String, serde_json::Error> {
        match self {
            Self::Text { text } => Ok(text.clone()),
            Self::Copy { default, set, .. } => {
                // The user's values replace the defaults, and baton's replace both.
                let mut copy: Value = serde_json::from_str(default)?;
                let theirs: Map<String, Value> = serde_json::from_str(theirs.unwrap_or("{}"))?;
                lay_over(&mut copy, theirs.into());
                for (path, template) in set {
                    put(&mut copy, path, template.replace("{base}", base));
                }
                serde_json::to_string_pretty(&copy)
            }
        }
    }
}

/// Merges `above` into `below`: objects are merged, other values replaced.
fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

/// Sets a string at a path of keys. Values on the way that are not objects are replaced.
fn put(mut value: &mut Value, path: &[String], text: String) {
    for key in path {
        if !value.is_object() {
            *value = Map::new().into();
        }
        value = &mut value[key];
    }
    *value = text.into();
}

#[cfg(test)]
mod tests;
