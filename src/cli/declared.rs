//! Settings in an agent's own configuration: context windows of models, and base URLs.
//!
//! `run` and `env` put the windows into the base URL that the agent gets (`/w/TOKENS`), so that the proxy
//! counts by the same windows as the agent. `run` does not replace a base URL of another server.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agents::{AgentSetting, AgentSetup, OverridingSettings, UnreachedSignIn};
use baton_core::nudge::declares_windows;
use baton_state::disk;

/// Maximum bytes read from a configuration file.
const MAX_FILE: u64 = 16 << 20;

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

/// A value in an agent's configuration that takes precedence over the settings of `run`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OverridingValue {
    /// Name of the setting and of its file, for messages.
    pub(super) setting: String,
    pub(super) value: String,
    /// Upstream of a base URL; `None` for a switch to a provider that baton does not reach.
    upstream: Option<&'static str>,
}

impl OverridingValue {
    /// Whether the agent's requests do not reach the proxy at `url`.
    pub(super) fn bypasses(&self, url: &str) -> bool {
        self.upstream.is_none() || place(&self.value) != place(url)
    }

    /// Problem and remedy, for the proxy at `url`.
    pub(super) fn problem(&self, url: &str) -> (String, String) {
        let Self {
            setting,
            value,
            upstream,
        } = self;
        let Some(upstream) = upstream else {
            let message = format!("{setting} is {value}, which sends requests past baton");
            let help = "remove it, or start the agent without baton".to_owned();
            return (message, help);
        };
        (
            format!("{setting} is {value}, which takes precedence over `baton run`"),
            format!(
                "remove it, or set it to {url}; to go there through baton, remove it and set upstreams.{upstream}.base_url in baton's config"
            ),
        )
    }
}

/// Returns the values that take precedence over the settings of `run`, for an agent with these arguments.
///
/// All files count, whichever of them the agent prefers: it may skip one that a user does not trust.
pub(super) fn overriding_values(agent: &'static AgentSetup, arguments: &[OsString]) -> Vec<OverridingValue> {
    let rows = &agent.overriding;
    let named = rows.switches.iter().filter_map(|keys| keys.last());
    let variables = named.filter_map(|name| Some((name, env::var(name).ok()?)));
    let variables = variables
        .filter(|(_, value)| is_on(value))
        .map(|(name, value)| OverridingValue {
            setting: name.clone(),
            value,
            upstream: None,
        });
    let files = rows.files.iter().flat_map(AgentSetting::contents);
    let given = rows.option.iter().flat_map(|option| {
        let values = option_values(option, arguments);
        values.filter_map(move |value| Some((format!("`{option}`"), given_settings(&value)?)))
    });
    let in_source = |(name, value): (String, Value)| overriding_in(rows, &name, &value);
    variables.chain(files.chain(given).flat_map(in_source)).collect()
}

/// Finds the overriding values in the settings `value`, which come from the source `name`.
fn overriding_in(rows: &'static OverridingSettings, name: &str, value: &Value) -> Vec<OverridingValue> {
    let urls = rows
        .urls
        .iter()
        .map(|row| (&row.keys, Some(row.upstream.as_str())));
    let switches = rows.switches.iter().map(|keys| (keys, None));
    let set = urls.chain(switches).filter_map(|(keys, upstream)| {
        let value = scalar(at(value, keys)?)?;
        Some(OverridingValue {
            setting: format!("{} in {name}", keys.join(".")),
            value,
            upstream,
        })
    });
    set.filter(|set| set.upstream.is_some() || is_on(&set.value))
        .collect()
}

/// Returns the values of an option, as `OPTION VALUE` or `OPTION=VALUE`.
fn option_values<'a>(option: &'a str, arguments: &'a [OsString]) -> impl Iterator<Item = String> + 'a {
    let words = arguments.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| word != "--").collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.strip_prefix(option) {
            Some("") => found.extend(words.get(at + 1).map(ToString::to_string)),
            Some(rest) => found.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    found.into_iter()
}

/// Parses the value of an option for settings: JSON, or the path of a file with JSON.
fn given_settings(given: &str) -> Option<Value> {
    match given.trim_start().starts_with('{') {
        true => json(given.to_owned()),
        false => json(text(Path::new(given))?),
    }
}

/// Whether an agent takes the value of a switch as true.
fn is_on(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// Host and port of a URL, normalized for comparison.
pub(super) fn place(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Both names reach the same listener.
    place.to_ascii_lowercase().replace("localhost", "127.0.0.1")
}

/// Returns the base URLs in an agent's own files that `run` replaces.
///
/// A file that cannot be read has none, and the agent itself reports it.
pub(super) fn own_urls(agent: &'static AgentSetup) -> Vec<OwnUrl> {
    let rows = agent.base_urls.iter();
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
        Some(at(&value, &self.keys)?.as_str()?.to_owned())
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
        // A variable can also name the file itself, and `join` would append a separator.
        match self.file.is_empty() {
            true => Some(directory).filter(|file| !file.as_os_str().is_empty()),
            false => Some(directory.join(&self.file)),
        }
    }

    /// Objects of the environment variable or the files, each with the name of its source.
    fn contents(&self) -> Vec<(String, Value)> {
        if let Some(name) = &self.environment {
            let value = env::var(name).ok().and_then(json);
            return value.map(|value| (name.clone(), value)).into_iter().collect();
        }
        let paths = self.paths().into_iter();
        let files = paths.filter_map(|path| Some((path.display().to_string(), read(&path)?)));
        files.collect()
    }

    /// The file's candidate paths: one below the working directory stands for those up to the repository's root.
    fn paths(&self) -> Vec<PathBuf> {
        let path = self.path();
        if self.home.is_some() || path.as_ref().is_none_or(|path| path.is_absolute()) {
            return path.into_iter().collect();
        }
        let here = env::current_dir().unwrap_or_default();
        let root = here.ancestors().position(|above| above.join(".git").exists());
        let searched = here.ancestors().take(root.map_or(1, |root| root + 1));
        searched.map(|above| above.join(&self.file)).collect()
    }
}

/// The value at a key path.
fn at<'a>(value: &'a Value, keys: &[String]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// Text of a string, a number or a truth value, which agents take as the string of a variable.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Reads a file as leniently as an agent does: a byte order mark or a byte that is not UTF-8 does not hide its settings.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = disk::open_named(path).ok()?;
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_start_matches('\u{feff}').to_owned())
}

fn read(path: &Path) -> Option<Value> {
    let text = text(path)?;
    match path.extension().and_then(OsStr::to_str) {
        Some("toml") => toml::from_str(&text).ok(),
        Some("yaml") => Some(lines(&text)),
        _ => json(text),
    }
}

/// Parses JSON with the comments and trailing commas that some agents accept.
fn json(mut text: String) -> Option<Value> {
    json_strip_comments::strip(&mut text).ok()?;
    serde_json::from_str(&text).ok()
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
    use crate::cli::agents;
    use serde_json::json;

    #[test]
    fn places_are_compared_by_host_and_port() {
        assert_eq!(place("https://API.example/v1?x"), "api.example");
        assert_eq!(place("http://localhost:8787/v1"), place("127.0.0.1:8787"));
        assert_ne!(place("http://127.0.0.1:8787"), place("http://127.0.0.1:8788"));
    }

    const PROXY: &str = "http://127.0.0.1:8787";

    /// The bypassing settings in an agent's file with this content.
    fn bypasses(agent: &str, content: &Value) -> Vec<String> {
        let rows = &agents::find(agent).unwrap().overriding;
        let values = overriding_in(rows, "FILE", content).into_iter();
        let bypassing = values.filter(|value| value.bypasses(PROXY));
        bypassing
            .map(|value| format!("{} is {}", value.setting, value.value))
            .collect()
    }

    #[test]
    fn settings_that_lead_past_the_proxy_are_found() {
        let claude = |name: &str, value: Value| bypasses("claude", &json!({"env": {name: value}}));
        let url = "ANTHROPIC_BASE_URL";
        for elsewhere in ["http://127.0.0.1:1", "https://127.0.0.1:8787.example/", "", "x"] {
            let setting = format!("env.ANTHROPIC_BASE_URL in FILE is {elsewhere}");
            assert_eq!(claude(url, elsewhere.into()), [setting]);
        }
        assert_eq!(claude(url, "http://localhost:8787/u/other".into()), [""; 0]);
        for on in [json!("1"), json!(" Yes"), json!(true), json!(1)] {
            assert_eq!(claude("CLAUDE_CODE_USE_VERTEX", on.clone()).len(), 1, "{on}");
        }
        for off in [json!("0"), json!(""), json!(false), json!({}), Value::Null] {
            assert_eq!(claude("CLAUDE_CODE_USE_BEDROCK", off), [""; 0]);
        }
        let opencode = json!({"provider": {"openai": {"options": {"baseURL": "https://gateway.example"}}}});
        assert_eq!(bypasses("opencode", &opencode).len(), 1);
        assert_eq!(bypasses("codex", &opencode), [""; 0]);
    }

    #[test]
    fn settings_are_read_with_comments_and_trailing_commas() {
        let text = r#"{
            // "baseURL": "http://a"
            "url": "http://b//c", /* , */
            "list": [1, 2,],
        }"#;
        let expected = json!({"url": "http://b//c", "list": [1, 2]});
        assert_eq!(json(text.to_owned()), Some(expected));
        for broken in ["", "{", "{/*", "{\"a\": }"] {
            assert_eq!(json(broken.to_owned()), None, "{broken}");
        }
    }

    #[test]
    fn an_option_is_found_in_both_forms_before_the_prompt() {
        let found = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            option_values("--settings", &words).collect::<Vec<_>>()
        };
        assert_eq!(
            found(&["-p", "--settings", "a.json", "--settings={}"]),
            ["a.json", "{}"]
        );
        for none in [&["--settings"][..], &["--settings-x=1"], &["--", "--settings=a"]] {
            assert_eq!(found(none), [""; 0]);
        }
    }

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
