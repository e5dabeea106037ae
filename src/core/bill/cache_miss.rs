//! Why a provider's prompt cache could not serve a request, if the response tells.

use serde::{Deserialize, Serialize};

use super::cost::TokenCounts;
use crate::text::words::grouped;

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
