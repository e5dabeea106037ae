//! Agents that take their time: with a body, with a head, with nothing at all.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::proxy::testing::{Act, Proxy, Script, config, ok, small_steps};

/// Longer than a head may take on a connection that is closed after it.
const IDLE: Duration = Duration::from_secs(31);
/// A wait that no agent of these tests reaches.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for heads, which have 30 seconds, and on HTTP/2 as long as a ping and the wait for its answer take.
const HEADS: Duration = Duration::from_secs(60);

/// Writes a byte now and then until the proxy answers or closes; returns the response.
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
    config.limits.exchanges = 2;
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

#[tokio::test]
async fn slow_bodies_over_http2_give_their_places_back() {
    let upstream = Script::saying("{}").await;
    let proxy = Proxy::start(config(&upstream.url));
    let stream = TcpStream::connect(proxy.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for path in ["/v1/messages", "/v1/files"] {
        let drops = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b" "))), ()))
        });
        let request = Request::post(format!("http://localhost{path}")).body(StreamBody::new(Box::pin(drops)));
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request.unwrap()));
        let response = response.await.expect("it is kept for ever").unwrap();
        assert_eq!(response.status(), 408, "{path}");
        response.into_body().collect().await.unwrap();
    }
    assert_eq!(proxy.gateway.free_exchanges(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_the_rate_may_take_long() {
    small_steps();
    let upstream = Script::saying("{}").await;
    let proxy = Proxy::start(config(&upstream.url));
    for path in ["/v1/messages", "/v1/files"] {
        let mut agent = TcpStream::connect(proxy.addr).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 8000\r\n\r\n");
        agent.write_all(head.as_bytes()).await.unwrap();
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
    let mut config = config("http://127.0.0.1:9");
    // With so few, every connection is closed after its answer, and its head has little time.
    config.limits.connections = 1;
    let proxy = Proxy::start(config);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].as_slice();
    // HEADERS of one byte without END_HEADERS, and a header of a CONTINUATION that never ends.
    let open = [0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82].as_slice();
    let (h2, block) = ([preface, settings].concat(), [preface, settings, open].concat());
    let table: &[(&str, &[u8], &[u8])] = &[
        ("a byte of a line now and then", b"GET / HTTP/1.1\r\nx: ", b"x"),
        ("a line now and then", b"GET / HTTP/1.1\r\n", b"x:\r\n"),
        ("the start of either version", b"P", b""),
        ("nothing", b"", b""),
        ("half a preface", &preface[..9], b""),
        ("half a frame's header", &[h2.as_slice(), &[0, 0]].concat(), b""),
        ("a block of headers", &block, b""),
        (
            "a block of headers that goes on",
            &block,
            &[0, 0, 0, 9, 0, 0, 0, 0, 1],
        ),
    ];
    for (what, first, then) in table {
        let agent = TcpStream::connect(proxy.addr).await.unwrap();
        let (took, got) = dripping(agent, first, then).await;
        assert!(!got.starts_with(b"HTTP/1.1 2"), "{what}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_kept_longer_than_a_head_may_take() {
    small_steps();
    let upstream = Script::saying("{}").await;
    let proxy = Proxy::start(config(&upstream.url));
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
    let stream = TcpStream::connect(proxy.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = Request::get("http://localhost/v1/models")
            .body(String::new())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap();
        tokio::time::sleep(IDLE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_take_its_answer_gives_its_place_back() {
    small_steps();
    let upstream = Script::start(vec![Act::Answer(ok(&"x".repeat(64 << 20)))]).await;
    let mut config = config(&upstream.url);
    config.limits.exchanges = 1;
    let proxy = Proxy::start(config);
    let mut agent = TcpStream::connect(proxy.addr).await.unwrap();
    agent
        .write_all(b"GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
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

#[tokio::test(start_paused = true)]
async fn an_http2_agent_that_does_not_take_its_answer_gives_its_place_back() {
    small_steps();
    let upstream = Script::saying(&"x".repeat(1 << 20)).await;
    let mut config = config(&upstream.url);
    config.limits.exchanges = 1;
    let proxy = Proxy::start(config);
    // A window of nothing; and one that takes something, after which its agent opens it no more.
    for window in [0, 60_000] {
        let stream = TcpStream::connect(proxy.addr).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = |path: &str| {
            let request = Request::get(format!("http://localhost{path}"));
            request.body(String::new()).unwrap()
        };
        let untaken = sender.send_request(request("/v1/files")).await.unwrap();
        assert_eq!(untaken.status(), 200);
        assert_eq!(proxy.gateway.free_exchanges(), 0);
        let start = Instant::now();
        while proxy.gateway.free_exchanges() == 0 {
            assert!(start.elapsed() < PATIENCE, "its place is kept for ever");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Its stream alone was reset.
        let next = sender.send_request(request("/v1/files")).await.unwrap();
        assert_eq!(next.status(), 200);
        drop((untaken, next));
    }
}

#[tokio::test(start_paused = true)]
async fn an_http2_agent_may_wait_long_for_its_answer() {
    small_steps();
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n";
    let upstream = Script::start(vec![Act::Hang(begun.into())]).await;
    let proxy = Proxy::start(config(&upstream.url));
    let stream = TcpStream::connect(proxy.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://localhost/v1/files").body(String::new());
    let response = sender.send_request(request.unwrap()).await.unwrap();
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let stalled = proxy.app.config.limits.waits.stalled;
    let more = tokio::time::timeout(stalled * 3 / 2, body.frame()).await;
    // It is upstream that is waited for, under a bound of its own.
    assert!(more.is_err(), "{more:?}");
}
