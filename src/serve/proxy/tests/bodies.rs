//! Request bodies: codings, limits, and agents that stop halfway. Includes responses that are compressed unasked.

use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::memory::{is_alone, peak};
use crate::proxy::fault::Code;
use crate::proxy::testing::{Act, Proxy, Script, config, ok};
use crate::proxy::upload::RopeBody;
use crate::state::telemetry::ExchangeOutcome;

#[tokio::test]
async fn every_known_coding_is_read_and_goes_out_as_it_came() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let text = br#"{"messages":[{"role":"user","content":"hello hello hello hello"}]}"#;
    let bodies = [
        ("gzip", packed!(GzipEncoder, text)),
        ("deflate", packed!(ZlibEncoder, text)),
        ("deflate", packed!(DeflateEncoder, text)),
        ("br", packed!(BrotliEncoder, text)),
        ("zstd", packed!(ZstdEncoder, text)),
    ];
    for (at, (coding, packed)) in bodies.iter().enumerate() {
        let line = format!("content-encoding: {coding}\r\n");
        let got = proxy.post("/v1/messages", &line, packed).await;
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        let (head, body) = upstream.received().remove(at);
        assert_eq!(&body, packed);
        assert!(head.contains(&line), "{head}");
        let event = &proxy.events(at + 1).await[at];
        assert_eq!(event.received_bytes, text.len() as u64, "{coding}");
    }
}

#[tokio::test]
async fn what_cannot_be_decoded_is_relayed() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let table = [
        ("compress", "abc"),
        ("gzip, br", "abc"),
        ("gzip", "not gzip at all"),
        ("zstd", "nor this"),
    ];
    for (at, (coding, body)) in table.into_iter().enumerate() {
        let line = format!("content-encoding: {coding}\r\n");
        proxy.post("/v1/messages", &line, body.as_bytes()).await;
        let (head, sent) = upstream.received().remove(at);
        assert_eq!(sent, body.as_bytes());
        assert!(head.contains(&line), "{head}");
    }
}

#[tokio::test]
async fn a_bomb_is_refused_at_the_limit() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let zeros = vec![0u8; 8 << 20];
    for (coding, packed) in [
        ("gzip", packed!(GzipEncoder, &zeros)),
        ("zstd", packed!(ZstdEncoder, &zeros)),
        ("br", packed!(BrotliEncoder, &zeros)),
    ] {
        assert!(packed.len() < 1 << 20);
        let coding = format!("content-encoding: {coding}\r\n");
        let got = proxy.post("/v1/messages", &coding, &packed).await;
        assert!(got.starts_with("HTTP/1.1 413"), "{coding}: {got}");
        for part in [
            "request_too_large",
            "limits.body_bytes",
            "x-baton-error: body_too_large\r\n",
            "x-should-retry: false\r\n",
        ] {
            assert!(got.contains(part), "{part}: {got}");
        }
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_body_at_the_limit_passes_and_one_byte_more_does_not() {
    let (_, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    for (size, status) in [(1 << 20, "200"), ((1 << 20) + 1, "413")] {
        let text = vec![b' '; size];
        let packed = packed!(ZstdEncoder, &text);
        for (line, body) in [("", &text), ("content-encoding: zstd\r\n", &packed)] {
            let got = proxy.post("/v1/messages", line, body).await;
            assert_eq!(&got[9..12], status, "{size} {line}: {got}");
        }
    }
}

#[tokio::test]
async fn two_hundred_megabytes_are_refused_in_constant_memory() {
    if !is_alone("bodies::two_hundred_megabytes_are_refused_in_constant_memory") {
        return;
    }
    let proxy = Proxy::start(config("http://127.0.0.1:9"));
    let before = peak();
    let piece = vec![b'x'; 1 << 20];
    for declared in [true, false] {
        let agent = TcpStream::connect(proxy.addr).await.unwrap();
        let (mut read, mut write) = agent.into_split();
        let framing = if declared {
            "content-length: 209715200"
        } else {
            "transfer-encoding: chunked"
        };
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..200 {
            if !declared {
                write.write_all(b"100000\r\n").await.unwrap();
            }
            write.write_all(&piece).await.unwrap();
            if !declared {
                write.write_all(b"\r\n").await.unwrap();
            }
        }
        if !declared {
            write.write_all(b"0\r\n\r\n").await.unwrap();
        }
        let mut got = String::new();
        read.read_to_string(&mut got).await.unwrap();
        assert!(got.starts_with("HTTP/1.1 413"), "{got}");
    }
    assert!(peak() - before < 32 << 20, "{} more", peak() - before);
}

#[tokio::test]
async fn chunks_without_a_length_are_collected() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    let request = "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   3\r\n{\"a\r\n5\r\n\": 1}\r\n0\r\n\r\n";
    let got = proxy.raw(request).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    let (head, body) = upstream.received().remove(0);
    assert_eq!(body, b"{\"a\": 1}");
    assert!(
        head.contains("content-length: 8\r\n") && !head.contains("chunked"),
        "{head}"
    );
}

#[tokio::test]
async fn an_agent_may_ask_before_it_sends() {
    let (upstream, proxy) = Proxy::before(vec![Act::Answer(ok("{}"))]).await;
    for (length, first) in [(2, "HTTP/1.1 100 Continue\r\n"), (2 << 20, "HTTP/1.1 413")] {
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        let mut agent = proxy.send(head).await;
        let mut piece = [0; 1024];
        let n = agent.read(&mut piece).await.unwrap();
        let got = String::from_utf8_lossy(&piece[..n]).into_owned();
        assert!(got.starts_with(first), "{got}");
        if length == 2 {
            agent.write_all(b"{}").await.unwrap();
            let mut rest = String::new();
            agent.read_to_string(&mut rest).await.unwrap();
            assert!(rest.starts_with("HTTP/1.1 200"), "{rest}");
            assert!(!upstream.received()[0].0.contains("expect"));
        }
    }
}

#[tokio::test]
async fn an_agent_that_goes_silent_is_refused() {
    let proxy = Proxy::start(config("http://127.0.0.1:9"));
    let head =
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100\r\n\r\nhalf";
    let got = proxy.raw(head).await;
    assert!(
        got.starts_with("HTTP/1.1 408") && got.contains("x-baton-error: body_timeout"),
        "{got}"
    );
}

#[tokio::test]
async fn an_agent_that_stops_halfway_is_noted() {
    let (upstream, proxy) = Proxy::before(vec![Act::Hang(Bytes::new())]).await;
    for (at, path) in ["/v1/messages", "/v1/files"].into_iter().enumerate() {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf");
        let agent = proxy.send(head).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        drop(agent);
        assert_eq!(proxy.events(at + 1).await[at].outcome, ExchangeOutcome::Cancelled);
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_response_compressed_unasked_is_undone_as_it_comes() {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(b"data: 1\n\n").await.unwrap();
    encoder.flush().await.unwrap();
    let mut head =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    head.extend_from_slice(encoder.get_ref());
    let upstream = Script::start(vec![Act::Hang(head.into())]).await;
    let mut config = config(&upstream.url);
    config.upstreams.get_mut("openai").unwrap().idle = Duration::from_millis(300);
    let proxy = Proxy::start(config);
    let place = proxy.gateway.upstreams.get("openai").unwrap();
    let none = http::HeaderMap::new;
    let sent = place.send(&http::Method::POST, "/", none(), none, RopeBody::default());
    let (parts, body) = sent.await.unwrap().into_parts();
    let Ok(mut body) = body.decoded(&parts.headers) else {
        panic!("gzip is known")
    };
    assert_eq!(body.size_hint().exact(), None);
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"data: 1\n\n", "before the stream has ended");
    let fault = body.frame().await.unwrap().unwrap_err();
    assert_eq!(fault.code, Code::SILENT, "{fault}");
}
