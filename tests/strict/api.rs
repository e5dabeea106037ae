//! Provider APIs that are served, and the operations of a request.

use std::fmt;

/// A provider API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini `generateContent`, including the paths of Vertex AI.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Anthropic => "anthropic",
            Wire::OpenAiChat => "openai_chat",
            Wire::OpenAiResponses => "openai_responses",
            Wire::Gemini => "gemini",
            Wire::Ollama => "ollama",
        })
    }
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// Generate a reply.
    Generate,
    /// Count the tokens of a request.
    CountTokens,
    /// Compact a transcript (`POST /v1/responses/compact`).
    Compact,
    /// Read something that the provider stores: a response, its input items, or a conversation. Includes
    /// Ollama's version.
    Stored,
    /// List the models.
    Models,
    /// Return the request's own body (`POST /v1/embeddings`).
    Echo,
    /// Anything else, which gets a 404.
    Other,
}

impl Endpoint {
    /// Whether requests of this kind are checked against the rules.
    pub(crate) fn is_checked(self) -> bool {
        matches!(
            self,
            Endpoint::Generate | Endpoint::CountTokens | Endpoint::Compact
        )
    }
}
