//! Tokens of a leg or of an exchange.

use serde::{Deserialize, Serialize};

use super::is_zero;
use baton_core::wire::Usage;

/// Tokens of one leg or of a whole exchange, as the provider counted them. Whatever its wire calls input, here `input`,
/// `cache_read` and `cache_write` are the three parts of the whole input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTokens {
    /// Input tokens that no cache served (Anthropic's sense; OpenAI's total less the cached ones).
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Of these, tokens that are stored for the provider's long lifetime.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_long: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
}

impl From<Usage> for UsageTokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cache_write_long: usage.cache_write_long,
            output: usage.output,
        }
    }
}

impl UsageTokens {
    /// All input tokens, cached ones included.
    pub fn all_input(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Tokens of the context of the last leg that has any and is not one of `own`: of its input and its output.
    pub(crate) fn of_context(legs: &[Option<Self>], own: &[u32]) -> Option<u64> {
        let of_agent = (0_u32..).zip(legs).filter(|(leg, _)| !own.contains(leg));
        let counted = of_agent.filter_map(|(_, tokens)| *tokens);
        let last = counted.filter(|tokens| *tokens != Self::default()).last()?;
        Some(last.all_input().saturating_add(last.output))
    }

    /// The sum of what is known of each leg; `None` where nothing is.
    pub(crate) fn sum(legs: impl Iterator<Item = Self>) -> Option<Self> {
        let add = u64::saturating_add;
        legs.reduce(|sum, leg| Self {
            input: add(sum.input, leg.input),
            cache_read: add(sum.cache_read, leg.cache_read),
            cache_write: add(sum.cache_write, leg.cache_write),
            cache_write_long: add(sum.cache_write_long, leg.cache_write_long),
            output: add(sum.output, leg.output),
        })
    }
}
