//! The use of the context at the end of a session, as each agent's own records have it.

use serde_json::Value as Json;

/// What a session's last answer took of the model's context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Tokens of its input, cached ones included, and of its output.
    pub tokens: u64,
    /// The model's window, where the agent records it.
    pub window: Option<u64>,
    pub model: Option<String>,
}

/// Where an agent's record has the usage of an answer.
struct UsageRow {
    usage: &'static str,
    /// Members that add up to the tokens of the context; the first one is always there.
    members: &'static [&'static str],
    window: &'static str,
    model: &'static str,
}

const NOWHERE: &str = "/-";

const USAGES: [UsageRow; 5] = [
    // Claude Code.
    UsageRow {
        usage: "/message/usage",
        members: &[
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        ],
        window: NOWHERE,
        model: "/message/model",
    },
    // pi.
    UsageRow {
        usage: "/message/usage",
        members: &["input", "cacheRead", "cacheWrite", "output"],
        window: NOWHERE,
        model: "/message/model",
    },
    // Codex.
    UsageRow {
        usage: "/payload/info/last_token_usage",
        members: &["total_tokens"],
        window: "/payload/info/model_context_window",
        model: NOWHERE,
    },
    // Gemini CLI.
    UsageRow {
        usage: "/tokens",
        members: &["total"],
        window: NOWHERE,
        model: "/model",
    },
    // Qwen Code.
    UsageRow {
        usage: "/usageMetadata",
        members: &["totalTokenCount"],
        window: "/contextWindowSize",
        model: "/model",
    },
];

/// The usage that a line of a session file has. Zeros are no usage: agents write them for messages of their own.
pub(super) fn of_line(line: &Json) -> Option<SessionUsage> {
    USAGES.iter().find_map(|row| {
        let usage = line.pointer(row.usage)?;
        usage.get(row.members.first()?)?;
        let counts = row
            .members
            .iter()
            .filter_map(|member| usage.get(member)?.as_u64());
        let tokens: u64 = counts.fold(0, u64::saturating_add);
        (tokens > 0).then(|| SessionUsage {
            tokens,
            window: line.pointer(row.window).and_then(Json::as_u64),
            model: line.pointer(row.model).and_then(Json::as_str).map(str::to_owned),
        })
    })
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
