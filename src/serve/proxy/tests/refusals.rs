//! baton's error responses, in the shape of each wire.

use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::proxy::testing::{Act, Proxy, Script, config, ok};
use crate::state::telemetry::ExchangeOutcome;

async fn unused_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn json(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn an_unreachable_upstream_is_a_502_of_the_wire() {
    let proxy = Proxy::start(config(&unused_port().await));
    let table = [
        ("/v1/messages", "/error/type", "api_error"),
        ("/v1/chat/completions", "/error/code", "upstream_unreachable"),
        ("/v1/responses", "/error/type", "server_error"),
        ("/v1beta/models/m:generateContent", "/error/status", "UNAVAILABLE"),
        ("/v1/files", "/error/code", "upstream_unreachable"),
    ];
    for (path, place, value) in table {
        let got = proxy.post(path, "", b"{}").await;
        assert!(got.starts_with("HTTP/1.1 502"), "{got}");
        assert!(got.contains("x-baton-error: upstream_unreachable\r\n"), "{got}");
        assert!(!got.contains("x-should-retry"), "{got}");
        assert_eq!(json(&got).pointer(place).unwrap(), value);
    }
    for event in proxy.events(table.len()).await {
        assert_eq!((event.outcome, event.status), (ExchangeOutcome::Refused, 502));
    }
}

#[tokio::test]
async fn an_unknown_header_for_baton_is_a_400_of_the_wire() {
    let proxy = Proxy::start(config(&unused_port().await));
    for (path, place) in [
        ("/v1/messages", "/error/message"),
        ("/v1/files", "/error/message"),
        ("/v1beta/models/m:generateContent", "/error/message"),
        ("/api/chat", "/error"),
    ] {
        let got = proxy.post(path, "x-baton-budgets: 5\r\n", b"{}").await;
        assert!(got.starts_with("HTTP/1.1 400"), "{path}: {got}");
        assert!(got.contains("x-baton-error: unknown_header\r\n"), "{got}");
        let message = json(&got);
        let message = message.pointer(place).and_then(|message| message.as_str());
        assert!(
            message.unwrap().contains("did you mean `x-baton-budget`?"),
            "{got}"
        );
    }
}

#[tokio::test]
async fn faults_before_an_answer_are_distinct() {
    let plain = Script::start(vec![Act::Close]).await;
    let silent = Script::start(vec![Act::Hang("".into())]).await;
    let babbler = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_tls = format!("https://{}", babbler.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = babbler.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let table = [
        ("http://baton.invalid".to_owned(), "upstream_dns", 502),
        (no_tls, "upstream_tls", 502),
        (plain.url.clone(), "upstream_closed", 502),
        (silent.url.clone(), "upstream_silent", 504),
    ];
    for (url, code, status) in table {
        let mut config = config(&url);
        let openai = config.upstreams.get_mut("openai").unwrap();
        (openai.connect, openai.idle) = match code {
            "upstream_silent" => (Duration::from_millis(100), Duration::from_millis(100)),
            _ => (Duration::from_secs(20), Duration::from_secs(20)),
        };
        let proxy = Proxy::start(config);
        for path in ["/v1/chat/completions", "/v1/files"] {
            let got = proxy.post(path, "", b"{}").await;
            assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{got}");
            assert!(
                got.contains(&format!("x-baton-error: {code}\r\n")),
                "{url}: {got}"
            );
        }
    }
}

/// WebSocket requests of agents, as of 2026-11-23.
///
/// Those of Codex 0.169.0 with its built-in provider, and of OpenCode 1.18.33 with
/// `OPENCODE_EXPERIMENTAL_WEBSOCKETS=true`.
const UPGRADES: [&str; 2] = [
    "Host: 127.0.0.1:19804\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: gWj1aVYtQPNy12bq93Gf7Q==\r\nauthorization: Bearer sk-test\r\n\
     user-agent: codex_exec/0.169.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.169.0)\r\noriginator: codex_exec\r\n\
     openai-beta: responses_websockets=2026-02-06\r\nversion: 0.169.0\r\nx-codex-beta-features: remote_compaction_v2\r\n\
     sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n",
    "Host: 127.0.0.1:19804\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\
     Sec-WebSocket-Key: qgSq9o74QnWiv6HAWrKeiw==\r\nAuthorization: Bearer sk-test\r\nContent-Type: application/json\r\n\
     User-Agent: opencode/1.18.33 (linux; x64) ai-sdk/provider-utils/4.0.40 runtime/bun/1.3.14\r\n\
     openai-beta: responses_websockets=2026-02-06\r\noriginator: opencode\r\n",
];

/// Sends a head, and returns what is answered within a second.
async fn answered_at_once(proxy: &Proxy, head: &str) -> String {
    let mut agent = proxy.send(head).await;
    let mut piece = [0; 1024];
    let read = tokio::time::timeout(Duration::from_secs(1), agent.read(&mut piece));
    let n = read.await.unwrap().unwrap();
    String::from_utf8_lossy(&piece[..n]).into_owned()
}

#[tokio::test]
async fn a_request_without_a_host_is_refused_before_its_body() {
    let proxy = Proxy::start(config(&unused_port().await));
    let head = "POST /v1/messages HTTP/1.1\r\ncontent-length: 10\r\n\r\n";
    let got = answered_at_once(&proxy, head).await;
    assert!(got.starts_with("HTTP/1.1 400"), "{got}");
}

/// The response comes at once, no upstream is contacted (nothing listens at its address), and nothing has failed.
#[tokio::test]
async fn a_websocket_is_refused_at_once_so_that_agents_fall_back() {
    let proxy = Proxy::start(config(&unused_port().await));
    for head in UPGRADES {
        let upgrade = format!("GET /v1/responses HTTP/1.1\r\n{head}\r\n");
        let got = answered_at_once(&proxy, &upgrade).await;
        assert!(
            got.starts_with("HTTP/1.1 426") && got.contains("x-should-retry: false"),
            "{got}"
        );
    }
    let got = proxy.post("/u/gone/v1/messages", "", b"{}").await;
    assert!(got.starts_with("HTTP/1.1 404"), "{got}");
    let events = proxy.events(1).await;
    assert_eq!((events.len(), events[0].status), (1, 404));
}

#[tokio::test]
async fn forward_proxying_and_traces_are_refused() {
    let proxy = Proxy::start(config(&unused_port().await));
    // TRACE would send the proxy's key back.
    for line in ["CONNECT a:443", "TRACE /v1/messages"] {
        let got = proxy
            .raw(format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
            .await;
        assert!(got.starts_with("HTTP/1.1 405"), "{line}: {got}");
    }
}

/// A request that upstream has received but does not answer.
async fn hanging(proxy: &Proxy, upstream: &Script) -> TcpStream {
    let agent = proxy.send("GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n").await;
    while upstream.received().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    agent
}

#[tokio::test]
async fn too_many_at_once_is_a_503_with_a_time() {
    let upstream = Script::start(vec![Act::Hang("".into())]).await;
    let mut config = config(&upstream.url);
    config.limits.max_concurrent_requests = 1;
    let proxy = Proxy::start(config);
    let first = hanging(&proxy, &upstream).await;
    let got = proxy.post("/v1/messages", "", b"{}").await;
    assert!(
        got.starts_with("HTTP/1.1 503") && got.contains("retry-after: 2\r\n"),
        "{got}"
    );
    assert_eq!(json(&got)["error"]["type"], "overloaded_error");
    drop(first);
    proxy.events(2).await;
    assert_eq!(proxy.gateway.free_exchanges(), 1);
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_held_until_there_is_a_place() {
    let upstream = Script::start(vec![Act::Hang("".into()), Act::Answer(ok("{}"))]).await;
    let mut config = config(&upstream.url);
    config.limits.max_concurrent_requests = 1;
    config.limits.waits.place = Duration::from_secs(60);
    let proxy = Proxy::start(config);
    let first = hanging(&proxy, &upstream).await;
    let mut held = Box::pin(proxy.post("/v1/messages", "connection: close\r\n", b"{}"));
    let early = tokio::time::timeout(Duration::from_millis(150), &mut held).await;
    assert!(early.is_err(), "{early:?}");
    // A request that is not admitted is refused at once.
    let refused = proxy.post("/../x", "connection: close\r\n", b"{}").await;
    assert!(refused.contains("x-baton-error: bad_target"), "{refused}");
    drop(first);
    let got = held.await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
}
