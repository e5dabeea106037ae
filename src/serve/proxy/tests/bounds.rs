//! Memory bound of concurrent bodies, and the cost of decoding them.

use std::time::{Duration, Instant};

use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZstdEncoder};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::memory::{is_alone, peak};
use crate::proxy::testing::{Act, Proxy, Script, config, small_steps};

/// Waits until all reservations are released.
async fn all_free(proxy: &Proxy, free: (usize, bool)) {
    for _ in 0..300 {
        if proxy.app.bodies.free() == free {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("free: {:?}, not {free:?}", proxy.app.bodies.free());
}

/// Number of the answers that came from upstream, and of those without room.
fn passed_and_refused(answers: &[String]) -> (usize, usize) {
    let count = |is: fn(&str) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let passed = count(|answer| answer.starts_with("HTTP/1.1 200"));
    let refused = count(|answer| answer.contains("x-baton-error: bodies_full\r\n"));
    (passed, refused)
}

#[tokio::test]
async fn bombs_together_take_no_more_than_the_bound() {
    if !is_alone("bounds::bombs_together_take_no_more_than_the_bound") {
        return;
    }
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.limits.body_bytes = 16 << 20;
    config.limits.bodies_bytes = 64 << 20;
    config.limits.max_concurrent_requests = 64;
    let proxy = Proxy::start(config);
    let free = proxy.app.bodies.free();
    let bomb = packed!(BrotliEncoder, &vec![b' '; 15 << 20]);
    assert!(bomb.len() < 1000);
    let before = peak();
    let answers =
        join_all((0..24).map(|_| proxy.post("/v1/messages", "content-encoding: br\r\n", &bomb))).await;
    let more = peak() - before;
    assert!(more < 112 << 20, "{} MiB more", more >> 20);
    let (passed, refused) = passed_and_refused(&answers);
    assert!(passed > 0 && passed + refused == answers.len(), "{answers:?}");
    all_free(&proxy, free).await;
}

#[tokio::test]
async fn answers_in_one_piece_are_within_the_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
    let begun = format!("{head}{}", " ".repeat(900_000));
    let upstream = Script::start(vec![Act::Hang(begun.into())]).await;
    let mut config = config(&upstream.url);
    config.limits.body_bytes = 1 << 20;
    config.limits.bodies_bytes = 4 << 20;
    // A body that waits for room is refused before upstream counts as dead.
    config.limits.waits.room = Duration::from_millis(500);
    for place in config.upstreams.values_mut() {
        place.idle = Duration::from_millis(1500);
    }
    let proxy = Proxy::start(config);
    let free = proxy.app.bodies.free();
    let request = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    let answers = join_all((0..5).map(|_| proxy.post("/v1/messages", "", request)));
    let taken = async {
        loop {
            let taken = proxy.app.bodies.free();
            if taken.0 < 1 << 20 && !taken.1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(5), taken);
    let (answers, taken) = tokio::join!(answers, taken);
    taken.expect("all room is taken");
    let (_, refused) = passed_and_refused(&answers);
    assert!((1..5).contains(&refused), "{answers:?}");
    all_free(&proxy, free).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_for_which_there_is_no_room_is_a_503_with_a_time() {
    small_steps();
    let upstream = Script::start(vec![Act::Hang(Bytes::new())]).await;
    let mut config = config(&upstream.url);
    config.limits.bodies_bytes = 4 << 20;
    config.limits.request_buffer_bytes = 64 << 20;
    for place in config.upstreams.values_mut() {
        place.idle = Duration::from_secs(60);
    }
    let proxy = Proxy::start(config);
    let free = proxy.app.bodies.free();
    let body = vec![b' '; 1 << 20];
    // Two in the common part, one in the part set aside. All three wait for upstream.
    let mut waiting = Vec::new();
    for at in 0..3 {
        let mut agent = TcpStream::connect(proxy.addr).await.unwrap();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        agent.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        waiting.push(agent);
        while upstream.received().len() <= at {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let packed = packed!(GzipEncoder, &body);
    for (path, shape) in [
        ("/v1/messages", "overloaded_error"),
        ("/v1/chat/completions", "bodies_full"),
        ("/v1/responses", "bodies_full"),
        ("/v1beta/models/m:generateContent", "UNAVAILABLE"),
    ] {
        // The compressed body fits, but its text does not.
        let both = [("content-encoding: gzip\r\n", &packed), ("", &body)];
        for (line, body) in &both[usize::from(path != "/v1/messages")..] {
            let got = proxy.post(path, line, body).await;
            assert!(got.starts_with("HTTP/1.1 503"), "{path} {line}: {got}");
            assert!(got.contains("retry-after: 2\r\n") && got.contains(shape), "{got}");
            assert!(got.contains("x-baton-error: bodies_full\r\n"), "{got}");
        }
    }
    assert_eq!(upstream.received().len(), 3);
    let small = proxy.post("/v1/messages", "connection: close\r\n", b"{}");
    let small = tokio::time::timeout(Duration::from_millis(300), small).await;
    assert!(
        small.is_err(),
        "what is read at once needs no room, and waits for upstream"
    );
    drop(waiting);
    all_free(&proxy, free).await;
}

#[tokio::test]
async fn half_read_bodies_do_not_hold_each_other_up() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.limits.bodies_bytes = 4 << 20;
    let proxy = Proxy::start(config);
    let free = proxy.app.bodies.free();
    let body = vec![b' '; 1 << 20];
    let mut agents = Vec::new();
    for _ in 0..8 {
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let half = [head.as_bytes(), &body[..body.len() / 2]].concat();
        agents.push(proxy.send(half).await);
    }
    // Half-read bodies take all of the common part.
    all_free(&proxy, (0, false)).await;
    let rest = &body[body.len() / 2..];
    let answers = join_all(agents.into_iter().map(|mut agent| async move {
        agent.write_all(rest).await.unwrap();
        let mut got = String::new();
        agent.read_to_string(&mut got).await.unwrap();
        got
    }))
    .await;
    let (passed, refused) = passed_and_refused(&answers);
    assert!(passed > 1 && passed + refused == answers.len(), "{answers:?}");
    all_free(&proxy, free).await;
}

#[tokio::test]
async fn room_is_given_back_however_a_request_ends() {
    let (_, proxy) = Proxy::before(vec![Act::Hang(Bytes::new())]).await;
    let free = proxy.app.bodies.free();
    let zeros = vec![0u8; 2 << 20];
    let bombs = [
        ("gzip", packed!(GzipEncoder, &zeros)),
        ("br", packed!(BrotliEncoder, &zeros)),
        ("zstd", packed!(ZstdEncoder, &zeros)),
    ];
    for (coding, bomb) in &bombs {
        let coding = format!("content-encoding: {coding}\r\n");
        let got = proxy.post("/v1/messages", &coding, bomb).await;
        assert!(got.starts_with("HTTP/1.1 413"), "{got}");
        all_free(&proxy, free).await;
    }
    let got = proxy.post("/v1/messages", "", &zeros).await;
    assert!(got.starts_with("HTTP/1.1 413"), "{got}");
    all_free(&proxy, free).await;
    // Agents that leave: in the middle of a body, and while upstream still works on a complete one.
    for sent in [300_000, 500_000] {
        let head = "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n";
        let agent = proxy.send([head.as_bytes(), &zeros[..sent]].concat()).await;
        while proxy.app.bodies.free() == free {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(agent);
        all_free(&proxy, free).await;
    }
}

/// Longest time for which other tasks of the runtime's thread had to wait while `work` ran.
async fn longest_gap<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let mut longest = Duration::ZERO;
    let ticking = async {
        loop {
            let before = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            longest = longest.max(before.elapsed());
        }
    };
    let done = tokio::select! {
        done = work => done,
        () = ticking => unreachable!(),
    };
    (longest, done)
}

#[tokio::test]
async fn members_without_text_cost_next_to_nothing() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.limits.body_bytes = 8 << 20;
    let proxy = Proxy::start(config);
    let (gzip, zstd) = (packed!(GzipEncoder, b""), packed!(ZstdEncoder, b""));
    let text = packed!(GzipEncoder, b"{}");
    for (coding, member) in [("gzip", gzip), ("zstd", zstd)] {
        let body = member.repeat(100_000);
        let line = format!("content-encoding: {coding}\r\n");
        let got = proxy.post("/v1/messages", &line, &body).await;
        assert!(
            got.starts_with("HTTP/1.1 413") && got.contains("many pieces"),
            "{coding}: {got}"
        );
    }
    // A body of some members is one body.
    let members = [text.repeat(3), packed!(GzipEncoder, b""), text].concat();
    let gzip = "content-encoding: gzip\r\n";
    let got = proxy.post("/v1/messages", gzip, &members).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    assert_eq!(proxy.events(3).await[2].received_bytes, 8);
}

#[tokio::test]
async fn a_large_text_is_made_on_another_thread() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.limits.body_bytes = 64 << 20;
    config.limits.bodies_bytes = 256 << 20;
    let proxy = Proxy::start(config);
    let text: Vec<_> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let body = packed!(GzipEncoder, &text);
    let start = Instant::now();
    let (gap, got) = longest_gap(proxy.post("/v1/messages", "content-encoding: gzip\r\n", &body)).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    let took = start.elapsed();
    assert!(
        gap < (took / 3).max(Duration::from_millis(100)),
        "{gap:?} of {took:?}"
    );
    assert_eq!(upstream.received()[0].1, body);
}
