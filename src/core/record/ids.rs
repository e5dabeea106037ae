//! Ids that records refer to: wire, handoff and principal.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

named! {
    /// A provider API.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WireId {
        /// Anthropic Messages.
        #[default]
        Anthropic = "anthropic",
        /// OpenAI Chat Completions and its many compatible servers.
        OpenaiChat = "openai_chat",
        OpenaiResponses = "openai_responses",
        /// Gemini generateContent.
        Gemini = "gemini",
        /// Ollama `/api/chat`.
        Ollama = "ollama",
    }
}

/// Id of a handoff or an aside. A UUIDv7, so that ids sort by time.
pub type HandoffId = Uuid;

/// Owner of conversations: the name of a configured client, or [`LOCAL`].
pub type Principal = String;

/// Principal if no clients are configured.
pub const LOCAL: &str = "local";
