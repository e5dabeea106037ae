//! The usage of a session's responses, from each agent's own records.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::bill::TokenCounts;
use crate::text::table;

/// Usage of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Tokens of the input, including cached ones, and of the output.
    pub tokens: u64,
    /// The model's window, if the agent records it.
    pub window: Option<u64>,
    pub model: Option<String>,
    /// Counts that the provider billed for the response.
    pub counts: TokenCounts,
    /// Counts billed in addition: the provider's own rounds before the response.
    pub rounds: TokenCounts,
    /// Identifier of the response in every copy of the record.
    pub id: Option<String>,
    /// The speed or tier of the service, if the price depends on it.
    pub service: Option<String>,
}

/// A row of `session_usage.toml`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UsageRow {
    usage: &'static str,
    input: &'static str,
    read: &'static str,
    write: &'static str,
    long: &'static str,
    output: Vec<&'static str>,
    total: &'static str,
    whole: bool,
    window: &'static str,
    model: &'static str,
    id: &'static str,
}

static USAGES: LazyLock<Vec<UsageRow>> = LazyLock::new(|| table::rows(include_str!("session_usage.toml")));

/// The usage in a line of a session file.
///
/// All-zero usage is ignored: agents write it for messages of their own.
pub(crate) fn of_line(line: &Json) -> Option<SessionUsage> {
    USAGES.iter().find_map(|row| row.of(line))
}

/// The value at a path; `None` for an empty path.
fn at<'j>(value: &'j Json, path: &str) -> Option<&'j Json> {
    value.pointer(path).filter(|_| !path.is_empty())
}

impl UsageRow {
    fn of(&self, line: &Json) -> Option<SessionUsage> {
        let usage = at(line, self.usage)?;
        let counts = self.counts(usage)?;
        let text = |of: &Json, path: &str| at(of, path).and_then(Json::as_str).map(str::to_owned);
        let rounds = usage["iterations"].as_array().into_iter().flatten();
        let mut all = TokenCounts::default();
        rounds
            .filter_map(|round| self.counts(round))
            .for_each(|round| all += round);
        (counts.total() > 0).then(|| SessionUsage {
            tokens: counts.total(),
            window: at(line, self.window).and_then(Json::as_u64),
            model: text(line, self.model),
            counts,
            rounds: all.beyond(counts),
            id: text(line, self.id),
            service: text(usage, "/speed").or_else(|| text(usage, "/service_tier")),
        })
    }

    /// The counts of a usage object.
    fn counts(&self, usage: &Json) -> Option<TokenCounts> {
        let number = |path: &str| at(usage, path).and_then(Json::as_u64);
        let given = number(self.input)?;
        let some = |path: &str| number(path).unwrap_or_default();
        let (cache_read, cache_write) = (some(self.read), some(self.write));
        let cached = cache_read.saturating_add(cache_write);
        // OpenAI and Gemini count cached tokens as input, Anthropic does not.
        let input = given.saturating_sub(if self.whole { cached } else { 0 });
        let whole = input.saturating_add(cached);
        let sum = self
            .output
            .iter()
            .map(|path| some(path))
            .fold(0, u64::saturating_add);
        let counts = TokenCounts {
            input,
            cache_read,
            cache_write,
            cache_write_long: 0,
            // The total minus the input includes reasoning, which some agents do not list.
            output: number(self.total).map_or(sum, |total| total.saturating_sub(whole)),
        };
        Some(counts.splitting_long(some(self.long)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_agents_record_of_an_answer_has_its_tokens() {
        for (agent, line, expected) in [
            (
                "Claude Code",
                json!({"type": "assistant", "message": {"model": "claude-sonnet-4-5", "usage": {"input_tokens": 2,
                    "cache_creation_input_tokens": 2821, "cache_read_input_tokens": 20380, "output_tokens": 8,
                    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 2821}}}}),
                Some((23_211, None, Some("claude-sonnet-4-5"))),
            ),
            (
                "Codex",
                json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
                    "total_token_usage": {"total_tokens": 99_999},
                    "last_token_usage": {"input_tokens": 13_689, "output_tokens": 8, "total_tokens": 13_697},
                    "model_context_window": 258_400}}}),
                Some((13_697, Some(258_400), None)),
            ),
            (
                "pi",
                json!({"type": "message", "message": {"role": "assistant", "model": "claude-sonnet-4-5",
                    "usage": {"input": 0, "output": 7, "cacheRead": 12, "cacheWrite": 1565, "totalTokens": 1584}}}),
                Some((1584, None, Some("claude-sonnet-4-5"))),
            ),
            (
                "Gemini CLI",
                json!({"type": "gemini", "content": "x", "model": "gemini-2.5-pro",
                    "tokens": {"input": 12_844, "output": 8, "cached": 0, "thoughts": 0, "tool": 0, "total": 12_852}}),
                Some((12_852, None, Some("gemini-2.5-pro"))),
            ),
            (
                "Qwen Code",
                json!({"type": "assistant", "model": "qwen3-coder-plus", "contextWindowSize": 1_000_000,
                    "usageMetadata": {"promptTokenCount": 22_167, "candidatesTokenCount": 8, "totalTokenCount": 22_175}}),
                Some((22_175, Some(1_000_000), Some("qwen3-coder-plus"))),
            ),
            (
                "an error of Claude Code's own",
                json!({"message": {"model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0}}}),
                None,
            ),
            (
                "a request",
                json!({"message": {"role": "user", "content": "x"}}),
                None,
            ),
        ] {
            let found = of_line(&line);
            let found = found
                .as_ref()
                .map(|one| (one.tokens, one.window, one.model.as_deref()));
            assert_eq!(found, expected, "{agent}");
        }
    }
}
