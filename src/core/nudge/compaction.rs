//! The points at which agents compact their transcripts by themselves. A threshold beyond that point is never reached.

/// An agent's default compaction threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compaction {
    pub agent: &'static str,
    /// At this share of its model's window.
    share: f64,
    /// Where this many tokens are left of the window.
    reserve: u64,
}

/// The window of most present models, used for thresholds where no model is named.
pub const PRESENT: u64 = 1_000_000;

/// The window of older models, which some agents still default to.
pub const OLDER: u64 = 200_000;

/// The agents' defaults, from their sources or settings.
pub const AGENTS: &[Compaction] = &[
    // The reserve for output and 13,000 more tokens.
    at("claude", 1.0, 33_000),
    // `model_auto_compact_token_limit`
    at("codex", 0.9, 0),
    // The reserve for output, at most 20,000 tokens.
    at("opencode", 1.0, 20_000),
    // `model.compressionThreshold`
    at("gemini", 0.5, 0),
    // `chatCompression.contextPercentageThreshold`
    at("qwen", 0.7, 0),
    // `compaction.reserveTokens`
    at("pi", 1.0, 16_384),
    // `GOOSE_AUTO_COMPACT_THRESHOLD`
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
    /// The share of such a window at which it compacts.
    pub fn share(&self, window: u64) -> f64 {
        let left = window.saturating_sub(self.reserve) as f64 / window as f64;
        self.share.min(left)
    }
}

/// Tokens at which the agent of this `user-agent` compacts in such a window; the whole window for one that is unknown.
pub fn compaction_point(user_agent: &str, window: u64) -> u64 {
    let name = user_agent.to_ascii_lowercase();
    let known = AGENTS.iter().find(|agent| name.starts_with(agent.agent));
    known.map_or(window, |agent| (window as f64 * agent.share(window)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
