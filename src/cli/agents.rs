//! The known agents as a table: how each is pointed at the proxy, and how it takes a first prompt.
//!
//! Used by `run`, `env` and `resume`; a test compares it with the tables in the README and in `docs/agents.md`. No IO. In
//! templates `{base}` is the proxy's URL without a path, `{file}`
//! the path of the agent's own config file, `{prompt}` the first prompt.

use std::path::Path;

use serde_json::{Map, Value};

/// Set for every agent: the proxy's URL without a path.
pub(super) const URL: &str = "BATON_URL";

/// An agent.
#[derive(Debug)]
pub(super) struct AgentSetup {
    /// Its name on the command line, and of its program.
    pub(super) name: &'static str,
    /// Its name in texts.
    pub(super) title: &'static str,
    /// Other names for it.
    also: &'static [&'static str],
    /// Environment variables; values are templates.
    variables: &'static [(&'static str, &'static str)],
    /// Arguments before the person's own; templates.
    arguments: &'static [&'static str],
    /// A config file for one run, if variables and arguments are not enough.
    pub(super) file: Option<ConfigFile>,
    /// Arguments for a session that begins with a prompt; templates.
    prompt: &'static [&'static str],
    /// Arguments for one answer to a prompt, without a screen; templates.
    headless: &'static [&'static str],
    /// Sign-ins that work through the proxy, for people.
    pub(super) sign_ins: &'static str,
    /// Limits and conditions, for people.
    pub(super) notes: &'static [&'static str],
}

/// A config file that is made for one run.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) name: &'static str,
    pub(super) content: ConfigContent,
}

/// The content of a config file.
#[derive(Debug)]
pub(super) enum ConfigContent {
    /// This text.
    Text(&'static str),
    /// A copy of the person's own JSON file.
    Copy {
        /// Its path below the home folder.
        of: &'static str,
        /// Members that are added if the person's file lacks them.
        default: &'static str,
        /// Strings that are always set: path of keys, and template.
        set: &'static [(&'static [&'static str], &'static str)],
    },
}

/// Environment, arguments and config file of an agent for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) arguments: Vec<String>,
}

/// pi's extension. It reads the URL from the environment, so its text is the same for every run.
const PI_EXTENSION: &str = r#"// Points pi's own providers at baton; made by `baton`.
export default function (pi) {
  const base = process.env.BATON_URL;
  if (!base) return;
  pi.registerProvider("anthropic", { baseUrl: base });
  pi.registerProvider("openai", { baseUrl: `${base}/v1` });
  pi.registerProvider("openai-codex", { baseUrl: `${base}/backend-api` });
  pi.registerProvider("google", { baseUrl: `${base}/v1beta` });
}
"#;

/// cline ignores the whole file if an entry lacks one of these fields.
const CLINE_PROVIDERS: &str = r#"{"version": 1, "providers": {
  "anthropic": {"settings": {"provider": "anthropic"}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"},
  "openai-native": {"settings": {"provider": "openai-native"}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"},
  "gemini": {"settings": {"provider": "gemini"}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
}}"#;

/// The agents. Each entry was tried with the real agent, against the scripted provider.
pub(super) const AGENTS: &[AgentSetup] = &[
    AgentSetup {
        name: "claude",
        title: "Claude Code",
        also: &["claude-code"],
        variables: &[
            ("ANTHROPIC_BASE_URL", "{base}"),
            ("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1"),
        ],
        arguments: &[],
        file: None,
        prompt: &["{prompt}"],
        headless: &["-p", "{prompt}"],
        sign_ins: "an API key, a claude.ai plan",
        notes: &["an `env` entry for ANTHROPIC_BASE_URL in its settings.json overrides the variable"],
    },
    AgentSetup {
        name: "codex",
        title: "Codex",
        also: &["codex-cli"],
        variables: &[],
        arguments: &["-c", "openai_base_url=\"{base}/v1\""],
        file: None,
        prompt: &["{prompt}"],
        headless: &["exec", "{prompt}"],
        sign_ins: "an API key, a ChatGPT plan",
        notes: &[
            "a `model_provider` of your own in its config.toml is not replaced; give that one baton's URL as its `base_url`",
        ],
    },
    AgentSetup {
        name: "opencode",
        title: "OpenCode",
        also: &["open-code"],
        variables: &[
            ("ANTHROPIC_BASE_URL", "{base}/v1"),
            ("OPENAI_BASE_URL", "{base}/v1"),
            // 1.18.33 tries a WebSocket six times, for a minute, before it takes any refusal of one for an answer.
            ("OPENCODE_EXPERIMENTAL_WEBSOCKETS", "false"),
        ],
        arguments: &[],
        file: None,
        prompt: &["--prompt", "{prompt}"],
        headless: &["run", "{prompt}"],
        sign_ins: "an API key; a ChatGPT plan does not go through baton",
        notes: &[
            "providers `anthropic` and `openai`; a `baseURL` in opencode.json overrides the variable. For `google` set it there, to the \
             proxy's URL with /v1beta",
        ],
    },
    AgentSetup {
        name: "gemini",
        title: "gemini-cli",
        also: &["gemini-cli"],
        variables: &[
            ("GOOGLE_GEMINI_BASE_URL", "{base}"),
            ("CODE_ASSIST_ENDPOINT", "{base}"),
        ],
        arguments: &[],
        file: None,
        prompt: &["-i", "{prompt}"],
        headless: &["-p", "{prompt}"],
        sign_ins: "an API key, a Google account",
        notes: &["with an API key or a Google account"],
    },
    AgentSetup {
        name: "qwen",
        title: "qwen-code",
        also: &["qwen-code"],
        variables: &[
            ("OPENAI_BASE_URL", "{base}/v1"),
            ("ANTHROPIC_BASE_URL", "{base}"),
            ("GOOGLE_GEMINI_BASE_URL", "{base}"),
        ],
        arguments: &[],
        file: None,
        prompt: &["-i", "{prompt}"],
        headless: &["{prompt}"],
        sign_ins: "an API key",
        notes: &[
            "with `--auth-type openai`, `anthropic` or `gemini`; another provider of the OpenAI kind goes into the \
             config as `upstreams.openai.base_url`",
        ],
    },
    AgentSetup {
        name: "pi",
        title: "pi",
        also: &[],
        variables: &[],
        arguments: &["--extension", "{file}"],
        file: Some(ConfigFile {
            name: "pi.mjs",
            content: ConfigContent::Text(PI_EXTENSION),
        }),
        prompt: &["{prompt}"],
        headless: &["-p", "{prompt}"],
        sign_ins: "an API key, a ChatGPT plan, a claude.ai plan",
        notes: &["providers `anthropic`, `openai`, `openai-codex` and `google`"],
    },
    AgentSetup {
        name: "goose",
        title: "goose",
        also: &[],
        variables: &[
            ("ANTHROPIC_HOST", "{base}"),
            ("OPENAI_HOST", "{base}"),
            ("GOOGLE_HOST", "{base}"),
        ],
        arguments: &[],
        file: None,
        prompt: &["run", "--interactive", "--text", "{prompt}"],
        headless: &["run", "--text", "{prompt}"],
        sign_ins: "an API key",
        notes: &["providers `anthropic`, `openai` and `google`"],
    },
    AgentSetup {
        name: "cline",
        title: "cline",
        also: &[],
        variables: &[
            ("CLINE_PROVIDER_SETTINGS_PATH", "{file}"),
            // cline's background hub keeps the settings of the first run that started it.
            ("CLINE_SESSION_BACKEND_MODE", "local"),
        ],
        arguments: &[],
        file: Some(ConfigFile {
            name: "providers.json",
            content: ConfigContent::Copy {
                of: ".cline/data/settings/providers.json",
                default: CLINE_PROVIDERS,
                set: &[
                    (&["providers", "anthropic", "settings", "baseUrl"], "{base}/v1"),
                    (
                        &["providers", "openai-native", "settings", "baseUrl"],
                        "{base}/v1",
                    ),
                    (&["providers", "gemini", "settings", "baseUrl"], "{base}/v1beta"),
                ],
            },
        }),
        // The blank: cline takes a prompt of one word for a command.
        prompt: &["--tui", "{prompt} "],
        headless: &["{prompt} "],
        sign_ins: "an API key",
        notes: &[
            "providers `anthropic`, `openai-native` and `gemini`; what cline writes to the copy is deleted after the run",
        ],
    },
    AgentSetup {
        name: "aider",
        title: "aider",
        also: &[],
        variables: &[("OPENAI_API_BASE", "{base}/v1")],
        arguments: &[],
        file: None,
        prompt: &["--message", "{prompt}"],
        headless: &["--message", "{prompt}"],
        sign_ins: "an API key; it sends no tools, so there are no handoffs",
        notes: &["it sends no tools, so its requests are relayed unchanged: no handoffs"],
    },
];

/// For agents that are not in the table: the variables that the SDKs read.
pub(super) const GENERIC: AgentSetup = AgentSetup {
    name: "",
    title: "the agent",
    also: &[],
    variables: &[
        ("ANTHROPIC_BASE_URL", "{base}"),
        ("OPENAI_BASE_URL", "{base}/v1"),
        ("OPENAI_API_BASE", "{base}/v1"),
        ("GOOGLE_GEMINI_BASE_URL", "{base}"),
    ],
    arguments: &[],
    file: None,
    prompt: &["{prompt}"],
    headless: &["{prompt}"],
    sign_ins: "an API key",
    notes: &[],
};

/// The agent of a name, or of a path whose file has that name.
pub(super) fn find(program: &str) -> Option<&'static AgentSetup> {
    let name = Path::new(program).file_stem()?.to_str()?.to_ascii_lowercase();
    AGENTS
        .iter()
        .find(|agent| agent.name == name || agent.also.contains(&name.as_str()))
}

/// The agent of a name, else the generic one.
pub(super) fn find_or_generic(program: &str) -> &'static AgentSetup {
    find(program).unwrap_or(&GENERIC)
}

impl AgentSetup {
    /// Whether it is in the table.
    pub(super) fn is_known(&self) -> bool {
        !self.name.is_empty()
    }

    /// The program to start for this name: a path stays as it is, another name for the agent becomes its program's.
    pub(super) fn program<'a>(&self, named: &'a str) -> &'a str
    where
        Self: 'a,
        'static: 'a,
    {
        match self.is_known() && Path::new(named).components().count() == 1 {
            true => self.name,
            false => named,
        }
    }

    /// Variables and arguments for a run through the proxy at `url`, with the base URL `base` and the config file at `file`.
    pub(super) fn setup(&self, url: &str, base: &str, file: &str) -> Setup {
        let filled = |template: &str| template.replace("{base}", base).replace("{file}", file);
        let own = self.variables.iter().map(|(name, value)| (*name, filled(value)));
        Setup {
            variables: std::iter::once((URL, url.to_owned())).chain(own).collect(),
            arguments: self.arguments.iter().map(|argument| filled(argument)).collect(),
        }
    }

    /// The arguments for a session that starts with `text`, or for one answer to it.
    pub(super) fn first_prompt(&self, text: &str, headless: bool) -> Vec<String> {
        let template = if headless { self.headless } else { self.prompt };
        let filled = template.iter().map(|argument| argument.replace("{prompt}", text));
        filled.collect()
    }
}

impl ConfigContent {
    /// The text for the proxy at `base`; `theirs` is the person's own file, for a copy.
    ///
    /// # Errors
    /// The person's file is not a JSON object.
    pub(super) fn text(&self, theirs: Option<&str>, base: &str) -> Result<String, serde_json::Error> {
        match self {
            Self::Text(text) => Ok((*text).to_owned()),
            Self::Copy { default, set, .. } => {
                let mut copy: Map<String, Value> = serde_json::from_str(default)?;
                lay_over(&mut copy, serde_json::from_str(theirs.unwrap_or("{}"))?);
                for (path, template) in *set {
                    put(&mut copy, path, template.replace("{base}", base));
                }
                serde_json::to_string_pretty(&copy)
            }
        }
    }
}

/// Merges `above` into `below`: objects are merged, other values replaced.
fn lay_over(below: &mut Map<String, Value>, above: Map<String, Value>) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => lay_over(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// Sets a string at a path of keys; values on the way that are no objects are replaced.
fn put(object: &mut Map<String, Value>, path: &[&str], text: String) {
    match path {
        [] => {}
        [last] => {
            object.insert((*last).to_owned(), text.into());
        }
        [key, rest @ ..] => {
            let below = object.entry(*key).or_insert_with(|| Map::new().into());
            if !below.is_object() {
                *below = Map::new().into();
            }
            if let Some(below) = below.as_object_mut() {
                put(below, rest, text);
            }
        }
    }
}

#[cfg(test)]
mod tests;
