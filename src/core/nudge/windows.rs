//! How many tokens the models take.

/// Tokens that a request of these models may have, by the beginning of their names: the input side where a provider tells it
/// apart from the output. From the providers' pages of models.
const WINDOWS: &[(&str, u64)] = &[
    ("claude-", 200_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-5", 272_000),
    ("gpt-6", 272_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("codex-", 272_000),
    ("gemini-", 1_048_576),
    ("deepseek-", 128_000),
    ("glm-4.6", 200_000),
    ("grok-4", 256_000),
    ("grok-4-fast", 2_000_000),
    ("grok-code-fast", 256_000),
    ("kimi-k2", 262_144),
    ("qwen3-coder", 262_144),
];

/// Words of a request's beta header that widen the window of its model, and to how much (Anthropic).
const WIDER: &[(&str, &str, u64)] = &[("claude-", "context-1m", 1_000_000)];

/// The windows of models: those of the table, and those of the config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    /// Beginnings of names, each with its window.
    more: Vec<(String, u64)>,
}

impl Windows {
    /// The table's windows, and these, which come first where both know a name.
    pub fn with(more: Vec<(String, u64)>) -> Self {
        Self { more }
    }

    /// The window of this model, by the longest beginning of its name that is known: as it is named, or behind what a gateway
    /// puts in front of it (`anthropic/`, `models/`, `us.anthropic.`). `betas`: the value of the request's beta header.
    pub fn of(&self, model: &str, betas: &str) -> Option<u64> {
        let own = self.more.iter().map(|(name, window)| (name.as_str(), *window));
        let named = longest(own, model);
        let tail = model.rsplit('/').next().unwrap_or(model);
        let bare = tail.rsplit_once("anthropic.").map_or(tail, |(_, name)| name);
        let own = self.more.iter().map(|(name, window)| (name.as_str(), *window));
        named.or_else(|| longest(own, bare)).or_else(|| {
            let wider = WIDER.iter().filter(|(_, beta, _)| betas.contains(beta));
            longest(wider.map(|(name, _, window)| (*name, *window)), bare)
                .or_else(|| longest(WINDOWS.iter().copied(), bare))
        })
    }

    /// The largest window that this model may have, whatever its requests ask for.
    pub fn widest(&self, model: &str) -> Option<u64> {
        let betas = WIDER.iter().map(|(_, beta, _)| self.of(model, beta));
        betas.chain([self.of(model, "")]).flatten().max()
    }
}

fn longest<'a>(table: impl Iterator<Item = (&'a str, u64)>, model: &str) -> Option<u64> {
    let known = table.filter(|(name, _)| model.starts_with(name));
    known.max_by_key(|(name, _)| name.len()).map(|(_, window)| window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts_and_the_config_comes_first() {
        let table = Windows::default();
        for (model, window) in [
            ("claude-opus-5-5", Some(200_000)),
            ("anthropic/claude-opus-5", Some(200_000)),
            ("us.anthropic.claude-sonnet-5-v1:0", Some(200_000)),
            ("models/gemini-3.8-flash", Some(1_048_576)),
            ("grok-4-fast-reasoning", Some(2_000_000)),
            ("grok-4", Some(256_000)),
            ("gpt-6.1-sol", Some(272_000)),
            ("my-claude-like", None),
            ("m", None),
            ("", None),
        ] {
            assert_eq!(table.of(model, ""), window, "{model}");
        }
        assert_eq!(
            table.of("claude-opus-5", "oauth,context-1m-2025-08-07"),
            Some(1_000_000)
        );
        assert_eq!(table.of("gpt-5", "context-1m"), Some(272_000));
        assert_eq!(table.widest("claude-opus-5"), Some(1_000_000));
        assert_eq!((table.widest("gpt-5"), table.widest("m")), (Some(272_000), None));
        let own = Windows::with(vec![("my-".to_owned(), 9), ("claude-".to_owned(), 7)]);
        assert_eq!(own.of("my-claude-like", ""), Some(9));
        assert_eq!(own.of("anthropic/claude-opus-5", "context-1m"), Some(7));
        assert_eq!(own.of("gpt-4o-mini", ""), Some(128_000));
    }
}
