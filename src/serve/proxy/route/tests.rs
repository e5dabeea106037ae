use super::*;
use crate::proxy::testing;
use pretty_assertions::assert_eq;

fn route(path: &str, header: Option<&'static str>) -> Route {
    let mut headers = HeaderMap::new();
    if let Some(name) = header {
        headers.insert(name, http::HeaderValue::from_static("x"));
    }
    let mut config = testing::config("http://127.0.0.1:9");
    let mut named = config.upstreams["openai"].clone();
    let mut bricks = named.clone();
    bricks.wire = Some(WireId::OpenaiChat);
    config.upstreams.insert("bricks".to_owned(), bricks);
    named.wire = Some(WireId::Gemini);
    config
        .upstreams
        .insert("vertex".to_owned(), config.upstreams["openai"].clone());
    config.upstreams.insert("mine".to_owned(), named);
    find(&path.parse().unwrap(), &headers, &config.upstreams)
}

#[test]
fn every_known_path_finds_its_wire() {
    use Operation::*;
    use WireId::*;
    #[rustfmt::skip]
    let table = [
        ("/v1/messages", None, "anthropic", Some(Anthropic), Some(Generate)),
        ("/v1/messages?beta=true", None, "anthropic", Some(Anthropic), Some(Generate)),
        ("/v1/messages/count_tokens?beta=true", None, "anthropic", Some(Anthropic), Some(Count)),
        ("/v1/messages/batches", None, "anthropic", Some(Anthropic), None),
        ("/v1/models", Some("anthropic-version"), "anthropic", Some(Anthropic), None),
        ("/v1/models", Some("x-goog-api-key"), "gemini", Some(Gemini), None),
        ("/v1/models", None, "openai", None, None),
        ("/api/hello", None, "anthropic", Some(Anthropic), None),
        ("/v1/chat/completions", None, "openai", Some(OpenaiChat), Some(Generate)),
        ("/chat/completions", None, "openai", Some(OpenaiChat), Some(Generate)),
        ("/openai/deployments/d/chat/completions?api-version=1", None, "openai", Some(OpenaiChat), Some(Generate)),
        ("/v1/responses", None, "openai", Some(OpenaiResponses), Some(Generate)),
        ("/v1/responses/compact", None, "openai", Some(OpenaiResponses), Some(Compact)),
        ("/v1/responses/input_tokens", None, "openai", Some(OpenaiResponses), Some(Count)),
        ("/v1/responses/resp_1", None, "openai", Some(OpenaiResponses), None),
        ("/v1/embeddings", None, "openai", None, None),
        ("/v1beta/models/m:generateContent", None, "gemini", Some(Gemini), Some(Generate)),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", None, "gemini", Some(Gemini), Some(Generate)),
        ("/v1/models/m:generateContent", None, "gemini", Some(Gemini), Some(Generate)),
        ("/v1beta/models/m:countTokens", None, "gemini", Some(Gemini), Some(Count)),
        ("/v1beta/models/m:embedContent", None, "gemini", Some(Gemini), None),
        ("/v1beta/openai/chat/completions", None, "gemini", Some(OpenaiChat), Some(Generate)),
        ("/v1internal:streamGenerateContent?alt=sse", None, "codeassist", Some(Gemini), Some(Generate)),
        ("/v1internal:countTokens", None, "codeassist", Some(Gemini), Some(Count)),
        ("/v1internal:loadCodeAssist", None, "codeassist", Some(Gemini), None),
        ("/v1internal/operations/1", None, "codeassist", Some(Gemini), None),
        ("/backend-api/codex/responses", None, "chatgpt", Some(OpenaiResponses), Some(Generate)),
        ("/backend-api/codex/responses/compact", None, "chatgpt", Some(OpenaiResponses), Some(Compact)),
        ("/backend-api/codex/models?client_version=1", None, "chatgpt", None, None),
        ("/backend-api/wham/accounts/check", None, "chatgpt", None, None),
        ("/v1/responses", Some("chatgpt-account-id"), "chatgpt", Some(OpenaiResponses), Some(Generate)),
        ("/v1/responses/compact", Some("chatgpt-account-id"), "chatgpt", Some(OpenaiResponses), Some(Compact)),
        ("/v1/models?client_version=1", Some("chatgpt-account-id"), "chatgpt", None, None),
        ("/u/mine/v1/responses", Some("chatgpt-account-id"), "mine", Some(OpenaiResponses), Some(Generate)),
        ("/v1/tunedModels/t:generateContent", None, "gemini", Some(Gemini), Some(Generate)),
        ("/v1/projects/p/locations/l/endpoints/7:streamGenerateContent", None, "vertex", Some(Gemini), Some(Generate)),
        ("/projects/p/locations/l/publishers/anthropic/models/c:rawPredict", None, "vertex", Some(Anthropic), Some(Generate)),
        ("/projects/p/locations/l/publishers/mistralai/models/c:rawPredict", None, "vertex", None, None),
        ("/openai/v1/responses?api-version=preview", None, "openai", Some(OpenaiResponses), Some(Generate)),
        ("/openai/v1/responses/resp_1", None, "openai", Some(OpenaiResponses), None),
        ("/model/us.anthropic.claude:0/invoke", None, "openai", None, None),
        ("/api/chat", None, "openai", Some(Ollama), Some(Generate)),
        ("/u/mine/v1/messages?beta=true", None, "mine", Some(Anthropic), Some(Generate)),
        ("/u/mine/whatever", None, "mine", Some(Gemini), None),
        ("/u/gone/v1/chat/completions", None, "gone", Some(OpenaiChat), Some(Generate)),
        ("/u/mine/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict", None, "mine", Some(Anthropic), Some(Generate)),
        ("/u/mine/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", None, "mine", Some(Anthropic), Some(Count)),
        ("/u/mine/v1/projects/p/locations/l/publishers/google/models/g:generateContent", None, "mine", Some(Gemini), Some(Generate)),
        ("/u/bricks/serving-endpoints/m/invocations", None, "bricks", Some(OpenaiChat), Some(Generate)),
        ("/u/bricks/v1/embeddings", None, "bricks", Some(OpenaiChat), None),
        ("/u/mine/serving-endpoints/m/invocations", None, "mine", Some(Gemini), None),
        ("/u/mine/model/id/invoke", None, "mine", Some(Gemini), None),
    ];
    for (path, header, upstream, wire, call) in table {
        let found = route(path, header);
        assert_eq!(
            (found.upstream.as_str(), found.wire, found.operation),
            (upstream, wire, call),
            "{path}"
        );
    }
}

#[test]
fn the_target_is_the_agents_own_bytes() {
    for (path, target) in [
        (
            "/v1/messages?beta=true&x=%2F%2f",
            "/v1/messages?beta=true&x=%2F%2f",
        ),
        ("/u/mine//v1/a%20b/?", "//v1/a%20b/?"),
        ("/u/mine", "/"),
        ("/u/mine?x=1", "/?x=1"),
        ("/v1/files/a:b", "/v1/files/a:b"),
    ] {
        assert_eq!(route(path, None).target, target, "{path}");
    }
}

#[test]
fn an_account_has_the_calls_of_an_api_at_paths_of_its_own() {
    let account = Some("chatgpt-account-id");
    for (path, target) in [
        ("/v1/responses", "/backend-api/codex/responses"),
        (
            "/v1/models?client_version=%2F1",
            "/backend-api/codex/models?client_version=%2F1",
        ),
        ("/backend-api/codex/responses", "/backend-api/codex/responses"),
        // Where the upstream is named, so is the path.
        ("/u/mine/v1/responses", "/v1/responses"),
        ("/v10/responses", "/v10/responses"),
    ] {
        assert_eq!(route(path, account).target, target, "{path}");
    }
}

#[test]
fn paths_name_model_and_framing() {
    for (target, name, array) in [
        ("/v1beta/models/g-3:generateContent?key=a:b", Some("g-3"), false),
        ("/v1beta/models/g-3:streamGenerateContent", Some("g-3"), true),
        (
            "/v1/projects/p/publishers/google/models/g:streamGenerateContent?x=1&alt=sse",
            Some("g"),
            false,
        ),
        (
            "/v1beta/models/g-3:streamGenerateContent?$alt=sse",
            Some("g-3"),
            false,
        ),
        (
            "/v1beta/models/g-3:streamGenerateContent?key=k",
            Some("g-3"),
            true,
        ),
        (
            "/openai/deployments/mine/chat/completions?api-version=1:2",
            Some("mine"),
            false,
        ),
        (
            "/projects/p/locations/l/publishers/anthropic/models/c@1:rawPredict",
            Some("c@1"),
            false,
        ),
        ("/v1internal:generateContent", None, false),
        ("/v1/messages", None, false),
    ] {
        assert_eq!((model(target), streams_array(target)), (name, array), "{target}");
    }
}
