//! The settings in an agent's own configuration. Windows of models: `run` and `env` put them into the base URL that the
//! agent gets (`/w/TOKENS`), so that the proxy counts by the same windows as the agent. Base URLs: `run` replaces none
//! of another server.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use baton_core::nudge::declares_windows;

/// Largest configuration file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Stands for any key; the last one in a row is the model's name.
const ANY: &str = "*";

/// A place where an agent declares windows.
enum WindowSource {
    /// An environment variable with a number of tokens.
    Variable(&'static str),
    /// An environment variable that is set to `1` or `true`, and the number of tokens that it stands for.
    Switch(&'static str, &'static str),
    /// A value in a file (JSON or TOML, by its name).
    File {
        folder: Folder,
        name: &'static str,
        /// The keys down to a number of tokens.
        keys: &'static [&'static str],
    },
}

/// A folder with an agent's configuration.
enum Folder {
    /// The folder that a variable names, else this one below the home folder.
    Home(&'static str, &'static str),
    /// The folder that the agent is started in.
    Here,
}

/// The declarations of each agent, the strongest last. Each row was tried with the real agent.
const SOURCES: &[(&str, WindowSource)] = &[
    (
        "claude",
        WindowSource::Variable("CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
    ),
    (
        "claude",
        WindowSource::Switch("CLAUDE_CODE_DISABLE_1M_CONTEXT", "200000"),
    ),
    (
        "codex",
        WindowSource::File {
            folder: Folder::Home("CODEX_HOME", ".codex"),
            name: "config.toml",
            keys: &["model_context_window"],
        },
    ),
    (
        "opencode",
        WindowSource::File {
            folder: Folder::Home("XDG_CONFIG_HOME", ".config"),
            name: "opencode/opencode.json",
            keys: &["provider", ANY, "models", ANY, "limit", "context"],
        },
    ),
    (
        "opencode",
        WindowSource::File {
            folder: Folder::Here,
            name: "opencode.json",
            keys: &["provider", ANY, "models", ANY, "limit", "context"],
        },
    ),
    ("goose", WindowSource::Variable("GOOSE_CONTEXT_LIMIT")),
];

/// A base URL in an agent's own file, in whose place `run` gives another one.
struct BaseUrl {
    agent: &'static str,
    folder: Folder,
    file: &'static str,
    keys: &'static [&'static str],
    /// The upstreams that requests go to instead, as they are named in the config: the first one by the usual sign-in.
    upstreams: &'static [&'static str],
}

/// The folder of cline's files.
const CLINE: Folder = Folder::Home("", ".cline/data/settings");

const BASE_URLS: &[BaseUrl] = &[
    BaseUrl {
        agent: "codex",
        folder: Folder::Home("CODEX_HOME", ".codex"),
        file: "config.toml",
        keys: &["openai_base_url"],
        upstreams: &["openai", "chatgpt"],
    },
    BaseUrl {
        agent: "cline",
        folder: CLINE,
        file: "providers.json",
        keys: &["providers", "anthropic", "settings", "baseUrl"],
        upstreams: &["anthropic"],
    },
    BaseUrl {
        agent: "cline",
        folder: CLINE,
        file: "providers.json",
        keys: &["providers", "openai-native", "settings", "baseUrl"],
        upstreams: &["openai"],
    },
    BaseUrl {
        agent: "cline",
        folder: CLINE,
        file: "providers.json",
        keys: &["providers", "gemini", "settings", "baseUrl"],
        upstreams: &["gemini"],
    },
];

/// Base URLs in an agent's own files that win over what `run` sets.
const OVERRIDING_URLS: &[BaseUrl] = &[
    BaseUrl {
        agent: "claude",
        folder: Folder::Home("CLAUDE_CONFIG_DIR", ".claude"),
        file: "settings.json",
        keys: &["env", "ANTHROPIC_BASE_URL"],
        upstreams: &["anthropic"],
    },
    BaseUrl {
        agent: "opencode",
        folder: Folder::Home("XDG_CONFIG_HOME", ".config"),
        file: "opencode/opencode.json",
        keys: &["provider", "anthropic", "options", "baseURL"],
        upstreams: &["anthropic"],
    },
    BaseUrl {
        agent: "opencode",
        folder: Folder::Home("XDG_CONFIG_HOME", ".config"),
        file: "opencode/opencode.json",
        keys: &["provider", "openai", "options", "baseURL"],
        upstreams: &["openai"],
    },
];

/// A base URL that a person has set for an agent.
pub(super) struct OwnUrl {
    /// The place where it is set, for messages.
    pub(super) setting: String,
    pub(super) url: String,
    pub(super) upstreams: &'static [&'static str],
}

/// The base URLs in an agent's own files that `run` replaces. A file that cannot be read has none: the agent will say so.
pub(super) fn own_urls(agent: &str) -> Vec<OwnUrl> {
    urls(BASE_URLS, agent)
}

/// The base URLs in an agent's own files that `run` cannot replace.
pub(super) fn overriding_urls(agent: &str) -> Vec<OwnUrl> {
    urls(OVERRIDING_URLS, agent)
}

/// The provider that goose uses: of its variable, else of its config file.
pub(super) fn goose_provider() -> Option<String> {
    const KEY: &str = "GOOSE_PROVIDER";
    if let Ok(provider) = env::var(KEY) {
        return Some(provider);
    }
    let path = Folder::Home("XDG_CONFIG_HOME", ".config").path()?;
    let text = read_text(&path.join("goose/config.yaml"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(KEY)?.strip_prefix(':'));
    value.map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The sign-in that qwen-code uses.
pub(super) fn qwen_sign_in() -> Option<String> {
    let folder = Folder::Home("", ".qwen");
    text_at(&folder, "settings.json", &["security", "auth", "selectedType"])
}

/// The provider that Codex uses.
pub(super) fn codex_provider() -> Option<String> {
    let folder = Folder::Home("CODEX_HOME", ".codex");
    text_at(&folder, "config.toml", &["model_provider"])
}

fn text_at(folder: &Folder, file: &str, keys: &[&str]) -> Option<String> {
    let value = read(&folder.path()?.join(file))?;
    let text = keys.iter().try_fold(&value, |value, key| value.get(key));
    Some(text?.as_str()?.to_owned())
}

fn urls(rows: &'static [BaseUrl], agent: &str) -> Vec<OwnUrl> {
    let rows = rows.iter().filter(|row| row.agent == agent);
    rows.filter_map(|row| {
        let path = row.folder.path()?.join(row.file);
        let value = read(&path)?;
        let url = row.keys.iter().try_fold(&value, |value, key| value.get(key));
        Some(OwnUrl {
            setting: format!("{} in {}", row.keys.join("."), path.display()),
            url: url?.as_str()?.to_owned(),
            upstreams: row.upstreams,
        })
    })
    .collect()
}

/// The base URL for an agent: the proxy's, with the windows that the agent declares, if any.
pub(super) fn base(agent: &str, url: &str) -> String {
    let sources = SOURCES.iter().filter(|(name, _)| *name == agent);
    with_windows(url, sources.flat_map(|(_, source)| source.windows()))
}

/// `url` with `/w/…` for these windows; those that cannot stand in a path, or make no sense, are left out.
fn with_windows(url: &str, windows: impl Iterator<Item = String>) -> String {
    let plain = |text: &String| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:=".contains(&b))
            && declares_windows(text)
    };
    let mut all: Vec<String> = windows.filter(plain).collect();
    // Of two for the same model the first counts.
    all.reverse();
    let text = all.join(",");
    match declares_windows(&text) {
        true => format!("{url}/w/{text}"),
        false => url.to_owned(),
    }
}

impl WindowSource {
    /// The declared windows, as `TOKENS` or `MODEL=TOKENS`. A file that cannot be read declares none: the agent will say so.
    fn windows(&self) -> Vec<String> {
        match self {
            Self::Variable(name) => env::var(name).into_iter().collect(),
            Self::Switch(name, tokens) => {
                let on = env::var(name).is_ok_and(|value| ["1", "true"].contains(&value.as_str()));
                on.then(|| (*tokens).to_owned()).into_iter().collect()
            }
            Self::File { folder, name, keys } => {
                let value = folder.path().and_then(|folder| read(&folder.join(name)));
                value.map_or_else(Vec::new, |value| found(&value, keys, ""))
            }
        }
    }
}

impl Folder {
    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Here => Some(PathBuf::new()),
            Self::Home(variable, below) => match env::var_os(variable).filter(|value| !value.is_empty()) {
                Some(folder) => Some(folder.into()),
                None => directories::BaseDirs::new().map(|dirs| dirs.home_dir().join(below)),
            },
        }
    }
}

fn read_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn read(path: &Path) -> Option<Value> {
    let text = read_text(path)?;
    match path.extension()?.to_str()? {
        "toml" => DeTable::parse(&text).ok().map(|table| members(table.get_ref())),
        _ => serde_json::from_str(&text).ok(),
    }
}

/// Tables, texts and decimal numbers of TOML as JSON; other values are null.
fn members(table: &DeTable<'_>) -> Value {
    let rows = table.iter().map(|(key, value)| {
        let value = match value.get_ref() {
            DeValue::Table(table) => members(table),
            DeValue::String(text) => text.as_ref().into(),
            DeValue::Integer(number) => number
                .as_str()
                .replace('_', "")
                .parse()
                .map_or(Value::Null, u64::into),
            _ => Value::Null,
        };
        (key.get_ref().to_string(), value)
    });
    Value::Object(rows.collect())
}

/// The numbers at these keys, each with the model that the last [`ANY`] stood for.
fn found(value: &Value, keys: &[&str], model: &str) -> Vec<String> {
    let [key, rest @ ..] = keys else {
        let tokens = value.as_u64();
        let tokens = tokens.map(|tokens| match model {
            "" => tokens.to_string(),
            // Models are compared without what stands in front of their own name.
            _ => format!("{}={tokens}", model.rsplit('/').next().unwrap_or(model)),
        });
        return tokens.into_iter().collect();
    };
    if *key != ANY {
        return value
            .get(key)
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
        let codex = members(DeTable::parse(codex).unwrap().get_ref());
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
