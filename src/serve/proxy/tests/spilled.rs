//! Storage of a request while its response streams.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::testing::{Act, Proxy, Script, config};

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
                      9\r\ndata: 1\n\n\r\n";

/// An agent that has received the first event of its response.
async fn streaming(proxy: &Proxy, body: &str) -> TcpStream {
    let mut agent = TcpStream::connect(proxy.addr).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    agent
        .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
        .await
        .unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"data: 1\n\n\r\n") {
        let read = agent.read_buf(&mut got).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&got));
    }
    agent
}

async fn settled(proxy: &Proxy, bytes: usize) {
    for _ in 0..300 {
        if proxy.app.spill.in_memory() == bytes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are in memory, not {bytes}", proxy.app.spill.in_memory());
}

#[tokio::test]
async fn a_request_is_spilled_until_the_agent_leaves() {
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"stream":true,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        "go on ".repeat(10_000)
    );
    let dir = tempfile::tempdir().unwrap();
    for budget in [1 << 20, 0] {
        let upstream = Script::start(vec![Act::Hang(STREAM.into())]).await;
        let mut config = config(&upstream.url);
        config.limits.request_buffer_bytes = budget;
        config.state_dir = dir.path().to_owned();
        let proxy = Proxy::start(config);
        let agent = streaming(&proxy, &body).await;
        settled(&proxy, body.len().min(budget)).await;
        assert_eq!(upstream.received()[0].1, body.as_bytes());
        drop(agent);
        upstream.closed(1).await;
        proxy.events(1).await;
        settled(&proxy, 0).await;
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "no file has a name"
    );
}
