//! Provider APIs. A wire is a folder with the same files in each, behind the traits of this room.

use serde::{Deserialize, Serialize};

/// One provider API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireId {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and its many compatible servers.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Gemini generateContent.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
}

impl WireId {
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
        [
            Self::Anthropic,
            Self::OpenaiChat,
            Self::OpenaiResponses,
            Self::Gemini,
            Self::Ollama,
        ]
        .into_iter()
        .find(|w| w.name() == name)
    }
}
