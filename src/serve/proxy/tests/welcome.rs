//! Requests of a browser to the data listener.

use crate::proxy::testing::{Proxy, Script, config};
use crate::state::config::{ClientKey, Secret};

const ACCEPT: &str = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

#[tokio::test]
async fn a_browser_gets_one_plain_page() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.admin.listen = "127.0.0.1:8788".parse().unwrap();
    config.clients = vec![ClientKey {
        name: "ada".to_owned(),
        key: Some(Secret::new("client-key-of-ada")),
        ..ClientKey::default()
    }];
    for place in config.upstreams.values_mut() {
        place.api_key = Some(Secret::new("sk-the-proxys-own"));
    }
    let proxy = Proxy::start(config);
    let ask = |head: &str| proxy.raw(format!("{head}{ACCEPT}connection: close\r\n\r\n"));
    // Even if a link of another site led to it.
    for more in ["", "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n"] {
        let got = ask(&format!("GET / HTTP/1.1\r\nhost: localhost:8787\r\n{more}")).await;
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        for part in [
            "content-type: text/html; charset=utf-8\r\n",
            "content-security-policy: default-src 'none'; ",
            "x-frame-options: DENY\r\n",
            "ANTHROPIC_BASE_URL=http://localhost:8787\n",
            "OPENAI_BASE_URL=http://localhost:8787/v1\n",
            "GOOGLE_GEMINI_BASE_URL=http://localhost:8787<",
            "<a href=\"http://127.0.0.1:8788/\">",
        ] {
            assert!(got.contains(part), "{part} not in {got}");
        }
        for part in ["<script", "style=", "<img", "sk-the", "of-ada", "ada"] {
            assert!(!got.contains(part), "{part} in {got}");
        }
    }
    let got = ask("HEAD / HTTP/1.1\r\nhost: localhost\r\n").await;
    assert!(
        got.starts_with("HTTP/1.1 200") && got.ends_with("\r\n\r\n"),
        "{got}"
    );
    let got = ask("GET / HTTP/1.1\r\nhost: evil.example\r\n").await;
    assert!(got.contains("x-baton-error: foreign_host"), "{got}");
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn what_names_the_host_is_text() {
    let mut config = config("http://127.0.0.1:9");
    config.server.hosts = vec!["<script>'&\"".to_owned()];
    config.admin.listen = "0.0.0.0:8788".parse().unwrap();
    let proxy = Proxy::start(config);
    let got = proxy
        .raw(format!(
            "GET / HTTP/1.1\r\nhost: <script>'&\"\r\n{ACCEPT}connection: close\r\n\r\n"
        ))
        .await;
    assert!(!got.contains("<script"), "{got}");
    assert!(
        got.contains("http://&lt;script&gt;&#39;&amp;&quot;") && got.contains("port 8788 of this machine"),
        "{got}"
    );
}

#[tokio::test]
async fn an_agents_probe_is_answered_here_in_one_line() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.admin.listen = "127.0.0.1:8788".parse().unwrap();
    let proxy = Proxy::start(config);
    let ask = |line: &str, lines: &str| {
        proxy.raw(format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\n{lines}connection: close\r\n\r\n"
        ))
    };
    for lines in [
        "",
        "accept: */*\r\n",
        "accept: application/json\r\nx-api-key: sk-ant-x\r\n",
    ] {
        let got = ask("GET /", lines).await;
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        let line =
            "baton, a proxy for the APIs of language models; its inspector is at http://127.0.0.1:8788/\n";
        assert!(got.ends_with(&format!("\r\n\r\n{line}")), "{got}");
        let got = ask("HEAD /", lines).await;
        assert!(
            got.starts_with("HTTP/1.1 200") && got.ends_with("\r\n\r\n"),
            "{got}"
        );
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn agents_get_what_upstream_says() {
    let upstream = Script::saying("{\"up\":1}").await;
    let proxy = Proxy::start(config(&upstream.url));
    for (line, lines) in [
        ("GET /v1/models", ACCEPT),
        ("GET /u/openai/", ACCEPT),
        ("POST /", ACCEPT),
    ] {
        let got = proxy
            .raw(format!(
                "{line} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: 0\r\nconnection: close\r\n\r\n"
            ))
            .await;
        assert!(got.ends_with("{\"up\":1}"), "{line} {lines}: {got}");
    }
}
