//! The providers' rules for cached input, as data.

/// Conditions for serving input from a provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRule {
    /// Minimum number of tokens of a cached prefix.
    pub least_tokens: u64,
    /// How long a prefix stays cached after its last use, in milliseconds.
    pub lifetime_ms: u64,
}

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Rules by prefix of the model's name, the more exact ones first.
///
/// Sources: Anthropic's page on prompt caching (minimum lengths by model, and a read renews the lifetime).
/// OpenAI's page on prompt caching (1,024 tokens; 30 minutes since writes are billed, with GPT-5.6). Google's
/// page on implicit caching (1,024 to 4,096, without a promise). DeepSeek's page on its context cache
/// (hours).
const RULES: &[(&str, u64, u64)] = &[
    ("claude-opus-5", 512, 5 * MINUTE),
    ("claude-fable-5", 512, 5 * MINUTE),
    ("claude-mythos-5", 512, 5 * MINUTE),
    ("claude-opus-4-5", 4096, 5 * MINUTE),
    ("claude-opus-4-6", 4096, 5 * MINUTE),
    ("claude-opus-4-7", 2048, 5 * MINUTE),
    ("claude-haiku-4-5", 4096, 5 * MINUTE),
    ("claude-", 1024, 5 * MINUTE),
    ("gpt-5.6", 1024, 30 * MINUTE),
    ("gpt-6", 1024, 30 * MINUTE),
    ("gpt-", 1024, 10 * MINUTE),
    ("o", 1024, 10 * MINUTE),
    ("gemini-", 4096, 5 * MINUTE),
    ("deepseek-", 64, 2 * HOUR),
];

/// The rule for models without a row.
const OTHERS: CacheRule = CacheRule {
    least_tokens: 1024,
    lifetime_ms: 5 * MINUTE,
};

impl CacheRule {
    /// The rule for a model. `long` is set if its writes were billed for the longer lifetime.
    pub fn for_model(model: &str, long: bool) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        // Bedrock puts the region and the vendor before the name: `eu.anthropic.claude-…`.
        let name = name
            .rsplit_once("anthropic.")
            .map_or(name.as_str(), |(_, tail)| tail);
        // The first match counts, so a general prefix must follow the exact ones.
        let row = RULES.iter().find(|(beginning, ..)| name.starts_with(beginning));
        let rule = row.map_or(OTHERS, |&(_, least_tokens, lifetime_ms)| Self {
            least_tokens,
            lifetime_ms,
        });
        let lifetime_ms = match (long, name.starts_with("gpt-")) {
            (false, _) => rule.lifetime_ms,
            // OpenAI's `ttl` is `30m` or `12h`, Anthropic's `5m` or `1h`.
            (true, true) => 12 * HOUR,
            (true, false) => HOUR,
        };
        Self { lifetime_ms, ..rule }
    }
}
