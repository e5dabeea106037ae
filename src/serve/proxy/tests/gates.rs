//! Admission of requests, and the parts of them that may go upstream.
//!
//! Covers pages of other sites, other host names, client keys, and paths that lead out of a base URL.

use pretty_assertions::assert_eq;

use crate::proxy::testing::{Act, Proxy, Script, config};
use crate::state::config::{ClientKey, Secret};

const TABLE: [(&str, &str, &str); 5] = [
    ("/v1/messages", "/error/type", "permission_error"),
    ("/v1/chat/completions", "/error/code", "CODE"),
    ("/v1/responses", "/error/code", "CODE"),
    (
        "/v1beta/models/m:generateContent",
        "/error/status",
        "PERMISSION_DENIED",
    ),
    ("/v1/files", "/error/code", "CODE"),
];

fn json(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A proxy with a configured key for every upstream, and that upstream.
async fn keyed(change: impl FnOnce(&mut crate::state::config::Config)) -> (Proxy, Script) {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    for place in config.upstreams.values_mut() {
        place.api_key = Some(Secret::new("sk-the-proxys-own"));
    }
    change(&mut config);
    (Proxy::start(config), upstream)
}

#[tokio::test]
async fn a_web_page_cannot_spend_the_proxys_key() {
    let (proxy, upstream) = keyed(|_| ()).await;
    // A rebound name, a request by the page's own script, a form without CORS, an image, and a preflight.
    let preflight = "origin: https://evil.example\r\naccess-control-request-method: POST";
    let shapes = [
        ("POST", "evil.example", "origin: http://evil.example:8787"),
        ("GET", "evil.example", "x-plain: 1"),
        ("POST", "localhost", "origin: https://evil.example"),
        ("POST", "localhost", "origin: null"),
        ("GET", "localhost", "sec-fetch-site: cross-site"),
        ("OPTIONS", "localhost", preflight),
    ];
    for (method, host, line) in shapes {
        let code = if host == "localhost" {
            "foreign_origin"
        } else {
            "foreign_host"
        };
        let lines = format!("host: {host}:8787\r\n{line}\r\n");
        for (path, place, value) in TABLE {
            let request =
                format!("{method} {path} HTTP/1.1\r\n{lines}connection: close\r\ncontent-length: 0\r\n\r\n");
            let got = proxy.raw(request).await;
            assert!(got.starts_with("HTTP/1.1 403"), "{method} {path} {lines}: {got}");
            let error = format!("x-baton-error: {code}\r\n");
            assert!(got.contains(&error), "{lines}: {got}");
            assert!(!got.contains("access-control-allow"), "{got}");
            let value = value.replace("CODE", code);
            assert_eq!(json(&got).pointer(place).unwrap(), &value, "{path}");
        }
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn agents_and_pages_of_the_config_are_let_in() {
    let page = "http://localhost:3000";
    let (proxy, upstream) = keyed(|config| {
        config.server.hosts = vec!["host.docker.internal".to_owned()];
        config.server.origins = vec![page.to_owned()];
    })
    .await;
    let table = [
        "host: localhost:8787\r\n".to_owned(),
        "host: 127.0.0.1:8787\r\nsec-fetch-mode: cors\r\n".to_owned(),
        "host: [::1]:8787\r\n".to_owned(),
        "host: host.docker.internal:8787\r\n".to_owned(),
        format!("host: localhost:8787\r\norigin: {page}\r\nsec-fetch-site: same-site\r\n"),
    ];
    for lines in &table {
        let got = proxy.get("/v1/models", lines).await;
        assert!(got.starts_with("HTTP/1.1 200"), "{lines}: {got}");
    }
    let got = proxy.raw("GET /v1/models HTTP/1.0\r\n\r\n").await;
    assert!(got.starts_with("HTTP/1.0 200"), "{got}");
    assert_eq!(upstream.received().len(), table.len() + 1);
}

const KEY: &str = "client-key-of-ada";

fn ada() -> ClientKey {
    ClientKey {
        name: "ada".to_owned(),
        key: Some(Secret::new(KEY)),
        ..ClientKey::default()
    }
}

/// Whether upstream gets ada's request.
async fn reaches(proxy: &Proxy, upstream: &Script, line: &str, lines: &str, body: &str) -> bool {
    let before = upstream.received().len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n{lines}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let got = proxy.raw(head).await;
    let is_refused = got.contains("x-baton-error: path_not_allowed");
    assert!(
        is_refused || got.starts_with("HTTP/1.1 200"),
        "{line} {lines}: {got}"
    );
    assert_eq!(
        upstream.received().len() - before,
        usize::from(!is_refused),
        "{line}"
    );
    !is_refused
}

/// A server of this network asks for no key, so its own paths would be open to every client.
#[tokio::test]
async fn clients_reach_only_models_of_a_server_of_this_network() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    let local = config.upstreams["openai"].clone();
    config.upstreams.insert("ollama".to_owned(), local);
    let alone = Proxy::start(config.clone());
    config.clients = vec![ada()];
    let shared = Proxy::start(config);
    for (line, expected) in [
        ("POST /api/chat", true),
        ("GET /api/tags", true),
        ("GET /api/ps", true),
        ("POST /api/show", true),
        ("GET /u/openai/v1/models", true),
        ("DELETE /u/ollama/api/delete", false),
        ("POST /u/ollama/api/pull", false),
        ("POST /u/ollama/api/push", false),
        ("POST /u/ollama/api/create", false),
        ("POST /u/ollama/api/blobs/sha256:aa", false),
        ("POST /u/openai/v1/load_lora_adapter", false),
        ("POST /u/openai/v1/chat/completions", true),
        ("POST /u/openai/admin/v1/chat/completions", false),
        ("POST /u/openai/v1/files/v1/messages", false),
    ] {
        let body = r#"{"model":"m","messages":[]}"#;
        assert_eq!(
            reaches(&shared, &upstream, line, "", body).await,
            expected,
            "{line}"
        );
        assert!(reaches(&alone, &upstream, line, "", body).await, "{line}");
    }
}

/// With the proxy's key, no header of a client may keep its request unread and uncounted.
#[tokio::test]
async fn no_header_keeps_a_clients_request_unread() {
    let (proxy, upstream) = keyed(|config| config.clients = vec![ada()]).await;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    let headers = [
        "content-md5: x",
        "content-digest: sha-256=:x:",
        "signature-input: x",
        "x-amz-content-sha256: x\r\nx-amz-date: x",
    ];
    for (at, line) in headers.into_iter().enumerate() {
        let lines = format!("{line}\r\n");
        assert!(reaches(&proxy, &upstream, "POST /v1/messages", &lines, body).await);
        let (head, _) = upstream.received().pop().unwrap();
        assert!(
            !head.contains(": x\r\n") && head.contains("sk-the-proxys-own"),
            "{head}"
        );
        let event = proxy.events(at + 1).await.pop().unwrap();
        assert_eq!(event.model.as_deref(), Some("m"), "{line}: it was read");
    }
}

/// A body that cannot be read cannot be counted either.
#[tokio::test]
async fn a_client_with_a_budget_sends_no_unreadable_body() {
    for (dollars, expected) in [(0, true), (1_000_000, false)] {
        let (proxy, upstream) = keyed(|config| {
            let mut ada = ada();
            ada.brake.day.microdollars = dollars;
            config.clients = vec![ada];
        })
        .await;
        let twice = r#"{"model":"m","model":"m","max_tokens":9,"messages":[]}"#;
        for (lines, body) in [
            ("content-encoding: x\r\n", "x"),
            ("content-encoding: gzip, gzip\r\n", "x"),
            ("", "x"),
            ("", twice),
        ] {
            let reached = reaches(&proxy, &upstream, "POST /v1/messages", lines, body).await;
            assert_eq!(reached, expected, "{lines} {body}");
        }
    }
}

#[tokio::test]
async fn a_client_key_in_two_places_reaches_nobody() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.clients = vec![ada()];
    for place in config.upstreams.values_mut() {
        place.paths = vec!["*".to_owned()];
    }
    let proxy = Proxy::start(config);
    let paths = [
        "/v1/messages",
        "/v1/chat/completions",
        "/v1beta/models/m:generateContent",
        "/v1/files",
    ];
    let twice = [
        format!("x-api-key: {KEY}\r\nauthorization: Bearer {KEY}\r\n"),
        format!("x-api-key: {KEY}\r\nx-api-key: {KEY}\r\nx-goog-api-key: {KEY}\r\n"),
        format!("authorization: Bearer {KEY}\r\ncookie: a={KEY}\r\nx-litellm-key: {KEY}\r\n"),
    ];
    for path in paths {
        for lines in &twice {
            let target = format!("{path}?alt=sse&key={KEY}&x=client%2Dkey-of-ada");
            let got = proxy.post(&target, &format!("{lines}x-kept: 1\r\n"), b"{}").await;
            assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        }
    }
    let received = upstream.received();
    assert_eq!(received.len(), paths.len() * twice.len());
    for (head, _) in received {
        assert!(!head.contains("of-ada") && head.contains("x-kept: 1"), "{head}");
        assert!(
            head.lines().next().unwrap().ends_with("?alt=sse HTTP/1.1"),
            "{head}"
        );
    }
    let got = proxy.post(&format!("/u/openai/{KEY}"), &twice[0], b"{}").await;
    assert!(
        got.contains("x-baton-error: bad_target") && !got.contains(KEY),
        "{got}"
    );
}

/// Some servers quote the key that they refuse.
#[tokio::test]
async fn an_upstreams_error_does_not_show_the_proxys_key() {
    let own = "sk-the-proxys-own";
    let error = format!(r#"{{"error":{{"message":"invalid key: {own}"}}}}"#);
    let refusals = [400, 401, 429, 500].map(|status| {
        let (kind, length) = ("content-type: application/json", error.len());
        let head =
            format!("HTTP/1.1 {status} x\r\n{kind}\r\nx-key: {own}\r\ncontent-length: {length}\r\n\r\n");
        Act::Answer(format!("{head}{error}").into())
    });
    for refusal in refusals {
        let upstream = Script::start(vec![refusal]).await;
        let mut config = config(&upstream.url);
        config.clients = vec![ada()];
        for place in config.upstreams.values_mut() {
            place.api_key = Some(Secret::new(own));
            place.paths = vec!["/v1/files".to_owned()];
        }
        let proxy = Proxy::start(config);
        let body = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
        for path in ["/v1/messages", "/v1/chat/completions", "/v1/files"] {
            let got = proxy.post(path, &format!("x-api-key: {KEY}\r\n"), body).await;
            assert!(!got.contains(own), "{path}: {got}");
            assert!(got.contains("invalid key: [redacted:own-key]"), "{path}: {got}");
        }
    }
}
