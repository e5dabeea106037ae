//! Who and what a record belongs to: wire, handoff, principal.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One provider API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireId {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and its many compatible servers.
    OpenaiChat,
    OpenaiResponses,
    /// Gemini generateContent.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
}

impl WireId {
    /// Every wire, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Anthropic,
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Gemini,
        Self::Ollama,
    ];

    /// The name used in configs, logs, metrics and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiResponses => "openai_responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The wire of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.name() == name)
    }
}

/// A handoff's id, and an aside's: a UUIDv7, so that ids sort by time.
pub type HandoffId = Uuid;

/// The owner of conversations: a configured client's name, or [`LOCAL`].
pub type Principal = String;

/// The principal where no clients are configured.
pub const LOCAL: &str = "local";
