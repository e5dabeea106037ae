//! Which wire and endpoint a path belongs to.

use http::{HeaderMap, Method};

use super::api::Endpoint::{self, Compact, CountTokens, Echo, Generate, Models, Stored};
use super::api::Wire::{self, Anthropic, Gemini, Ollama, OpenAiChat, OpenAiResponses};
use super::openai_responses::chatgpt;

const DELETE: Method = Method::DELETE;
const GET: Method = Method::GET;
const HEAD: Method = Method::HEAD;
const POST: Method = Method::POST;

/// One row per path. `*` matches one segment, or the beginning of one. Paths without a row are answered with 404.
static ROUTES: &[(Method, &str, Wire, Endpoint)] = &[
    (POST, "/v1/messages", Anthropic, Generate),
    (POST, "/v1/messages/count_tokens", Anthropic, CountTokens),
    (POST, "/v1/chat/completions", OpenAiChat, Generate),
    (POST, "/chat/completions", OpenAiChat, Generate),
    (POST, "/v1/responses", OpenAiResponses, Generate),
    (POST, "/responses", OpenAiResponses, Generate),
    (POST, "/v1/responses/compact", OpenAiResponses, Compact),
    (POST, "/responses/compact", OpenAiResponses, Compact),
    (POST, "/backend-api/codex/responses", OpenAiResponses, Generate),
    (
        POST,
        "/backend-api/codex/responses/compact",
        OpenAiResponses,
        Compact,
    ),
    (GET, "/backend-api/codex/models", OpenAiResponses, Models),
    (POST, "/v1/responses/input_tokens", OpenAiResponses, CountTokens),
    (GET, "/v1/responses/*/input_items", OpenAiResponses, Stored),
    (POST, "/v1/responses/*/cancel", OpenAiResponses, Stored),
    (GET, "/v1/responses/*", OpenAiResponses, Stored),
    (DELETE, "/v1/responses/*", OpenAiResponses, Stored),
    (POST, "/v1/conversations", OpenAiResponses, Stored),
    (GET, "/v1beta/models", Gemini, Models),
    (POST, "/api/chat", Ollama, Generate),
    (GET, "/api/tags", Ollama, Models),
    (GET, "/api/version", Ollama, Stored),
    (HEAD, "/", Ollama, Stored),
    (GET, "/v1/models", OpenAiChat, Models),
    (POST, "/v1/embeddings", OpenAiChat, Echo),
    (
        POST,
        "/openai/deployments/*/chat/completions",
        OpenAiChat,
        Generate,
    ),
    (
        POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/count-tokens:rawPredict",
        Anthropic,
        CountTokens,
    ),
    (
        POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/*:rawPredict",
        Anthropic,
        Generate,
    ),
    (
        POST,
        "/*/projects/*/locations/*/publishers/anthropic/models/*:streamRawPredict",
        Anthropic,
        Generate,
    ),
    (POST, "/v1internal:generateContent", Gemini, Generate),
    (POST, "/v1internal:streamGenerateContent", Gemini, Generate),
    (POST, "/v1internal:countTokens", Gemini, CountTokens),
    // Bedrock is not implemented: its requests are echoed.
    (POST, "/model/*/*", Anthropic, Echo),
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
