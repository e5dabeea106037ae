//! Settings in an agent's own configuration: context windows of models, and base URLs.
//!
//! `run` and `env` put the windows into the base URL that the agent gets (`/w/TOKENS`), so that the proxy
//! counts by the same windows as the agent. `run` does not replace a base URL of another server.

use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agents::{AgentSetting, AgentSetup, UnreachedSignIn};
use baton_core::nudge::declares_windows;
use baton_state::disk;

/// Maximum bytes read from a configuration file.
const MAX_FILE: u64 = 1 << 20;

/// Placeholder that matches any key. The last one in a path matches the model's name.
const ANY: &str = "*";

/// A base URL that the user has set for an agent.
pub(super) struct OwnUrl {
    /// Name of the setting and of its file, for messages.
    pub(super) setting: String,
    pub(super) url: String,
    /// Upstreams that baton sends such requests to, by their names in the config.
    pub(super) upstreams: Vec<&'static str>,
}

/// Returns the base URLs in an agent's own files that `run` replaces.
///
/// With `overriding`, returns those that take precedence over baton's instead. A file that cannot be read has
/// none, and the agent itself reports it.
pub(super) fn own_urls(agent: &'static AgentSetup, overriding: bool) -> Vec<OwnUrl> {
    let rows = agent.base_urls.iter().filter(|row| row.overrides == overriding);
    rows.filter_map(|row| {
        let path = row.setting.path()?;
        Some(OwnUrl {
            setting: format!("{} in {}", row.setting.keys.join("."), path.display()),
            url: row.setting.text()?,
            upstreams: row.upstreams.iter().map(String::as_str).collect(),
        })
    })
    .collect()
}

/// Returns the base URL for an agent: the proxy's, with the windows that the agent declares, if any.
pub(super) fn base(agent: &AgentSetup, url: &str) -> String {
    with_windows(url, agent.windows.iter().flat_map(AgentSetting::windows))
}

/// Appends these windows to `url` as `/w/…`.
///
/// Windows that are invalid, or that a path cannot hold, are left out.
fn with_windows(url: &str, windows: impl Iterator<Item = String>) -> String {
    // Any other character could end the path segment or start another one.
    let plain = |text: &String| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:=".contains(&b))
            && declares_windows(text)
    };
    let mut all: Vec<String> = windows.filter(plain).collect();
    // The proxy takes the last of two windows for one model, but here the first one applies.
    all.reverse();
    let text = all.join(",");
    match declares_windows(&text) {
        true => format!("{url}/w/{text}"),
        false => url.to_owned(),
    }
}

impl UnreachedSignIn {
    /// Whether the agent's settings choose this sign-in.
    pub(super) fn is_chosen(&self) -> bool {
        self.setting.text().is_some_and(|value| {
            self.is.as_ref().is_none_or(|is| *is == value) && self.unless.as_ref() != Some(&value)
        })
    }
}

impl AgentSetting {
    /// Value of the environment variable, else the string in the file.
    fn text(&self) -> Option<String> {
        if let Some(value) = self.environment.as_ref().and_then(|name| env::var(name).ok()) {
            return Some(value);
        }
        let value = read(&self.path()?)?;
        let text = self.keys.iter().try_fold(&value, |value, key| value.get(key));
        Some(text?.as_str()?.to_owned())
    }

    /// Declared windows, as `TOKENS` or `MODEL=TOKENS`.
    ///
    /// A file that cannot be read declares none, and the agent itself reports it.
    fn windows(&self) -> Vec<String> {
        if let Some(name) = &self.environment {
            let value = env::var(name).ok();
            return match &self.on {
                Some(tokens) => value
                    .filter(|value| ["1", "true"].contains(&value.as_str()))
                    .map(|_| tokens.clone()),
                None => value,
            }
            .into_iter()
            .collect();
        }
        let value = self.path().and_then(|path| read(&path));
        value.map_or_else(Vec::new, |value| found(&value, &self.keys, ""))
    }

    fn path(&self) -> Option<PathBuf> {
        let named = self.variable.as_ref().and_then(env::var_os);
        let directory = match (named.filter(|value| !value.is_empty()), &self.home) {
            (Some(directory), _) => directory.into(),
            (None, Some(below)) => directories::BaseDirs::new()?.home_dir().join(below),
            (None, None) => PathBuf::new(),
        };
        Some(directory.join(&self.file))
    }
}

fn read(path: &Path) -> Option<Value> {
    let mut text = String::new();
    let file = disk::open_named(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    match path.extension()?.to_str()? {
        "toml" => toml::from_str(&text).ok(),
        "yaml" => Some(lines(&text)),
        _ => serde_json::from_str(&text).ok(),
    }
}

/// Parses the strings at the top level of a YAML file. Nested values are not needed.
fn lines(text: &str) -> Value {
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    let rows = rows.map(|(key, value)| (key.to_owned(), value.trim().trim_matches(['"', '\'']).into()));
    Value::Object(rows.collect())
}

/// Collects the numbers at these keys, each with the model that the last [`ANY`] matched.
fn found(value: &Value, keys: &[impl AsRef<str>], model: &str) -> Vec<String> {
    let [key, rest @ ..] = keys else {
        let tokens = value.as_u64();
        let tokens = tokens.map(|tokens| match model {
            "" => tokens.to_string(),
            // The proxy compares models without the provider before their name.
            _ => format!("{}={tokens}", model.rsplit('/').next().unwrap_or(model)),
        });
        return tokens.into_iter().collect();
    };
    if key.as_ref() != ANY {
        return value
            .get(key.as_ref())
            .map_or_else(Vec::new, |value| found(value, rest, model));
    }
    let members = value.as_object().into_iter().flatten();
    members
        .flat_map(|(name, value)| found(value, rest, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_found_at_their_keys_with_the_models_names() {
        let codex =
            "model = \"gpt-6\"\nmodel_context_window = 400_000\n[profiles.big]\nmodel_context_window = 5";
        let codex: Value = toml::from_str(codex).unwrap();
        assert_eq!(found(&codex, &["model_context_window"], ""), ["400000"]);
        let opencode = json!({"provider": {
            "anthropic": {"models": {"claude-opus-5-5": {"limit": {"context": 300_000, "output": 1}}, "x": {}}},
            "openai": {"models": {"mine/gpt-6": {"limit": {"context": 200_000}}}, "options": 1},
        }});
        let keys = ["provider", ANY, "models", ANY, "limit", "context"];
        assert_eq!(
            found(&opencode, &keys, ""),
            ["claude-opus-5-5=300000", "gpt-6=200000"]
        );
        for wrong in [json!({}), json!([1]), json!({"provider": 3}), Value::Null] {
            assert_eq!(found(&wrong, &keys, ""), [""; 0]);
        }
    }

    #[test]
    fn the_url_has_the_windows_that_make_sense() {
        let url = |all: &[&str]| with_windows("http://h:1", all.iter().map(|&one| one.to_owned()));
        assert_eq!(url(&[]), "http://h:1");
        assert_eq!(url(&["400000"]), "http://h:1/w/400000");
        assert_eq!(url(&["a=5000", "b=6000"]), "http://h:1/w/b=6000,a=5000");
        assert_eq!(url(&["12", "x y=5000", "a/b=5000", "-1", "é=5000"]), "http://h:1");
        let many: Vec<String> = (0..1_000).map(|n| format!("model-{n}=5000")).collect();
        assert_eq!(
            with_windows("http://h:1", many.into_iter()),
            "http://h:1",
            "too long"
        );
    }
}
