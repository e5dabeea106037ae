//! Recognizes the agent that sends a transcript by the first words that its harness writes.
//!
//! Source of the words: the agents' own requests.

use memchr::memmem;

use super::literal::JsonText;
use super::request::OfferedTool;

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
const WORDS: [(AgentKind, &str); 12] = [
    (AgentKind::ClaudeCode, "Claude Agent SDK"),
    (AgentKind::ClaudeCode, "You are Claude Code"),
    (AgentKind::Cline, "You are Cline"),
    (AgentKind::Codex, "in the Codex CLI"),
    (AgentKind::Codex, "You are Codex"),
    (AgentKind::GeminiCli, "This is the Gemini CLI"),
    (AgentKind::GeminiCli, "You are Gemini CLI"),
    (AgentKind::Goose, "agent called goose"),
    (AgentKind::OpenCode, "You are OpenCode"),
    (AgentKind::OpenCode, "You are opencode"),
    (AgentKind::Pi, "operating inside pi"),
    (AgentKind::QwenCode, "You are Qwen Code"),
];

/// Length of the beginning that is searched for the words, in bytes.
const BEGINNING: usize = 240;

/// Beginning of the system text that Claude Code sends before the one with its name.
const BILLING: &str = "x-anthropic-billing-header:";

/// Words in the definitions of Claude Code's tools that other agents' tools of the same name do not have.
const OWN_TOOLS: [(&str, &str); 2] = [("Bash", "run_in_background"), ("Read", "cat -n")];

impl AgentKind {
    /// Words that identify this agent's harness.
    pub fn words(self) -> &'static str {
        let known = WORDS.iter().find(|(agent, _)| *agent == self);
        known.map_or("", |(_, words)| words)
    }

    /// Finds the agent whose words occur; the first match counts.
    pub(super) fn from_texts(texts: &[JsonText<'_>]) -> Option<Self> {
        texts.iter().find_map(Self::from_text)
    }

    /// The agent that certainly sends these leading system prompts and tools; `None` in doubt.
    ///
    /// Other agents introduce themselves as Claude Code to a subscription and name their tools like its own, but return
    /// files and output as they are (pi, plugins of OpenCode). So no prompt may name another agent, and the tools must
    /// be described as Claude Code's.
    pub(super) fn certain(mut prompts: Vec<JsonText<'_>>, tools: &[OfferedTool<'_>]) -> Option<Self> {
        prompts.retain(|text| !text.beginning(BILLING.len()).starts_with(BILLING));
        // A later prompt may be a file.
        let agent = Self::from_text(prompts.first()?)?;
        let mut named = prompts.iter().filter_map(Self::from_text);
        let is_own = agent != Self::ClaudeCode || tools.iter().all(may_be_claude_codes);
        (is_own && named.all(|named| named == agent)).then_some(agent)
    }

    fn from_text(text: &JsonText<'_>) -> Option<Self> {
        // Only the beginning: a file that the agent read may name any agent.
        let beginning = text.beginning(BEGINNING);
        let known = WORDS.iter().find(|(_, words)| beginning.contains(words));
        known.map(|(agent, _)| *agent)
    }
}

/// Whether a tool does not differ from Claude Code's tool of its name.
fn may_be_claude_codes(tool: &OfferedTool<'_>) -> bool {
    let name = tool.name();
    let known = name.and_then(|name| OWN_TOOLS.iter().find(|(own, _)| name == **own));
    known.is_none_or(|(_, words)| memmem::find(tool.raw(), words.as_bytes()).is_some())
}
