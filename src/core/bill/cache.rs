//! The providers' rules for cached input, as data.

use super::cost::TokenCounts;
use crate::text::words::grouped;
use serde::{Deserialize, Serialize};

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
        let tail = name.rsplit_once("anthropic.").map(|(_, tail)| tail);
        let name = tail.unwrap_or(&name);
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

/// Result of Anthropic's cache diagnosis, in its own shape (`diagnostics.cache_miss_reason` of a message).
///
/// The provider compares the request with the one whose response the agent names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheMiss {
    #[serde(rename = "type")]
    pub reason: CacheMissReason,
    /// Approximate number of tokens that the cache would have served for an identical prefix.
    #[serde(rename = "cache_missed_input_tokens", default)]
    pub tokens: u64,
}

/// The first difference between the two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMissReason {
    ModelChanged,
    SystemChanged,
    ToolsChanged,
    MessagesChanged,
    /// The provider no longer has the earlier request.
    PreviousMessageNotFound,
    /// The provider has no diagnosis, or one that is unknown here.
    #[serde(other)]
    Unavailable,
}

impl CacheMiss {
    /// Whether the diagnosis proves that these counts were billed without a cached history.
    ///
    /// That is so if something before the messages changed, and no fewer tokens were missed than read.
    /// Changed messages prove nothing about the part before the change. If more tokens were missed than the
    /// request has, the provider compared it with a request before a cut.
    pub(super) fn is_cold(self, counts: TokenCounts) -> bool {
        use CacheMissReason::{ModelChanged, SystemChanged, ToolsChanged};
        matches!(self.reason, ModelChanged | SystemChanged | ToolsChanged)
            && (counts.cache_read..=counts.whole_input()).contains(&self.tokens)
    }

    /// The diagnosis as a sentence.
    pub fn text(self) -> String {
        let what = match self.reason {
            CacheMissReason::ModelChanged => "the model or its speed",
            CacheMissReason::SystemChanged => "the system prompt",
            CacheMissReason::ToolsChanged => "the list of tools",
            CacheMissReason::MessagesChanged => "an earlier message",
            CacheMissReason::PreviousMessageNotFound => {
                return "The provider no longer had the earlier request to say why its cache did not serve this one.".to_owned();
            }
            CacheMissReason::Unavailable => {
                return "The provider could not say why its cache did not serve the request.".to_owned();
            }
        };
        format!(
            "The provider's cache could not serve about {} tokens: {what} is not as in the earlier request.",
            grouped(self.tokens)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnosis_proves_a_cold_cache_only_if_the_whole_history_comes_after_the_change() {
        let counts = TokenCounts {
            input: 90_000,
            cache_read: 10_000,
            ..TokenCounts::default()
        };
        let miss = |reason, tokens| CacheMiss { reason, tokens }.is_cold(counts);
        assert!(miss(CacheMissReason::SystemChanged, 95_000));
        assert!(miss(CacheMissReason::ToolsChanged, 95_000));
        assert!(miss(CacheMissReason::ModelChanged, 95_000));
        assert!(!miss(CacheMissReason::ToolsChanged, 9_000), "most of it was read");
        assert!(
            !miss(CacheMissReason::ToolsChanged, 400_000),
            "of a request before a cut"
        );
        assert!(!miss(CacheMissReason::MessagesChanged, 95_000));
        assert!(!miss(CacheMissReason::PreviousMessageNotFound, 0));
        assert!(!miss(CacheMissReason::Unavailable, 0));
    }
}
