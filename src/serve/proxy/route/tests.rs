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
    config.upstreams.insert("vertex".to_owned(), named.clone());
    named.wire = Some(WireId::Gemini);
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
        // An explicit upstream leaves the path unchanged.
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

/// Credentials with their vendor: a header or a query parameter, and its value. Unknown forms belong to no vendor.
const CREDENTIALS: &[(&str, &str, &str)] = &[
    ("x-api-key", "sk-ant-api03-x", "anthropic"),
    ("x-api-key", "a-key", "anthropic"),
    ("authorization", "Bearer sk-ant-oat01-x", "anthropic"),
    ("authorization", "bearer  sk-ant-api03-x", "anthropic"),
    ("authorization", "sk-ant-api03-x", "anthropic"),
    ("authorization", "Bearer sk-proj-x", "openai"),
    ("authorization", "Bearer sk-svcacct-x", "openai"),
    ("x-goog-api-key", "AIzaSyX", "google"),
    ("x-goog-api-key", "a-key", "google"),
    ("authorization", "Bearer ya29.x", "google"),
    ("authorization", "Bearer AIzaSyX", "google"),
    ("?key", "AIzaSyX", "google"),
    ("?key", "AQ.x", "google"),
    ("?key", "a-key", "google"),
    ("?%6bey", "a-key", "google"),
    ("?access_token", "ya29%2Ex", "google"),
    ("?api_key", "sk-ant-api03-x", "anthropic"),
    ("api-key", "0123456789abcdef0123456789abcdef", "azure"),
    ("authorization", "Bearer ABSKx", "amazon"),
    (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=AKIAX/20261128/us-east-1/bedrock/aws4_request",
        "amazon",
    ),
    ("x-amz-security-token", "x", "amazon"),
    ("?X-Amz-Credential", "AKIAX%2F20261128", "amazon"),
    ("authorization", "Bearer sk-or-v1-x", "openrouter"),
    ("authorization", "Bearer gsk_x", "groq"),
    ("authorization", "Bearer ghu_x", "github"),
];

/// Paths of all known APIs, and of none.
const PATHS: &[&str] = &[
    "/",
    "/v1/models",
    "/v1/files",
    "/v1/complete",
    "/v1/skills",
    "/v1/organizations/me",
    "/v1/oauth/token",
    "/api/oauth/usage",
    "/api/oauth/profile",
    "/api/claude_code/settings",
    "/api/event_logging/batch",
    "/api/hello",
    "/v1/code/sessions",
    "/mcp",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/messages/batches",
    "/anthropic/v1/messages",
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/responses",
    "/v1/responses/resp_1",
    "/v1/responses/compact",
    "/v1/embeddings",
    "/v1beta/models",
    "/v1beta/models/m:generateContent",
    "/v1beta/openai/chat/completions",
    "/upload/v1beta/files",
    "/v1alpha/authTokens",
    "/v1internal:generateContent",
    "/projects/p/locations/l/publishers/anthropic/models/c:rawPredict",
    "/v1/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict",
    "/projects/p/locations/l/publishers/mistralai/models/c:rawPredict",
    "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
    "/openai/deployments/d/chat/completions",
    "/openai/v1/responses",
    "/model/us.anthropic.claude:0/invoke",
    "/backend-api/codex/responses",
    "/backend-api/wham/usage",
    "/api/chat",
    "/api/tags",
];

/// Upstreams at the vendors' own hosts, with `more` configured by hand.
fn at_vendors(more: &[(&str, &str)]) -> BTreeMap<String, UpstreamConfig> {
    let built_in = [
        ("anthropic", "https://api.anthropic.com"),
        ("openai", "https://api.openai.com"),
        ("gemini", "https://generativelanguage.googleapis.com"),
        ("chatgpt", "https://chatgpt.com"),
        ("codeassist", "https://cloudcode-pa.googleapis.com"),
    ];
    let model = testing::config("http://127.0.0.1:9").upstreams["openai"].clone();
    let rows = built_in.iter().chain(more).map(|(name, url)| {
        let upstream = UpstreamConfig {
            base_url: (*url).to_owned(),
            ..model.clone()
        };
        ((*name).to_owned(), upstream)
    });
    rows.collect()
}

const ALL_VENDORS: &[(&str, &str)] = &[
    ("azure", "https://r.openai.azure.com"),
    ("vertex", "https://us-east5-aiplatform.googleapis.com/v1"),
    ("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com"),
];

/// Host that receives a request with these upstreams, and its route. `None` if the request is refused.
fn receiver(
    path: &str,
    credentials: &[(&str, &str)],
    upstreams: &BTreeMap<String, UpstreamConfig>,
) -> Option<(String, Route)> {
    let mut headers = HeaderMap::new();
    let mut target = path.to_owned();
    for (name, value) in credentials {
        match name.strip_prefix('?') {
            Some(name) => {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(&format!("{name}={value}"));
            }
            None => {
                let name = http::HeaderName::try_from(*name).unwrap();
                headers.append(name, http::HeaderValue::from_str(value).unwrap());
            }
        }
    }
    let route = find(&target.parse().unwrap(), &headers, upstreams);
    let upstream = &upstreams[&route.upstream];
    if route.misdirection(upstream, &headers, |_| false).is_some() {
        return None;
    }
    let host = upstream.host();
    let vendor = [
        ("anthropic", "anthropic.com"),
        ("openai", "openai.com"),
        ("openai", "chatgpt.com"),
        ("google", "googleapis.com"),
        ("azure", "azure.com"),
        ("amazon", "amazonaws.com"),
    ]
    .into_iter()
    .find(|(_, end)| host.ends_with(end));
    Some((vendor.map_or("gateway", |(vendor, _)| vendor).to_owned(), route))
}

#[test]
fn no_credential_reaches_another_vendors_host() {
    let companions: &[&[(&str, &str)]] = &[
        &[],
        &[("anthropic-version", "2023-06-01")],
        &[("chatgpt-account-id", "a")],
        &[("authorization", "Bearer of-unknown-form")],
    ];
    let mut sent = 0;
    for more in [&[][..], ALL_VENDORS] {
        let upstreams = at_vendors(more);
        for path in PATHS {
            for (name, value, vendor) in CREDENTIALS {
                for companion in companions {
                    let given = [companion, &[(*name, *value)][..]].concat();
                    if let Some((host, _)) = receiver(path, &given, &upstreams) {
                        assert_eq!(&host, vendor, "{path} {given:?}");
                        sent += 1;
                    }
                }
            }
        }
    }
    assert!(sent > 1000, "most of what its vendor answers is sent: {sent}");
}

#[test]
fn a_credential_decides_where_the_path_does_not() {
    let upstreams = at_vendors(ALL_VENDORS);
    for path in ["/", "/v1/models", "/v1/files", "/api/oauth/usage", "/mcp"] {
        for (name, value, vendor) in CREDENTIALS {
            let found = receiver(path, &[(name, value)], &upstreams);
            let known = !["openrouter", "groq", "github"].contains(vendor);
            let expected = known.then(|| (*vendor).to_owned());
            assert_eq!(found.map(|(host, _)| host), expected, "{path} {name}: {value}");
        }
    }
}

/// Headers, and query parameters after a `?`.
type Given<'g> = &'g [(&'g str, &'g str)];

#[test]
fn what_agents_send_to_their_own_vendor_passes() {
    let upstreams = at_vendors(&[]);
    let token = ("authorization", "Bearer eyJhbGciOi.x.y");
    #[rustfmt::skip]
    let table: &[(&str, Given<'_>, &str)] = &[
        ("/v1/messages?beta=true", &[("authorization", "Bearer sk-ant-oat01-x"), ("anthropic-version", "2023-06-01")], "anthropic"),
        ("/v1/messages", &[("authorization", "Bearer a-token"), ("x-api-key", "sk-ant-api03-x")], "anthropic"),
        ("/v1/responses", &[("authorization", "Bearer sk-of-some-gateway")], "openai"),
        ("/v1/responses", &[("authorization", "Bearer sk-proj-x")], "openai"),
        ("/v1/chat/completions", &[], "openai"),
        ("/v1/responses", &[token, ("chatgpt-account-id", "a")], "chatgpt"),
        ("/v1/models?client_version=1", &[token, ("chatgpt-account-id", "a")], "chatgpt"),
        ("/backend-api/codex/responses", &[token, ("chatgpt-account-id", "a")], "chatgpt"),
        // An API key is not the token of a plan.
        ("/v1/responses", &[("authorization", "Bearer sk-proj-x"), ("chatgpt-account-id", "a")], "openai"),
        ("/v1/messages", &[("x-api-key", "sk-ant-x"), ("chatgpt-account-id", "a")], "anthropic"),
        ("/v1beta/models/m:generateContent", &[("x-goog-api-key", "AIzaX")], "gemini"),
        ("/v1beta/openai/chat/completions", &[("authorization", "Bearer AIzaX")], "gemini"),
        ("/v1internal:generateContent", &[("authorization", "Bearer ya29.x")], "codeassist"),
        ("/v1/models", &[("x-api-key", "sk-ant-x"), ("anthropic-version", "2023-06-01")], "anthropic"),
    ];
    for (path, given, upstream) in table {
        let found = receiver(path, given, &upstreams);
        let found = found.map(|(_, route)| route.upstream);
        assert_eq!(found.as_deref(), Some(*upstream), "{path} {given:?}");
    }
}

#[test]
fn named_upstreams_and_gateways_take_any_credential() {
    let mut upstreams = at_vendors(&[]);
    for (name, value, _) in CREDENTIALS {
        let found = receiver("/u/openai/v1/models", &[(name, value)], &upstreams);
        assert!(found.is_some(), "{name}");
    }
    let gateway = "https://gateway.example/team";
    for upstream in upstreams.values_mut() {
        gateway.clone_into(&mut upstream.base_url);
    }
    for path in PATHS {
        for (name, value, _) in CREDENTIALS {
            let found = receiver(path, &[(name, value)], &upstreams);
            assert!(found.is_some(), "{path} {name}");
        }
    }
    // A key of unknown form stays with the gateway that takes all requests without a match.
    let mut upstreams = at_vendors(&[]);
    gateway.clone_into(&mut upstreams.get_mut("openai").unwrap().base_url);
    let found = receiver("/v1/models", &[("x-api-key", "team-key")], &upstreams);
    assert_eq!(found.unwrap().1.upstream, "openai");
    let found = receiver("/v1/models", &[("x-api-key", "sk-ant-x")], &upstreams);
    assert_eq!(found.unwrap().1.upstream, "anthropic");
}

#[test]
fn an_upstream_with_a_key_of_its_own_gets_none_from_the_query() {
    for (target, sent) in [
        ("/v1/models?key=AIzaX", "/v1/models"),
        ("/v1/models?a=%2F&key=k&b", "/v1/models?a=%2F&b"),
        ("/v1/models?%6bey=k", "/v1/models"),
        ("/v1/models?x=sk-ant-y", "/v1/models"),
        ("/v1/models?a=%2F&monkey=1", "/v1/models?a=%2F&monkey=1"),
        ("/v1/models", "/v1/models"),
    ] {
        assert_eq!(without_credentials(target.to_owned()), sent, "{target}");
    }
}

#[test]
fn the_id_in_a_target_is_found() {
    assert_eq!(
        stored_response("/v1/responses/resp_1"),
        Some(("/v1/responses/", "resp_1", ""))
    );
    let items = "/v1/responses/resp_1/input_items?limit=2";
    assert_eq!(
        stored_response(items),
        Some(("/v1/responses/", "resp_1", "/input_items?limit=2"))
    );
    assert_eq!(stored_response("/v1/responses/resp_1/responses/resp_2"), None);
    assert_eq!(stored_response("/v1/x/responses/resp_1/y/resp_2"), None);
    assert_eq!(stored_response("/v1/responses/compact"), None);
    assert_eq!(stored_response("/v1/files/resp_1"), None);
    assert_eq!(stored_response("/v1/files?x=/responses/resp_1"), None);
}
