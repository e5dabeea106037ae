//! Which agent sends a transcript, by the words with which its harness begins. Seen in the agents' own requests.

use super::literal::Text;

/// An agent that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Agent {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    GeminiCli,
    /// goose.
    Goose,
    /// OpenCode.
    OpenCode,
    /// pi.
    Pi,
    /// Qwen Code.
    QwenCode,
}

/// Words that stand near the beginning of a text of the agent's harness.
const WORDS: [(Agent, &str); 10] = [
    (Agent::ClaudeCode, "Claude Agent SDK"),
    (Agent::ClaudeCode, "You are Claude Code"),
    (Agent::Codex, "in the Codex CLI"),
    (Agent::Codex, "You are Codex"),
    (Agent::GeminiCli, "This is the Gemini CLI"),
    (Agent::Goose, "agent called goose"),
    (Agent::OpenCode, "You are OpenCode"),
    (Agent::OpenCode, "You are opencode"),
    (Agent::Pi, "operating inside pi"),
    (Agent::QwenCode, "You are Qwen Code"),
];

/// Bytes of a text in which the words are looked for.
const BEGINNING: usize = 240;

impl Agent {
    /// The agent whose words stand in one of these texts; the first one counts.
    pub(super) fn of(texts: &[Text<'_>]) -> Option<Self> {
        texts.iter().find_map(|text| {
            let beginning = text.beginning(BEGINNING);
            let known = WORDS.iter().find(|(_, words)| beginning.contains(words));
            known.map(|(agent, _)| *agent)
        })
    }

    /// Its name, as it is written in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Goose => "goose",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
            Self::QwenCode => "qwen-code",
        }
    }
}
