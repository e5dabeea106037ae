//! Context windows of models in tokens, and their sources.

use super::models;

/// Words of a request's beta header that widen the window of a model, and the wider window (Anthropic).
const WIDER: &[(&str, &str, u64)] = &[("claude-", "context-1m", 1_000_000)];

/// Maximum length of a declaration of windows, in bytes.
const MAX_DECLARATION: usize = 4096;

/// Windows that may be declared, in tokens. A smaller one has no room for an agent's own instructions.
const DECLARABLE: std::ops::RangeInclusive<u64> = 4_000..=20_000_000;

/// The members of a request that determine its model's window.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowQuery<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Value of the header `anthropic-beta`.
    pub betas: &'a str,
    /// Value of the header `user-agent`.
    pub user_agent: &'a str,
    /// Windows that the agent declares: `500000` (for every model), or `gpt-6=500000,my-model=32768`. Not
    /// trusted.
    pub declared: &'a str,
}

/// Windows of models, from the data file and from the config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    /// Prefixes of names, each with its window.
    more: Vec<(String, u64)>,
}

impl Windows {
    /// Combines the data file with configured windows, which take precedence.
    pub fn with(more: Vec<(String, u64)>) -> Self {
        Self { more }
    }

    /// Returns the window of a request's model.
    ///
    /// The sources in order of precedence: the agent's declaration, the config, a beta header that widens the
    /// window, the agent's known assumption, the model's own window.
    pub fn of(&self, query: &WindowQuery<'_>) -> Option<u64> {
        // The full name first, because the config may name a gateway's model.
        let names = [query.model, bare(query.model)];
        let configured = self.more.iter().map(|(name, window)| (name.as_str(), *window));
        let name = names[1].to_ascii_lowercase();
        let wider = WIDER.iter().filter(|(_, beta, _)| query.betas.contains(beta));
        let widened = longest(wider.map(|(name, _, window)| (*name, *window)), [&name, ""]);
        declared(query.declared, names, || {
            widened.or_else(|| models::window(&name))
        })
        .or_else(|| longest(configured, names))
        .or(widened)
        .or_else(|| models::assumed(query.user_agent, &name))
        .or_else(|| models::window(&name))
    }

    /// Returns the window of a model in an agent, whose other headers are unknown.
    pub fn in_agent(&self, model: &str, user_agent: &str) -> Option<u64> {
        self.of(&WindowQuery {
            model,
            user_agent,
            ..WindowQuery::default()
        })
    }

    /// Returns the window of a model whose context has this many tokens.
    ///
    /// If they do not fit into the usual window, it is the larger one.
    pub fn holding(&self, model: &str, tokens: u64) -> Option<u64> {
        let usual = self.in_agent(model, "");
        usual
            .filter(|window| tokens <= *window)
            // The record does not show the beta header, but the size of the context proves the wider window.
            .or_else(|| self.widest(model).filter(|window| tokens <= *window))
    }

    /// Returns the largest window that this model may have in any request.
    pub fn widest(&self, model: &str) -> Option<u64> {
        let with = |betas| {
            self.of(&WindowQuery {
                model,
                betas,
                ..WindowQuery::default()
            })
        };
        let widened = WIDER.iter().map(|(_, beta, _)| with(*beta));
        widened.chain([with("")]).flatten().max()
    }
}

/// Whether a string declares windows and nothing else.
pub fn declares_windows(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_DECLARATION && text.split(',').all(|one| declaration(one).is_some())
}

/// Window that a string declares for a model with these names.
///
/// A declaration for every model is an upper bound, so a smaller window of the model counts.
fn declared(text: &str, names: [&str; 2], own: impl FnOnce() -> Option<u64>) -> Option<u64> {
    let text = if text.len() <= MAX_DECLARATION { text } else { "" };
    let all = text.split(',').filter_map(declaration);
    let named = longest(all.clone().filter(|(name, _)| !name.is_empty()), names);
    named.or_else(|| {
        let (_, any) = all.clone().find(|(name, _)| name.is_empty())?;
        Some(own().map_or(any, |own| any.min(own)))
    })
}

/// Parses `TOKENS`, for every model, or `MODEL=TOKENS`.
fn declaration(text: &str) -> Option<(&str, u64)> {
    let (name, tokens) = text.rsplit_once('=').unwrap_or(("", text));
    let tokens = tokens.trim().parse().ok()?;
    DECLARABLE.contains(&tokens).then_some((name.trim(), tokens))
}

/// Removes a gateway's prefix from a model's name (`anthropic/`, `models/`, `us.anthropic.`).
fn bare(model: &str) -> &str {
    let tail = model.rsplit('/').next().unwrap_or(model);
    tail.rsplit_once("anthropic.").map_or(tail, |(_, name)| name)
}

/// Window of the longest matching prefix, for the first of the names that has one.
fn longest<'a>(rows: impl Iterator<Item = (&'a str, u64)> + Clone, names: [&str; 2]) -> Option<u64> {
    names.into_iter().find_map(|name| {
        let known = rows.clone().filter(|(beginning, _)| name.starts_with(beginning));
        let longest = known.max_by_key(|(beginning, _)| beginning.len());
        longest.map(|(_, window)| window)
    })
}

/// An agent's default compaction threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compaction {
    pub agent: &'static str,
    /// Compacts at this share of the model's window.
    share: f64,
    /// Compacts when this many tokens of the window are left.
    reserve: u64,
}

/// Window of most current models, for thresholds without a model.
pub const PRESENT: u64 = 1_000_000;

/// Window of older models, which some agents still default to.
pub const OLDER: u64 = 200_000;

/// Defaults of the agents, from their sources or settings.
pub const AGENTS: &[Compaction] = &[
    // The reserve for output and 13,000 more tokens.
    at("claude", 1.0, 33_000),
    // `model_auto_compact_token_limit`.
    at("codex", 0.9, 0),
    // The reserve for output, at most 20,000 tokens.
    at("opencode", 1.0, 20_000),
    // `model.compressionThreshold`.
    at("gemini", 0.5, 0),
    // `chatCompression.contextPercentageThreshold`.
    at("qwen", 0.7, 0),
    // `compaction.reserveTokens`.
    at("pi", 1.0, 16_384),
    // `GOOSE_AUTO_COMPACT_THRESHOLD`.
    at("goose", 0.8, 0),
    at("cline", 0.8, 0),
];

const fn at(agent: &'static str, share: f64, reserve: u64) -> Compaction {
    Compaction {
        agent,
        share,
        reserve,
    }
}

impl Compaction {
    /// Share of this window that makes the agent compact.
    pub fn share(&self, window: u64) -> f64 {
        let left = window.saturating_sub(self.reserve) as f64 / window as f64;
        self.share.min(left)
    }
}

/// Number of tokens that make the agent with this `user-agent` compact; the whole window for an unknown
/// agent.
pub fn compaction_point(user_agent: &str, window: u64) -> u64 {
    let name = user_agent.to_ascii_lowercase();
    let known = AGENTS.iter().find(|agent| name.starts_with(agent.agent));
    known.map_or(window, |agent| (window as f64 * agent.share(window)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(model: &str) -> WindowQuery<'_> {
        WindowQuery {
            model,
            ..WindowQuery::default()
        }
    }

    #[test]
    fn a_window_holds_what_is_in_it() {
        let windows = Windows::default();
        for (tokens, window) in [
            (150_000, Some(200_000)),
            (400_000, Some(1_000_000)),
            (2_000_000, None),
        ] {
            assert_eq!(windows.holding("claude-sonnet-4-5", tokens), window, "{tokens}");
        }
        assert_eq!(windows.holding("unheard-of", 1), None);
    }

    /// Generations of each family, with the newest and unknown ones first.
    const KNOWN: &[(Option<u64>, &[&str])] = &[
        (
            Some(1_000_000),
            &[
                "claude-opus-5-5",
                "anthropic/claude-opus-5",
                "us.anthropic.claude-sonnet-5-v1:0",
                "claude-sonnet-5-5-20260801",
                "claude-fable-5-2",
                "claude-mythos-5-2",
                "claude-haiku-5-5",
                "claude-opus-6",
                "claude-haiku-6-1",
                "claude-newest",
                "claude-opus-4-6",
                "claude-sonnet-4.6",
                "claude-opus-4-8-20260301",
                "gpt-4.1-mini",
                "deepseek-v4-pro",
                "deepseek/deepseek-v4-flash",
                "deepseek-flash",
                "deepseek-v5",
                "grok-4.20",
                "grok-4.3-latest",
                "GLM-5.3",
                "glm-6",
                "MiniMax-M3.1-Flash",
                "qwen3.8-max",
                "qwen3-coder-plus",
            ],
        ),
        (
            Some(200_000),
            &[
                "claude-opus-4-5",
                "claude-opus-4-1-20250805",
                "claude-opus-4-20250514",
                "claude-sonnet-4@20250514",
                "claude-sonnet-4.5",
                "claude-haiku-4-5-20251001",
                "claude-3-7-sonnet-latest",
                "us.anthropic.claude-3-5-haiku-20241022-v1:0",
                "o3",
                "o4-mini",
                "GLM-4.6",
                "glm-5.1",
            ],
        ),
        (
            Some(1_050_000),
            &[
                "gpt-6.2-astra",
                "gpt-6.2-sol",
                "gpt-6.1-sol",
                "gpt-6-luna-2026-07-01",
                "gpt-7",
                "gpt-5.6-sol",
                "gpt-5-4",
                "gpt-5.5-codex",
                "openai/gpt-5.4-pro",
            ],
        ),
        (
            Some(272_000),
            &[
                "gpt-5",
                "gpt-5-2025-08-07",
                "gpt-5-mini",
                "gpt-5.1-codex-max",
                "gpt-5.2",
                "gpt-5.3-codex",
                "gpt-5.4-mini",
                "gpt-5-4-nano-2026-03-17",
            ],
        ),
        (
            Some(128_000),
            &[
                "gpt-5.3-chat",
                "gpt-4o-mini",
                "gpt-4-turbo",
                "deepseek-chat",
                "deepseek-v3.2",
                "glm-4.5-air",
            ],
        ),
        (
            Some(1_048_576),
            &[
                "models/gemini-3.8-flash",
                "gemini-4-neon",
                "gemini-2.5-pro",
                "gemini-5",
                "kimi-k3.1-pro",
                "kimi-k4",
                "mistral-large-4",
            ],
        ),
        (
            Some(500_000),
            &["grok-4.5", "grok-4.7-latest", "grok-5", "x-ai/grok-latest"],
        ),
        (
            Some(256_000),
            &["grok-4", "grok-4-0709", "grok-code-fast-1", "codestral-latest"],
        ),
        (
            Some(262_144),
            &[
                "kimi-k2.6",
                "moonshotai/kimi-k2-thinking",
                "qwen3-coder:30b",
                "qwen3.5-27b",
                "devstral-2512",
            ],
        ),
        (Some(2_000_000), &["grok-4-fast-reasoning", "grok-4-1-fast"]),
        (Some(131_072), &["gpt-oss:20b", "grok-3-mini"]),
        (
            None,
            &[
                "my-claude-like",
                "llama3.3",
                "qwen2.5-coder",
                "m",
                "",
                "claude",
                "é",
            ],
        ),
    ];

    #[test]
    fn every_generation_of_every_family_has_its_window() {
        for (window, names) in KNOWN {
            for name in *names {
                assert_eq!(Windows::default().of(&query(name)), *window, "{name}");
            }
        }
    }

    #[test]
    fn the_config_comes_before_the_data_file_and_the_longest_beginning_counts() {
        let own = Windows::with(vec![
            ("my-".to_owned(), 9),
            ("claude-".to_owned(), 7),
            ("claude-opus".to_owned(), 8),
        ]);
        assert_eq!(own.of(&query("my-claude-like")), Some(9));
        let widened = WindowQuery {
            betas: "context-1m",
            ..query("anthropic/claude-opus-5")
        };
        assert_eq!(own.of(&widened), Some(8));
        assert_eq!(own.of(&query("gpt-4o-mini")), Some(128_000));
        assert_eq!(own.widest("claude-sonnet-4-5"), Some(7));
    }

    #[test]
    fn a_beta_header_widens_the_window_of_its_own_models() {
        let with = |model, betas| {
            Windows::default().of(&WindowQuery {
                betas,
                ..query(model)
            })
        };
        let beta = "oauth,context-1m-2025-08-07";
        assert_eq!(with("claude-sonnet-4-5", beta), Some(1_000_000));
        assert_eq!(with("gpt-5", "context-1m"), Some(272_000));
        let widest = |model| Windows::default().widest(model);
        assert_eq!(widest("claude-sonnet-4-5"), Some(1_000_000));
        assert_eq!((widest("gpt-5"), widest("m")), (Some(272_000), None));
    }

    #[test]
    fn an_agent_that_assumes_less_is_taken_at_its_word() {
        let with = |user_agent, betas, model| {
            Windows::default().of(&WindowQuery {
                user_agent,
                betas,
                ..query(model)
            })
        };
        let claude = "claude-cli/2.1.330 (external, cli)";
        assert_eq!(with(claude, "", "claude-opus-4-6"), Some(200_000));
        assert_eq!(
            with(claude, "context-1m-2025-08-07", "claude-opus-4-6"),
            Some(1_000_000)
        );
        assert_eq!(with(claude, "", "claude-opus-5-5"), Some(1_000_000));
        assert_eq!(with("opencode/1", "", "claude-opus-4-6"), Some(1_000_000));
        let codex = "codex_exec/0.169.0 (Debian 12.0.0; x86_64)";
        assert_eq!(with(codex, "", "gpt-6.1-sol"), Some(272_000));
        assert_eq!(with(codex, "", "gpt-6.1-terra"), Some(500_000));
        assert_eq!(with("pi", "", "gpt-6.1-sol"), Some(1_050_000));
    }

    #[test]
    fn a_declared_window_comes_first_within_its_bounds() {
        let own = Windows::with(vec![("gpt-".to_owned(), 50_000)]);
        let with = |declared, model| {
            own.of(&WindowQuery {
                declared,
                ..query(model)
            })
        };
        assert_eq!(with("300000", "gpt-6"), Some(300_000));
        assert_eq!(with("300000", "my-model"), Some(300_000));
        assert_eq!(with("300000", "claude-haiku-4-5"), Some(200_000));
        assert_eq!(with("claude-=300000", "claude-haiku-4-5"), Some(300_000));
        assert_eq!(with("my-=30000, gpt-6.1 = 40000", "gpt-6.1-sol"), Some(40_000));
        assert_eq!(with("my-=30000,gpt-6.1=40000", "gpt-6-sol"), Some(50_000));
        assert_eq!(with("9000,my-=30000", "my-model"), Some(30_000));
        let long = format!("{}300000", " ".repeat(5_000));
        for wrong in [
            "",
            "0",
            "3999",
            "20000001",
            "-5",
            "1e6",
            "gpt-6=",
            "=",
            "99999999999999999999",
            &long,
        ] {
            assert_eq!(with(wrong, "gpt-6"), Some(50_000), "{wrong}");
            assert!(!declares_windows(wrong), "{wrong}");
        }
        assert!(declares_windows("300000") && declares_windows("a=5000,b=6000"));
        assert!(!declares_windows("a=5000,b") && !declares_windows("v1"));
    }

    #[test]
    fn a_compaction_point_is_found_by_the_agents_name() {
        assert_eq!(compaction_point("claude-cli/2.1.330", 200_000), 167_000);
        assert_eq!(compaction_point("GeminiCLI/0.50", 1_000_000), 500_000);
        assert_eq!(compaction_point("curl/8", 200_000), 200_000);
    }

    #[test]
    fn the_suggested_threshold_lies_under_most_agents_own_points() {
        for window in [PRESENT, OLDER] {
            let under = |share: f64| {
                let under = AGENTS.iter().filter(|agent| agent.share(window) < share);
                under.map(|agent| agent.agent).collect::<Vec<_>>()
            };
            assert_eq!(under(0.5), [""; 0], "the nudge's default fires everywhere");
            assert_eq!(under(0.75), ["gemini", "qwen"]);
            assert!(AGENTS.iter().all(|a| (0.4..1.0).contains(&a.share(window))));
        }
    }
}
