//! Slow agents: with a body, with a head, or with nothing at all.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::proxy::testing::{Act, Proxy, Script, config, ok, small_steps};
use crate::state::config::{ClientKey, Secret};

/// Longer than the limit for a head on a connection that closes after its response.
const IDLE: Duration = Duration::from_secs(31);
/// Longer than the limit for the heads in this test.
const HEADS: Duration = Duration::from_secs(60);

/// Writes a byte now and then until the proxy answers or closes, and returns the response.
async fn dripping(mut agent: TcpStream, first: &[u8], then: &[u8]) -> (Duration, Vec<u8>) {
    let start = Instant::now();
    agent.write_all(first).await.unwrap();
    let mut got = Vec::new();
    let (mut read, mut write) = agent.split();
    let drip = async {
        for byte in then.iter().cycle() {
            tokio::time::sleep(Duration::from_millis(60)).await;
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let answer = async {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = read.read(&mut piece).await {
            got.extend_from_slice(&piece[..n]);
        }
    };
    tokio::select! {
        () = drip => {}
        done = tokio::time::timeout(HEADS, answer) => done.expect("it is kept for ever"),
    }
    (start.elapsed(), got)
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_give_their_places_back() {
    small_steps();
    let upstream = Script::start(vec![Act::Answer(ok("{}"))]).await;
    let mut config = config(&upstream.url);
    config.limits.max_concurrent_requests = 2;
    let proxy = Proxy::start(config);
    for path in ["/v1/messages", "/v1/files"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{{");
        let slow = |_| async {
            let agent = TcpStream::connect(proxy.addr).await.unwrap();
            dripping(agent, head.as_bytes(), b" ").await
        };
        let (all, full) = tokio::join!(futures_util::future::join_all((0..2).map(slow)), async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.post("/v1/messages", "", b"{}").await
        });
        assert!(full.contains("x-baton-error: overloaded"), "{full}");
        for (took, got) in all {
            let got = String::from_utf8_lossy(&got);
            assert!(
                got.starts_with("HTTP/1.1 408") && got.contains("x-baton-error: body_timeout"),
                "{path} after {took:?}: {got}"
            );
        }
        let got = proxy.post(path, "", b"{}").await;
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_the_rate_may_take_long() {
    small_steps();
    let (_, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    for path in ["/v1/messages", "/v1/files"] {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 8000\r\n\r\n");
        let mut agent = proxy.send(head).await;
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            agent.write_all(&[b' '; 200]).await.unwrap();
        }
        let mut got = String::new();
        agent.read_to_string(&mut got).await.unwrap();
        assert!(got.starts_with("HTTP/1.1 200"), "{path}: {got}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_heads_are_closed() {
    small_steps();
    let free = Proxy::start(config("http://127.0.0.1:9"));
    let mut config = config("http://127.0.0.1:9");
    // At so low a limit, every connection closes after its response.
    config.limits.max_connections = 1;
    let crowded = Proxy::start(config);
    let table: &[(&str, &[u8], &[u8])] = &[
        ("a byte of a line now and then", b"GET / HTTP/1.1\r\nx: ", b"x"),
        ("a line now and then", b"GET / HTTP/1.1\r\n", b"x:\r\n"),
        ("half a method", b"P", b""),
        ("nothing", b"", b""),
        ("another protocol", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0"),
    ];
    for (what, first, then) in table {
        for proxy in [&free, &crowded] {
            let agent = TcpStream::connect(proxy.addr).await.unwrap();
            let (took, got) = dripping(agent, first, then).await;
            assert!(!got.starts_with(b"HTTP/1.1 2"), "{what}: {took:?}");
        }
    }
}

/// Otherwise a refused request would keep its connection for the time that agents with a key have between two.
#[tokio::test(start_paused = true)]
async fn whoever_has_no_key_keeps_no_connection() {
    small_steps();
    let mut config = config("http://127.0.0.1:9");
    config.clients.push(ClientKey {
        name: "ada".to_owned(),
        key: Some(Secret::new("0123456789abcdef")),
        ..ClientKey::default()
    });
    let proxy = Proxy::start(config);
    let agent = TcpStream::connect(proxy.addr).await.unwrap();
    let request = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: wrong\r\n\r\n";
    let (_, got) = dripping(agent, request, b"GET / HTTP/1.1\r\n").await;
    assert!(got.starts_with(b"HTTP/1.1 401"), "{}", got.escape_ascii());
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_kept_longer_than_a_head_may_take() {
    small_steps();
    let (_, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let mut agent = TcpStream::connect(proxy.addr).await.unwrap();
    for _ in 0..2 {
        agent
            .write_all(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut piece = [0; 4096];
        let n = agent.read(&mut piece).await.unwrap();
        assert!(piece[..n].starts_with(b"HTTP/1.1 200"));
        tokio::time::sleep(IDLE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_take_its_answer_gives_its_place_back() {
    small_steps();
    let upstream = Script::start(vec![Act::Answer(ok(&"x".repeat(64 << 20)))]).await;
    let mut config = config(&upstream.url);
    config.limits.max_concurrent_requests = 1;
    let proxy = Proxy::start(config);
    let mut agent = proxy.send("GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut piece = [0; 4096];
    assert!(agent.read(&mut piece).await.unwrap() > 0);
    assert_eq!(proxy.gateway.free_exchanges(), 0);
    for _ in 0..100 {
        if proxy.gateway.free_exchanges() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("its place is kept for ever");
}
