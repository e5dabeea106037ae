//! Request smuggling: requests with ambiguous framing or head.
//!
//! Upstream must receive either nothing or exactly one unambiguous request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_llm::state::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Baton, config, memory};

/// The required outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Upstream gets no request.
    Refused,
    /// Upstream gets one request, with this body.
    Body(&'static str),
}
use Fate::{Body, Refused};

/// A complete request, as upstream parses it.
#[derive(Debug)]
struct Got {
    head: String,
    body: Vec<u8>,
}

/// An upstream that parses as strictly as RFC 9112 allows, and responds to everything with `{}`.
struct Upstream {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Upstream {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&got);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        Self { url, got }
    }

    fn take(&self) -> Vec<Got> {
        std::mem::take(&mut self.got.lock().unwrap())
    }
}

async fn serve(mut stream: TcpStream, got: Arc<Mutex<Vec<Got>>>) {
    let mut bytes = Vec::new();
    loop {
        while let Some((request, rest)) = complete(&bytes) {
            got.lock().unwrap().push(request);
            bytes = rest;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
}

/// Returns the first request, if it is complete, and the bytes after it.
fn complete(bytes: &[u8]) -> Option<(Got, Vec<u8>)> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text");
    let values = |name: &str| -> Vec<&str> {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.trim())
            .collect()
    };
    let (body, behind) = match (
        values("content-length").as_slice(),
        values("transfer-encoding").as_slice(),
    ) {
        ([], []) => (Vec::new(), end),
        ([length], []) => {
            let length: usize = length.parse().expect("a length");
            (bytes.get(end..end + length)?.to_vec(), end + length)
        }
        ([], ["chunked"]) => chunks(bytes, end)?,
        framing => panic!("two readers may differ: {framing:?} in {head}"),
    };
    Some((Got { head, body }, bytes[behind..].to_vec()))
}

fn chunks(bytes: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    loop {
        let line = bytes[at..].windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size without extensions");
        at += line + 2;
        let chunk = bytes.get(at..at + size + 2)?;
        assert_eq!(&chunk[size..], b"\r\n", "no trailer, and a chunk of its size");
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
        if size == 0 {
            return Some((body, at));
        }
    }
}

/// Header lines, and the bytes after the head. A `GET /smuggled` in those bytes must never reach upstream.
#[rustfmt::skip]
const SHAPES: &[(&str, &str, &str, Fate)] = &[
    ("a plain body", "content-length: 2\r\n", "{}", Body("{}")),
    ("a plain chunked body", "transfer-encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", Body("{}")),
    // Two lengths.
    ("lengths that differ", "content-length: 2\r\ncontent-length: 40\r\n", "{}GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n", Refused),
    ("lengths that differ, the other way round", "content-length: 40\r\ncontent-length: 2\r\n", "{}GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n", Refused),
    ("the same length twice", "content-length: 2\r\ncontent-length: 2\r\n", "{}", Body("{}")),
    ("a list of lengths that differ", "content-length: 2, 40\r\n", "{}", Refused),
    ("a signed length", "content-length: +2\r\n", "{}", Refused),
    ("a negative length", "content-length: -2\r\n", "{}", Refused),
    ("a hexadecimal length", "content-length: 0x2\r\n", "{}", Refused),
    ("a length over 64 bits", "content-length: 18446744073709551618\r\n", "{}", Refused),
    ("no length", "content-length:\r\n", "{}", Refused),
    ("a length with a space inside", "content-length: 2 0\r\n", "{}", Refused),
    // A length and chunks: chunks win, and the length is not forwarded.
    ("length, then chunks", "content-length: 2\r\ntransfer-encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", Body("{}")),
    ("chunks, then length", "transfer-encoding: chunked\r\ncontent-length: 2\r\n", "2\r\n{}\r\n0\r\n\r\n", Body("{}")),
    ("a length that Connection names", "connection: content-length, close\r\ncontent-length: 2\r\n", "{}", Body("{}")),
    // Transfer codings that hide chunks from some parsers.
    ("chunks that are not last", "transfer-encoding: chunked, identity\r\ncontent-length: 2\r\n", "{}", Refused),
    ("no coding at all", "transfer-encoding: identity\r\ncontent-length: 2\r\n", "{}", Refused),
    ("nearly chunked", "transfer-encoding: xchunked\r\ncontent-length: 2\r\n", "{}", Refused),
    ("chunked behind a vertical tab", "transfer-encoding: \x0bchunked\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a space before the colon", "transfer-encoding : chunked\r\ncontent-length: 2\r\n", "{}", Refused),
    ("chunked, folded", "transfer-encoding:\r\n chunked\r\ncontent-length: 2\r\n", "{}", Refused),
    ("two codings in two lines", "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", "2\r\n{}\r\n0\r\n\r\n", Refused),
    // Chunks.
    ("a chunk's extension", "transfer-encoding: chunked\r\n", "2;a=b\r\n{}\r\n0;c\r\n\r\n", Body("{}")),
    ("a chunk's size with 0x", "transfer-encoding: chunked\r\n", "0x2\r\n{}\r\n0\r\n\r\n", Refused),
    ("a signed size", "transfer-encoding: chunked\r\n", "+2\r\n{}\r\n0\r\n\r\n", Refused),
    ("a size over 64 bits", "transfer-encoding: chunked\r\n", "10000000000000002\r\n{}\r\n0\r\n\r\n", Refused),
    ("a chunk longer than its size", "transfer-encoding: chunked\r\n", "2\r\n{}}\r\n0\r\n\r\n", Refused),
    ("no size", "transfer-encoding: chunked\r\n", "\r\n{}\r\n0\r\n\r\n", Refused),
    ("an extension without end", "transfer-encoding: chunked\r\n", "2;a\n{}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", Refused),
    ("trailers", "transfer-encoding: chunked\r\ntrailer: x-evil\r\n", "2\r\n{}\r\n0\r\nx-evil: 1\r\ncontent-length: 9\r\n\r\n", Body("{}")),
    // Lines of the head.
    ("a folded line", "x-a: 1\r\n x-evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a folded line with a tab", "x-a: 1\r\n\tx-evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a bare CR in a value", "x-a: 1\rx-evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a bare CR before a name", "\rx-evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a NUL in a value", "x-a: 1\0x-evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a name with a space", "x evil: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a name with a NUL", "x-evil\0: 2\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a line without colon", "x-evil\r\ncontent-length: 2\r\n", "{}", Refused),
    ("a line without name", ": x-evil\r\ncontent-length: 2\r\n", "{}", Refused),
    ("what only baton may say", "x-baton-handoff: x-evil\r\nx-forwarded-for: x-evil\r\ncontent-length: 2\r\n", "{}", Body("{}")),
    ("what is one connection's", "connection: x-evil, upgrade, http2-settings, close\r\nx-evil: 1\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\ncontent-length: 2\r\n", "{}", Body("{}")),
];

/// Variants of the request line: the bytes before the method and after the target.
#[rustfmt::skip]
const FIRST_LINES: &[(&str, &str, &str, Fate)] = &[
    ("an empty line before", "\r\nPOST ", " HTTP/1.1", Body("{}")),
    ("a tab behind the method", "POST\t", " HTTP/1.1", Refused),
    ("a space in the target", "POST ", " /smuggled HTTP/1.1", Refused),
    ("a bare CR in the target", "POST ", "\r/smuggled HTTP/1.1", Refused),
    ("a NUL in the target", "POST ", "\0 HTTP/1.1", Refused),
    ("no version", "POST ", "", Refused),
    ("a version to come", "POST ", " HTTP/1.2", Refused),
    ("a version of another protocol", "POST ", " HTTP/2.0", Refused),
    ("a method with CR", "PO\rST ", " HTTP/1.1", Refused),
    ("two slashes", "POST /", " HTTP/1.1", Refused),
];

/// Sends everything and returns the proxy's response. Empty if the proxy waits for more.
async fn send(baton: &Baton, request: &[u8], fate: Fate) -> String {
    let mut agent = TcpStream::connect(baton.addr).await.unwrap();
    let mut got = Vec::new();
    // The proxy may refuse it before everything is sent.
    let _ = agent.write_all(request).await;
    let time = match fate {
        Refused => Duration::from_millis(400),
        Body(_) => Duration::from_secs(20),
    };
    let reading = async {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = agent.read(&mut piece).await {
            got.extend_from_slice(&piece[..n]);
        }
    };
    // An agent that disconnects gets no response.
    let _ = tokio::time::timeout(time, reading).await;
    String::from_utf8_lossy(&got).into_owned()
}

fn check(what: &str, upstream: &Upstream, fate: Fate, target: &str, answer: &str) {
    let got = upstream.take();
    for request in &got {
        let head = &request.head;
        assert!(
            head.starts_with(&format!("POST {target} HTTP/1.1\r\n")),
            "{what}: {head}"
        );
        assert!(
            !head.contains("evil") && !head.contains("smuggled"),
            "{what}: {head}"
        );
        let odd = |b: u8| b.is_ascii_control() && !matches!(b, b'\r' | b'\n');
        assert!(!head.bytes().any(odd), "{what}: {head:?}");
        assert_eq!(
            head.matches('\r').count(),
            head.matches("\r\n").count(),
            "{what}: {head:?}"
        );
        assert_eq!(
            head.matches('\n').count(),
            head.matches("\r\n").count(),
            "{what}: {head:?}"
        );
        assert_eq!(head.matches("\r\nhost: ").count(), 1, "{what}: {head}");
    }
    match fate {
        Refused => assert!(got.is_empty(), "{what}: {got:?}"),
        Body(body) => {
            assert_eq!(got.len(), 1, "{what}: {got:?} {answer}");
            assert_eq!(got[0].body, body.as_bytes(), "{what}");
            assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        }
    }
}

/// A path that the proxy parses, and one that it relays.
const TARGETS: [&str; 3] = ["/v1/messages", "/v1beta/models/m:generateContent", "/v1/files"];

async fn place(change: impl FnOnce(&mut Config)) -> (Baton, Upstream) {
    let upstream = Upstream::start().await;
    let mut config = config(&upstream.url);
    change(&mut config);
    (Baton::start(config, memory()), upstream)
}

#[tokio::test]
async fn ambiguous_framing_never_reaches_upstream() {
    let (baton, upstream) = place(|_| ()).await;
    for target in TARGETS {
        for (what, lines, behind, fate) in SHAPES {
            let close = if lines.contains("connection:") {
                ""
            } else {
                "connection: close\r\n"
            };
            let request = format!("POST {target} HTTP/1.1\r\nhost: localhost\r\n{close}{lines}\r\n{behind}");
            let answer = send(&baton, request.as_bytes(), *fate).await;
            check(&format!("{what} at {target}"), &upstream, *fate, target, &answer);
        }
        for (what, before, behind, fate) in FIRST_LINES {
            let request = format!(
                "{before}{target}{behind}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            let answer = send(&baton, request.as_bytes(), *fate).await;
            check(&format!("{what} at {target}"), &upstream, *fate, target, &answer);
        }
    }
}

#[tokio::test]
async fn oversized_heads_are_refused() {
    let (baton, upstream) = place(|config| config.limits.header_bytes = 64 << 10).await;
    let long = "x".repeat(80 << 10);
    let many: String = (0..2000).map(|i| format!("x-{i}: 1\r\n")).collect();
    let table = [
        ("a long value", format!("x-long: {long}\r\n")),
        ("a long name", format!("{long}: 1\r\n")),
        ("many lines", many),
        ("many times one line", "cookie: a=b\r\n".repeat(5000)),
    ];
    for (what, lines) in table {
        let request =
            format!("POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: 2\r\n\r\n{{}}");
        let answer = send(&baton, request.as_bytes(), Refused).await;
        check(what, &upstream, Refused, "/v1/messages", &answer);
    }
    let target = format!("/v1/messages?{long}");
    let request = format!("POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}");
    let answer = send(&baton, request.as_bytes(), Refused).await;
    check("a long target", &upstream, Refused, &target, &answer);
}

#[tokio::test]
async fn bytes_after_a_request_are_the_next_request() {
    let (baton, upstream) = place(|_| ()).await;
    let one = "POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    let two = format!(
        "{one}POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 3\r\n\r\n[1]"
    );
    let answer = send(&baton, two.as_bytes(), Body("")).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    let got: Vec<_> = upstream.take().into_iter().map(|got| got.body).collect();
    assert_eq!(got, [b"{}".to_vec(), b"[1]".to_vec()]);
    // Checks the second request by the same rules.
    let two = format!("{one}GET /v1/../smuggled HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = send(&baton, two.as_bytes(), Body("")).await;
    assert!(answer.contains("x-baton-error: bad_target"), "{answer}");
    assert_eq!(upstream.take().len(), 1);
}
