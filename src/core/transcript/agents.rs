//! Recognizes the agent that sends a transcript by the first words that its harness writes.
//!
//! Source of the words: the agents' own requests.

use super::literal::JsonText;

named! {
    /// Agent that baton recognizes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AgentKind {
        /// Anthropic's Claude Code.
        ClaudeCode = "claude-code",
        Cline = "cline",
        /// OpenAI's Codex.
        Codex = "codex",
        /// Google's Gemini CLI.
        GeminiCli = "gemini-cli",
        Goose = "goose",
        /// OpenCode.
        OpenCode = "opencode",
        Pi = "pi",
        QwenCode = "qwen-code",
    }
}

/// Words near the beginning of text that the agent's harness writes.
const WORDS: [(AgentKind, &str); 11] = [
    (AgentKind::ClaudeCode, "Claude Agent SDK"),
    (AgentKind::ClaudeCode, "You are Claude Code"),
    (AgentKind::Cline, "You are Cline"),
    (AgentKind::Codex, "in the Codex CLI"),
    (AgentKind::Codex, "You are Codex"),
    (AgentKind::GeminiCli, "This is the Gemini CLI"),
    (AgentKind::Goose, "agent called goose"),
    (AgentKind::OpenCode, "You are OpenCode"),
    (AgentKind::OpenCode, "You are opencode"),
    (AgentKind::Pi, "operating inside pi"),
    (AgentKind::QwenCode, "You are Qwen Code"),
];

/// Length of the beginning that is searched for the words, in bytes.
const BEGINNING: usize = 240;

impl AgentKind {
    /// Words that identify this agent's harness.
    pub fn words(self) -> &'static str {
        let known = WORDS.iter().find(|(agent, _)| *agent == self);
        known.map_or("", |(_, words)| words)
    }

    /// Finds the agent whose words occur; the first match counts.
    pub(super) fn from_texts(texts: &[JsonText<'_>]) -> Option<Self> {
        texts.iter().find_map(|text| {
            // Only the beginning: a file that the agent read may name any agent.
            let beginning = text.beginning(BEGINNING);
            let known = WORDS.iter().find(|(_, words)| beginning.contains(words));
            known.map(|(agent, _)| *agent)
        })
    }
}
