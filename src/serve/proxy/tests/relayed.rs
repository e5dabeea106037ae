//! Relayed requests and responses, and disconnects of either side.

use std::time::Duration;

use bytes::Bytes;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::proxy::fault::{Code, Fault};
use crate::proxy::testing::{Act, Proxy, Script, config, ok};
use crate::proxy::upload::RopeBody;
use crate::state::telemetry::ExchangeOutcome;

fn head_and_body(answer: &str) -> (&str, &str) {
    answer.split_once("\r\n\r\n").unwrap()
}

#[tokio::test]
async fn a_relayed_exchange_is_byte_for_byte() {
    let answer = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nX-Request-Id: r\r\n\
                  Set-Cookie: b=2\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nContent-Length: 13\r\n\r\n<html>no</htm";
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(answer.into())]).await;
    let lines = "X-Api-Key: k\r\nConnection: x-agent-hop\r\nX-Agent-Hop: 1\r\nCookie: c\r\nAccept-Encoding: br\r\n\
                 x-twice: 1\r\nx-baton-handoff: off\r\nX-Twice: 2\r\n";
    let body = b"{ \"a\" : 1.0e5 ,\n\t\"b\":\"\\u00e9\"}";
    let got = proxy.post("/v1/files?x=%2f%2F&beta=true", lines, body).await;

    let (head, text) = head_and_body(&got);
    assert_eq!(text, "<html>no</htm");
    let own = ["x-baton-exchange: ", "date:"];
    let lines = head
        .lines()
        .filter(|line| !own.iter().any(|own| line.starts_with(own)));
    assert_eq!(
        lines.collect::<Vec<_>>().join("\n"),
        "HTTP/1.1 404 Not Found\ncontent-type: text/html\nset-cookie: a=1\nset-cookie: b=2\nx-request-id: r\n\
         content-length: 13\nconnection: close"
    );
    let (sent, sent_body) = upstream.received().remove(0);
    assert_eq!(sent_body, body);
    let host = upstream.url.strip_prefix("http://").unwrap();
    assert_eq!(
        sent,
        format!(
            "POST /v1/files?x=%2f%2F&beta=true HTTP/1.1\r\nx-api-key: k\r\ncookie: c\r\naccept-encoding: br\r\n\
             x-twice: 1\r\nx-twice: 2\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
    );
    let event = proxy.events(1).await.remove(0);
    assert_eq!(
        (event.status, event.outcome),
        (404, ExchangeOutcome::UpstreamError)
    );
    assert_eq!(event.route, "POST /v1/files");
    assert_eq!(
        (event.received_bytes, event.response_bytes),
        (body.len() as u64, 13)
    );
}

#[tokio::test]
async fn a_head_request_keeps_the_length() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n";
    let (_, proxy) = Proxy::before(vec![Act::Answer(answer.into())]).await;
    let head = "HEAD /v1/files HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let got = proxy.raw(head).await;
    assert!(got.contains("content-length: 77"), "{got}");
    assert_eq!(proxy.events(1).await[0].outcome, ExchangeOutcome::Complete);
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
                      8\r\ndata: 1\n\r\n";

#[tokio::test]
async fn a_stream_flows_and_ends_with_the_agent() {
    for path in ["/v1/files", "/v1/messages"] {
        let (upstream, proxy) = Proxy::before(vec![Act::Hang(STREAM.into())]).await;
        let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}");
        let mut agent = proxy.send(request).await;
        let mut got = String::new();
        while !got.contains("data: 1\n") {
            let mut piece = [0; 1024];
            let n = agent.read(&mut piece).await.unwrap();
            assert!(n > 0, "{got}");
            got.push_str(std::str::from_utf8(&piece[..n]).unwrap());
        }
        assert!(got.contains("x-accel-buffering: no\r\n") && got.contains("cache-control: no-cache\r\n"));
        drop(agent);
        upstream.closed(1).await;
        let event = proxy.events(1).await.remove(0);
        assert_eq!(
            (event.outcome, event.streamed, event.response_bytes),
            (ExchangeOutcome::Cancelled, true, 8)
        );
        assert_eq!(proxy.gateway.free_exchanges(), 16);
    }
}

#[tokio::test]
async fn an_agent_that_leaves_before_the_answer_ends_the_leg() {
    for path in ["/v1/files", "/v1/messages"] {
        let (upstream, proxy) = Proxy::before(vec![Act::Hang(Bytes::new())]).await;
        let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}");
        let agent = proxy.send(request).await;
        while upstream.received().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(agent);
        upstream.closed(1).await;
        let event = proxy.events(1).await.remove(0);
        assert_eq!((event.outcome, event.status), (ExchangeOutcome::Cancelled, 0));
    }
}

#[tokio::test]
async fn silence_ends_the_stream_without_a_proper_end() {
    let upstream = Script::start(vec![Act::Hang(STREAM.into())]).await;
    let mut config = config(&upstream.url);
    config.upstreams.get_mut("openai").unwrap().idle = Duration::from_millis(150);
    let proxy = Proxy::start(config);
    let got = proxy.post("/v1/chat/completions", "", b"{}").await;
    assert!(got.contains("data: 1\n") && !got.ends_with("0\r\n\r\n"), "{got}");
    upstream.closed(1).await;
    assert_eq!(proxy.events(1).await[0].outcome, ExchangeOutcome::Truncated);
}

#[tokio::test]
async fn an_upstream_that_breaks_off_is_not_laundered() {
    let (_, proxy) = Proxy::before(vec![Act::Answer(STREAM.into())]).await;
    let got = proxy.post("/v1/chat/completions", "", b"{}").await;
    assert!(!got.ends_with("0\r\n\r\n"), "{got}");
    assert_eq!(proxy.events(1).await[0].outcome, ExchangeOutcome::Truncated);
}

#[tokio::test]
async fn a_stale_pooled_connection_is_tried_again_once() {
    let acts = vec![Act::Keep(ok("1")), Act::Close, Act::Keep(ok("3")), Act::Close];
    let (upstream, proxy) = Proxy::before(acts).await;
    for answer in ["\r\n\r\n1", "\r\n\r\n3"] {
        let got = proxy.post("/v1/chat/completions", "", b"{}").await;
        assert!(got.ends_with(answer), "{got}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(upstream.received().len(), 3);
    // A connection that has never served is not stale.
    let fresh = Script::start(vec![Act::Close]).await;
    let proxy = Proxy::start(config(&fresh.url));
    let got = proxy.post("/v1/chat/completions", "", b"{}").await;
    assert!(got.contains("x-baton-error: upstream_closed"), "{got}");
    assert_eq!(fresh.received().len(), 1);
}

#[tokio::test]
async fn a_request_without_a_body_is_sent_again_too() {
    let (upstream, proxy) = Proxy::before(vec![Act::Keep(ok("1")), Act::Close, Act::Keep(ok("3"))]).await;
    for answer in ["1", "3"] {
        let got = proxy.get("/v1/models", "host: x\r\n").await;
        assert!(got.ends_with(&format!("\r\n\r\n{answer}")), "{got}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (sent, _) = upstream.received().remove(2);
    assert!(
        !sent.contains("content-length") && !sent.contains("chunked"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_rope_goes_out_in_one_piece_and_an_answer_is_read_whole() {
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(chunks.into())]).await;
    let place = proxy.gateway.upstreams.get("openai").unwrap();
    let too_long = Fault::because(Code::UNREADABLE, "upstream's body is longer than 4 bytes");
    for (limit, read) in [(5, Ok(Bytes::from("abcde"))), (4, Err(too_long))] {
        let rope = RopeBody::new(["{", "", "\"a\":1", "}"].map(Bytes::from));
        let none = http::HeaderMap::new;
        let sent = place.send(&http::Method::POST, "/v1/responses", none(), none, rope);
        let body = sent.await.unwrap().into_body();
        assert_eq!(body.whole(limit, &proxy.app.bodies).await, read);
    }
    let (head, body) = upstream.received().remove(0);
    assert!(head.contains("content-length: 7\r\n"), "{head}");
    assert_eq!(body, b"{\"a\":1}");
}

#[tokio::test]
async fn a_large_upload_is_not_buffered() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let body = vec![b'x'; 8 << 20];
    let got = proxy.post("/v1/files", "", &body).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    let sent = upstream.received()[0].1.len();
    assert_eq!(sent, body.len(), "above the limit for transcripts");
    assert_eq!(proxy.events(1).await[0].received_bytes, body.len() as u64);
}

/// Providers end the last chunk a moment after the last event, which must not cost the connection.
#[tokio::test]
async fn an_upstream_connection_serves_again_after_a_stream() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(config(&format!("http://{}", listener.local_addr().unwrap())));
    let event = "data: {\"type\":\"message_stop\"}\n\n";
    let upstream = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            let mut request = vec![0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n",
                event.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
        "one connection for all"
    };
    let agent = async {
        for _ in 0..3 {
            let body = br#"{"messages":[{"role":"user","content":"hi"}]}"#;
            let got = proxy.post("/v1/messages", "", body).await;
            assert!(got.contains("message_stop"), "{got}");
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    };
    let served =
        tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(upstream, agent).0 }).await;
    assert_eq!(served.unwrap(), "one connection for all");
}
