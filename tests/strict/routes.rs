//! Which wire and endpoint a path belongs to.

use http::{HeaderMap, Method};

use super::api::{Endpoint, Wire};
use super::openai_responses::chatgpt;

/// One row per path. `*` matches one segment, or the beginning of one. Paths without a row are answered with 404.
static ROUTES: &[(Method, &str, Wire, Endpoint)] = &[
    (Method::POST, "/v1/messages", Wire::Anthropic, Endpoint::Generate),
    (
        Method::POST,
        "/v1/messages/count_tokens",
        Wire::Anthropic,
        Endpoint::CountTokens,
    ),
    (
        Method::POST,
        "/v1/chat/completions",
        Wire::OpenAiChat,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/chat/completions",
        Wire::OpenAiChat,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/v1/responses",
        Wire::OpenAiResponses,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/responses",
        Wire::OpenAiResponses,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/v1/responses/compact",
        Wire::OpenAiResponses,
        Endpoint::Compact,
    ),
    (
        Method::POST,
        "/responses/compact",
        Wire::OpenAiResponses,
        Endpoint::Compact,
    ),
    (
        Method::POST,
        "/backend-api/codex/responses",
        Wire::OpenAiResponses,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/backend-api/codex/responses/compact",
        Wire::OpenAiResponses,
        Endpoint::Compact,
    ),
    (
        Method::GET,
        "/backend-api/codex/models",
        Wire::OpenAiResponses,
        Endpoint::Models,
    ),
    (
        Method::POST,
        "/v1/responses/input_tokens",
        Wire::OpenAiResponses,
        Endpoint::CountTokens,
    ),
    (
        Method::GET,
        "/v1/responses/*/input_items",
        Wire::OpenAiResponses,
        Endpoint::Stored,
    ),
    (
        Method::POST,
        "/v1/responses/*/cancel",
        Wire::OpenAiResponses,
        Endpoint::Stored,
    ),
    (
        Method::GET,
        "/v1/responses/*",
        Wire::OpenAiResponses,
        Endpoint::Stored,
    ),
    (
        Method::DELETE,
        "/v1/responses/*",
        Wire::OpenAiResponses,
        Endpoint::Stored,
    ),
    (
        Method::POST,
        "/v1/conversations",
        Wire::OpenAiResponses,
        Endpoint::Stored,
    ),
    (Method::GET, "/v1beta/models", Wire::Gemini, Endpoint::Models),
    (Method::POST, "/api/chat", Wire::Ollama, Endpoint::Generate),
    (Method::GET, "/api/tags", Wire::Ollama, Endpoint::Models),
    (Method::GET, "/api/version", Wire::Ollama, Endpoint::Stored),
    (Method::HEAD, "/", Wire::Ollama, Endpoint::Stored),
    (Method::GET, "/v1/models", Wire::OpenAiChat, Endpoint::Models),
    (Method::POST, "/v1/embeddings", Wire::OpenAiChat, Endpoint::Echo),
    (
        Method::POST,
        "/openai/deployments/*/chat/completions",
        Wire::OpenAiChat,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/count-tokens:rawPredict",
        Wire::Anthropic,
        Endpoint::CountTokens,
    ),
    (
        Method::POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/*:rawPredict",
        Wire::Anthropic,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/*:streamRawPredict",
        Wire::Anthropic,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/v1internal:generateContent",
        Wire::Gemini,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/v1internal:streamGenerateContent",
        Wire::Gemini,
        Endpoint::Generate,
    ),
    (
        Method::POST,
        "/v1internal:countTokens",
        Wire::Gemini,
        Endpoint::CountTokens,
    ),
    // Bedrock is not implemented: its requests are echoed.
    (Method::POST, "/model/*/*", Wire::Anthropic, Endpoint::Echo),
];

/// Path prefixes under which vendors serve an API of others: Azure and Google that of OpenAI, Foundry that of
/// Anthropic, OpenRouter both.
const VENDOR_PREFIXES: [&str; 3] = ["/openai", "/anthropic", "/api"];

/// Paths of Gemini models: on its own API, and in both forms of Vertex. A verb follows each.
const GEMINI_MODELS: [&str; 3] = [
    "/*/models/*",
    "/*/publishers/google/models/*",
    "/*/projects/*/locations/*/publishers/google/models/*",
];

const VERBS: [(&str, Endpoint); 3] = [
    (":generateContent", Endpoint::Generate),
    (":streamGenerateContent", Endpoint::Generate),
    (":countTokens", Endpoint::CountTokens),
];

/// The wire that answers a path without a row, by the beginning of the path.
const FALLBACKS: [(&str, Wire); 5] = [
    ("/v1/messages", Wire::Anthropic),
    (chatgpt::FOLDER, Wire::OpenAiResponses),
    ("/v1/responses", Wire::OpenAiResponses),
    ("/v1beta", Wire::Gemini),
    ("/api/", Wire::Ollama),
];

/// The wire of a request, and what it asks for.
pub(crate) fn route(method: &Method, path: &str, headers: &HeaderMap) -> (Wire, Endpoint) {
    let path = without_vendor_prefix(path);
    let fits =
        |(verb, pattern, ..): &&(Method, &str, Wire, Endpoint)| verb == method && matches(pattern, path);
    let known = ROUTES.iter().find(fits);
    let anthropic = headers.contains_key("anthropic-version");
    let begins = FALLBACKS.iter().find(|(begin, _)| path.starts_with(begin));
    if method == Method::POST
        && let Some(endpoint) = model_verb(path)
    {
        return (Wire::Gemini, endpoint);
    }
    match (known, begins) {
        (Some((.., Endpoint::Models)), _) if anthropic => (Wire::Anthropic, Endpoint::Models),
        (Some((.., wire, endpoint)), _) => (*wire, *endpoint),
        (None, _) if anthropic => (Wire::Anthropic, Endpoint::Other),
        (None, Some((_, wire))) => (*wire, Endpoint::Other),
        (None, None) => (Wire::OpenAiChat, Endpoint::Other),
    }
}

fn without_vendor_prefix(path: &str) -> &str {
    let inside = VENDOR_PREFIXES
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix));
    inside.filter(|rest| rest.starts_with("/v1/")).unwrap_or(path)
}

fn model_verb(path: &str) -> Option<Endpoint> {
    VERBS.iter().find_map(|(verb, endpoint)| {
        let model = path.strip_suffix(verb)?;
        let known = GEMINI_MODELS.iter().any(|pattern| matches(pattern, model));
        known.then_some(*endpoint)
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let fits = |(pattern, segment): (&&str, &&str)| match pattern.strip_prefix('*') {
        Some(rest) => segment.len() > rest.len() && segment.ends_with(rest),
        None => pattern == segment,
    };
    pattern.len() == path.len() && pattern.iter().zip(&path).all(fits)
}
