//! The served provider APIs, and the operations of a request.

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

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// A reply of the model.
    Generate,
    /// The token count of a request.
    CountTokens,
    /// A compacted transcript (`POST /v1/responses/compact`).
    Compact,
    /// Something the provider stores: a response, its input items, a conversation. Also Ollama's version.
    Stored,
    /// The list of models.
    Models,
    /// The request's own body back (`POST /v1/embeddings`).
    Echo,
    /// Anything else: answered with 404.
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
