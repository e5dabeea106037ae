//! Who and what a record belongs to: wire, handoff, principal.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

named! {
    /// One provider API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WireId {
        /// Anthropic Messages.
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

/// A handoff's id, and an aside's: a UUIDv7, so that ids sort by time.
pub type HandoffId = Uuid;

/// The owner of conversations: a configured client's name, or [`LOCAL`].
pub type Principal = String;

/// The principal where no clients are configured.
pub const LOCAL: &str = "local";
