//! Named upstreams, from the config's text to the provider's view, and requests that must not be changed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_llm::state::config::{Config, Environment, Flags};
use baton_strict::{Options, Queue, Reply, Strict};
use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{handoff, history, said};
use crate::harness::{AgentWire, Baton, RawResponse, memory};

struct Setup {
    script: Queue,
    provider: Strict,
    baton: Baton,
}

impl Setup {
    /// Starts the proxy with this config, in which `{url}` is the provider's URL.
    async fn new(config: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Queue::new(replies);
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let text = format!(
            "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\nserver.drain_secs = 0\n{}",
            config.replace("{url}", &provider.url())
        );
        let environment: Environment = [("THEIR_KEY", "from-env"), ("TEAM", "research")]
            .into_iter()
            .collect();
        let config = Config::from_text(Some(("test.toml", &text)), &environment, &Flags::default());
        let baton = Baton::start(config.unwrap_or_else(|e| panic!("{e:?}")), memory());
        Self {
            script,
            provider,
            baton,
        }
    }

    async fn post(&self, path: &str, body: &Value) -> RawResponse {
        let headers = [
            ("authorization", "Bearer agents"),
            ("x-api-key", "agents"),
            ("anthropic-version", "2023-06-01"),
        ];
        self.baton.post(path, &headers, body.to_string().into()).await
    }
}

fn chat(stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({
        "model": "m", "stream": stream, "messages": history(),
        "tools": [{"type": "function", "function": {"name": "read_file", "parameters": schema}}],
    })
}

#[tokio::test]
async fn a_named_upstream_has_its_path_prefix_its_headers_and_its_key_from_the_environment() {
    let config = "[upstreams.router]\nbase_url = '{url}/api/'\nwire = 'openai_chat'\napi_key = { env = 'THEIR_KEY' }\n\
                  headers = { 'x-team' = { env = 'TEAM' }, 'HTTP-Referer' = 'https://example.com' }";
    let place = Setup::new(config, [handoff(), Reply::text("Fresh.")]).await;
    let response = place
        .post("/u/router/v1/chat/completions?a=%2F", &chat(true))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(response.text().contains("[[handoff-resume:") && response.text().contains("Fresh."));
    let legs = place.provider.generations();
    assert_eq!(legs.len(), 2);
    for leg in legs {
        assert_eq!(leg.path, "/api/v1/chat/completions?a=%2F");
        assert_eq!(leg.header("authorization"), Some("Bearer from-env"));
        assert_eq!(leg.header("x-team"), Some("research"));
        assert_eq!(leg.header("http-referer"), Some("https://example.com"));
        assert!(!format!("{:?}", leg.headers).contains("agents"));
    }
    assert_eq!(place.provider.complaints(), []);
}

#[tokio::test]
async fn the_key_is_in_the_header_that_the_vendor_expects() {
    let config = "[upstreams.azure]\nbase_url = '{url}'\napi_key = { env = 'THEIR_KEY' }\n\
                  [upstreams.vertex]\nbase_url = '{url}/v1'\napi_key = { env = 'THEIR_KEY' }";
    let place = Setup::new(config, [Reply::text("a"), Reply::text("b")]).await;
    let response = place
        .post("/openai/deployments/d/chat/completions", &chat(false))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let mut claude = Anthropic.body(&history(), false);
    claude.as_object_mut().unwrap().remove("model");
    claude["anthropic_version"] = json!("vertex-2023-10-16");
    let path = "/projects/p/locations/l/publishers/anthropic/models/claude:rawPredict";
    let response = place.post(path, &claude).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let seen = place.provider.generations();
    let keys = |name| seen.iter().map(|s| s.header(name)).collect::<Vec<_>>();
    assert_eq!(keys("api-key"), [Some("from-env"), None]);
    assert_eq!(keys("authorization"), [None, Some("Bearer from-env")]);
    assert_eq!(keys("x-api-key"), [None, None]);
}

#[tokio::test]
async fn the_configured_wire_applies_where_the_path_does_not_identify_one() {
    let config = "[upstreams.bricks]\nbase_url = '{url}'\nwire = 'openai_chat'";
    let place = Setup::new(config, []).await;
    // The provider has no such path. Only the request that it received matters.
    place
        .post("/u/bricks/serving-endpoints/m/invocations", &chat(false))
        .await;
    let seen = place.provider.requests().pop().unwrap();
    assert!(String::from_utf8_lossy(&seen.raw).contains("session_handoff"));
    place.post("/u/bricks/v1/other", &chat(false)).await;
    let seen = place.provider.requests().pop().unwrap();
    assert_eq!(seen.raw, chat(false).to_string().as_bytes());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_upstream_that_accepts_no_connection_times_out() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    // Nobody accepts: once the backlog is full, connections hang.
    let mut waiting = Vec::new();
    loop {
        let connecting = tokio::net::TcpStream::connect(addr);
        match tokio::time::timeout(Duration::from_millis(200), connecting).await {
            Ok(connected) => waiting.push(connected),
            Err(_) => break,
        }
    }
    let config = format!("[upstreams.full]\nbase_url = 'http://{addr}'\nconnect_secs = 0.3");
    let place = Setup::new(&config, []).await;
    let begun = Instant::now();
    let response = place.post("/u/full/v1/responses", &json!({"input": "x"})).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(response.header("x-baton-error"), Some("upstream_connect_timeout"));
    assert_eq!(response.status, 504);
}

#[tokio::test]
async fn an_unknown_name_is_a_404_in_the_shape_of_the_wire() {
    let place = Setup::new("", []).await;
    let table = [
        ("/u/gone/v1/messages", "/error/type", json!("not_found_error")),
        (
            "/u/gone/v1/chat/completions",
            "/error/code",
            json!("unknown_upstream"),
        ),
        ("/u/gone/v1/responses", "/error/code", json!("unknown_upstream")),
        (
            "/u/gone/v1beta/models/g:generateContent",
            "/error/status",
            json!("NOT_FOUND"),
        ),
        (
            "/u/gone/v1internal:generateContent",
            "/error/status",
            json!("NOT_FOUND"),
        ),
    ];
    for (path, at, value) in table {
        let response = place.post(path, &json!({})).await;
        assert_eq!(
            (response.status, response.header("x-baton-error")),
            (404, Some("unknown_upstream")),
            "{path}"
        );
        assert_eq!(response.json().pointer(at), Some(&value), "{path}");
    }
    let response = place.post("/u/gone/api/chat", &json!({})).await;
    assert!(response.json()["error"].as_str().unwrap().contains("no upstream"));
    assert!(place.provider.requests().is_empty());
}

/// A port of the vendors' hosts where nobody listens, so that nothing leaves even if the refusal is missing.
const UNREACHABLE_VENDORS: &str = "[upstreams.openai]\nbase_url = 'https://api.openai.com:1'\nconnect_secs = 0.1\n\
    [upstreams.anthropic]\nbase_url = 'https://api.anthropic.com:1'\nconnect_secs = 0.1\n\
    [upstreams.gemini]\nbase_url = 'https://generativelanguage.googleapis.com:1'\nconnect_secs = 0.1\n\
    [upstreams.gateway]\nbase_url = '{url}'";

#[tokio::test]
async fn a_credential_of_another_vendor_is_refused_in_the_shape_of_the_wire() {
    let place = Setup::new(UNREACHABLE_VENDORS, []).await;
    let anthropic = [("x-api-key", "sk-ant-api03-x")];
    let openai = [("authorization", "Bearer sk-proj-x")];
    let table = [
        (
            "/v1/chat/completions",
            anthropic,
            "/error/code",
            json!("other_vendor"),
        ),
        ("/v1/responses", anthropic, "/error/code", json!("other_vendor")),
        ("/model/m/invoke", openai, "/error/code", json!("other_vendor")),
        (
            "/v1/messages",
            openai,
            "/error/type",
            json!("invalid_request_error"),
        ),
        (
            "/v1beta/models/g:generateContent",
            openai,
            "/error/code",
            json!(421),
        ),
    ];
    for (path, headers, at, value) in table {
        let response = place.baton.post(path, &headers, "{}".into()).await;
        assert_eq!(
            (response.status, response.header("x-baton-error")),
            (421, Some("other_vendor")),
            "{path}: {}",
            response.text()
        );
        assert_eq!(response.json().pointer(at), Some(&value), "{path}");
        assert!(
            response.text().contains("/u/NAME") && !response.text().contains("sk-"),
            "{path}"
        );
    }
    let named = place
        .baton
        .post("/u/gateway/v1/chat/completions", &anthropic, "{}".into());
    assert_ne!(named.await.status, 421);
    assert_eq!(place.provider.requests().len(), 1);
}

#[tokio::test]
async fn with_a_key_of_its_own_an_upstream_gets_no_key_from_the_query() {
    let config = "[upstreams.gemini]\nbase_url = '{url}'\napi_key = { env = 'THEIR_KEY' }";
    let place = Setup::new(config, []).await;
    place
        .post(
            "/v1beta/models/g:countTokens?key=AIzaOfTheAgent&alt=json",
            &json!({}),
        )
        .await;
    let seen = place.provider.requests().pop().unwrap();
    assert_eq!(seen.path, "/v1beta/models/g:countTokens?alt=json");
    assert_eq!(seen.header("x-goog-api-key"), Some("from-env"));
}

/// Collects the log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, with: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        all.lines()
            .filter(|l| l.contains(with))
            .map(str::to_owned)
            .collect()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_signed_body_is_relayed_unchanged_and_the_log_says_why_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let config = "[upstreams.bedrock]\nbase_url = '{url}'\n[upstreams.mantle]\nbase_url = '{url}/anthropic'";
    let place = Setup::new(config, [handoff(), handoff(), handoff()]).await;
    let signature = "AWS4-HMAC-SHA256 Credential=AKIA/20261122/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=f00d";
    let signed = [
        ("authorization", signature),
        ("x-amz-date", "20261122T010000Z"),
        ("x-amz-content-sha256", "e3b0c442"),
        ("anthropic-version", "2023-06-01"),
    ];
    let body = Bytes::from(format!(" {} ", Anthropic.body(&history(), false)));
    for _ in 0..2 {
        let response = place
            .baton
            .post("/u/mantle/v1/messages", &signed, body.clone())
            .await;
        let message = Anthropic.parse(&response.raw, false, false).unwrap();
        assert_eq!(said(&message), ["Done with that."]);
        assert!(
            response.text().contains("session_handoff"),
            "the answer is relayed, too"
        );
        let seen = place.provider.requests().pop().unwrap();
        assert_eq!(seen.raw, body);
        for (name, value) in signed {
            assert_eq!(seen.header(name), Some(value));
        }
    }
    for path in ["invoke", "invoke-with-response-stream", "converse-stream"] {
        let path = format!("/model/us.anthropic.claude-v1%3A0/{path}");
        let bearer = [("authorization", "Bearer bedrock-key")];
        let response = place.baton.post(&path, &bearer, body.clone()).await;
        assert_eq!((response.status, &response.raw[..]), (200, &body[..]));
        assert_eq!(place.provider.requests().pop().unwrap().path, path);
    }
    // A body without a signature is rewritten like any other.
    let open = [
        ("authorization", signature),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("anthropic-version", "2023-06-01"),
    ];
    place.script.push(Reply::text("Fresh."));
    place.baton.post("/u/mantle/v1/messages", &open, body).await;
    assert!(place.provider.generations().pop().unwrap().offers_handoff());

    let lines = log.lines("relayed unchanged");
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("upstream=\"mantle\"") && lines[0].contains("signed"));
    assert!(lines[1].contains("upstream=\"bedrock\"") && lines[1].contains("Messages API"));
    assert!(log.lines("f00d").is_empty() && log.lines("bedrock-key").is_empty());
}
