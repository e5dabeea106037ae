//! Requests to `/` of the data listener.

use crate::proxy::testing::{Proxy, Script, config};

const BROWSER: &str = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

#[tokio::test]
async fn agents_and_browsers_are_answered_here_in_one_line() {
    let upstream = Script::saying("{}").await;
    for (listen, place) in [
        ("127.0.0.1:8788", "http://127.0.0.1:8788/"),
        ("0.0.0.0:8788", "port 8788 of this machine"),
    ] {
        let mut config = config(&upstream.url);
        config.admin.at.listen = listen.parse().unwrap();
        let proxy = Proxy::start(config);
        let ask = |line: &str, lines: &str| {
            proxy.raw(format!(
                "{line} HTTP/1.1\r\nhost: localhost\r\n{lines}connection: close\r\n\r\n"
            ))
        };
        for lines in [
            "",
            BROWSER,
            // Even if a link of another site led to it.
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n",
            "accept: application/json\r\nx-api-key: sk-ant-x\r\n",
        ] {
            let got = ask("GET /", lines).await;
            assert!(got.starts_with("HTTP/1.1 200"), "{got}");
            let line =
                format!("baton, a proxy for the APIs of language models; its inspector is at {place}\n");
            assert!(got.ends_with(&format!("\r\n\r\n{line}")), "{got}");
            let got = ask("HEAD /", lines).await;
            let is_bare = got.starts_with("HTTP/1.1 200") && got.ends_with("\r\n\r\n");
            assert!(is_bare, "{got}");
        }
        let got = proxy.get("/", "host: evil.example\r\n").await;
        assert!(got.contains("x-baton-error: foreign_host"), "{got}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn agents_get_what_upstream_says() {
    let upstream = Script::saying("{\"up\":1}").await;
    let proxy = Proxy::start(config(&upstream.url));
    for (line, lines) in [
        ("GET /v1/models", BROWSER),
        ("GET /u/openai/", BROWSER),
        ("POST /", BROWSER),
    ] {
        let got = proxy
            .raw(format!(
                "{line} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: 0\r\nconnection: close\r\n\r\n"
            ))
            .await;
        assert!(got.ends_with("{\"up\":1}"), "{line} {lines}: {got}");
    }
}
