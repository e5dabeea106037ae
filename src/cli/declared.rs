//! Settings in an agent's own configuration: context windows of models, and base URLs.
//!
//! `run` and `env` put the windows into the base URL that the agent gets (`/w/TOKENS`), so that the proxy
//! counts by the same windows as the agent. `run` does not replace a base URL of another server.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

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
    let files = rows.files.iter();
    let files = files.flat_map(|row| row.contents(arguments, row.paths()));
    let given = rows.option.iter().flat_map(|option| {
        let values = option_values(option, arguments);
        values.filter_map(move |value| Some((format!("`{option}`"), given_settings(&value)?)))
    });
    let in_source = |(name, value): (String, Value)| overriding_in(rows, &name, &value);
    variables.chain(files.chain(given).flat_map(in_source)).collect()
}

/// Problem and remedy if an agent with these arguments uses a sign-in that does not reach the proxy at `url`.
pub(super) fn unreached(
    agent: &'static AgentSetup,
    arguments: &[OsString],
    url: &str,
) -> Option<(String, &'static str)> {
    let mut rows = agent.unreached.iter();
    rows.find_map(|row| Some((row.choice(arguments, url)?, row.help.as_str())))
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

/// Returns the values of an option, as `OPTION VALUE` or `OPTION=VALUE`, and `-OVALUE` if it has one letter.
fn option_values<'a>(option: &'a str, arguments: &'a [OsString]) -> impl Iterator<Item = String> + 'a {
    let words = arguments.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| word != "--").collect();
    let is_letter = !option.starts_with("--");
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.strip_prefix(option) {
            Some("") => found.extend(words.get(at + 1).map(ToString::to_string)),
            Some(rest) => match rest.strip_prefix('=') {
                Some(value) => found.push(value.to_owned()),
                None if is_letter => found.push(rest.to_owned()),
                None => {}
            },
            None => {}
        }
    }
    found.into_iter()
}

/// Values of the options, each with the option in backticks. The last value, which applies, comes first.
fn given_values(options: &[String], arguments: &[OsString]) -> impl Iterator<Item = (String, String)> {
    let named = |option: &String| {
        let values = option_values(option, arguments);
        values
            .map(|value| (format!("`{option}`"), value))
            .collect::<Vec<_>>()
    };
    let values: Vec<_> = options.iter().flat_map(named).collect();
    values.into_iter().rev()
}

/// Parses `KEY=VALUE` with a dotted key. A value that is not TOML is a string.
fn assignment(text: &str) -> Option<Value> {
    let (key, value) = text.split_once('=')?;
    let keys: Vec<_> = key.trim().split('.').map(str::to_owned).collect();
    let parsed = toml::from_str::<Value>(&format!("value = {value}")).ok();
    let parsed = parsed.and_then(|table| table.get("value").cloned());
    Some(nested(&keys, parsed.unwrap_or_else(|| value.into())))
}

/// An object with a value at a key path.
fn nested(keys: &[String], value: Value) -> Value {
    keys.iter().rev().fold(value, |value, key| json!({ key: value }))
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
    /// Describes the choice of this sign-in by the settings of an agent with these arguments, unless the sign-in's base
    /// URL leads to the proxy at `url`.
    pub(super) fn choice(&self, arguments: &[OsString], url: &str) -> Option<String> {
        let rows = self.settings.iter().flat_map(|row| {
            let contents = row.contents(arguments, row.path().into_iter().collect());
            contents.into_iter().map(move |(name, value)| (row, name, value))
        });
        let sources: Vec<_> = rows.collect();
        let mut set = sources.iter().filter_map(|(row, name, content)| {
            let value = scalar(at(content, &row.keys)?)?;
            Some((row.keys.join("."), name, value))
        });
        let (key, name, value) = set.next()?;
        let is_chosen =
            self.is.as_ref().is_none_or(|is| *is == value) && self.unless.as_ref() != Some(&value);
        let keys = self.url_keys.iter();
        let keys: Vec<_> = keys
            .map(|key| if key == ANY { &value } else { key }.clone())
            .collect();
        let in_variable = self.url_variable.as_ref().and_then(|name| env::var(name).ok());
        let mut in_files = sources
            .iter()
            .filter_map(|(.., content)| scalar(at(content, &keys)?));
        let base = in_variable.or_else(|| in_files.next());
        if !is_chosen || base.is_some_and(|base| place(&base) == place(url)) {
            return None;
        }
        let setting = match *name == key {
            true => key,
            false => format!("{key} in {name}"),
        };
        Some(format!(
            "{setting} selects {}, which does not go through baton",
            self.sign_in
        ))
    }
}

impl AgentSetting {
    /// The string in the file.
    fn text(&self) -> Option<String> {
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
        self.place_of(&self.file)
    }

    /// Path of a file in the setting's directory.
    fn place_of(&self, file: &str) -> Option<PathBuf> {
        let named = self.variable.as_ref().and_then(env::var_os);
        let directory = match (named.filter(|value| !value.is_empty()), &self.home) {
            (Some(directory), _) => directory.into(),
            (None, Some(below)) => directories::BaseDirs::new()?.home_dir().join(below),
            (None, None) => PathBuf::new(),
        };
        // A variable can also name the file itself, and `join` would append a separator.
        match file.is_empty() {
            true => Some(directory).filter(|file| !file.as_os_str().is_empty()),
            false => Some(directory.join(file)),
        }
    }

    /// Objects of the setting's source, each with the name of that source. `files` are the paths of its file.
    fn contents(&self, arguments: &[OsString], files: Vec<PathBuf>) -> Vec<(String, Value)> {
        if let Some(name) = &self.environment {
            let value = env::var(name).ok().and_then(|value| self.in_variable(value));
            return value.map(|value| (name.clone(), value)).into_iter().collect();
        }
        if !self.assignments.is_empty() {
            let values = given_values(&self.assignments, arguments);
            return values
                .filter_map(|(name, text)| Some((name, assignment(&text)?)))
                .collect();
        }
        let given = given_values(&self.options, arguments);
        if !self.options.is_empty() && self.file.is_empty() {
            return given
                .map(|(name, value)| (name, nested(&self.keys, value.into())))
                .collect();
        }
        let files = match self.options.is_empty() {
            true => files,
            false => given
                .filter_map(|(_, name)| self.place_of(&self.file.replace("{}", &name)))
                .collect(),
        };
        let files = files.into_iter();
        files
            .filter_map(|path| Some((path.display().to_string(), read(&path)?)))
            .collect()
    }

    /// Object for the value of the environment variable, which is JSON if the setting has no keys.
    fn in_variable(&self, value: String) -> Option<Value> {
        match &self.on {
            _ if self.keys.is_empty() => json(value),
            Some(on) => is_on(&value).then(|| nested(&self.keys, on.clone().into())),
            None => Some(nested(&self.keys, value.into())),
        }
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
mod tests;
