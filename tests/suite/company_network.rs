//! Upstreams behind a company's outbound proxy and its own certificate authority.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use baton_strict::{Options, Queue, Reply, Strict};
use serde_json::json;

use crate::harness::anthropic::Anthropic;
use crate::harness::program::{Program, baton, config_for, serve};
use crate::harness::texts::assert_begins;
use crate::harness::{AgentWire, RawResponse, post, temp};

/// An outbound proxy that tunnels to `target`, whatever host is asked for, and notes the heads of requests.
fn outbound_proxy(target: String, credentials: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heads);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            noted.lock().unwrap().push(head.clone());
            if !head.to_lowercase().contains(&credentials.to_lowercase()) {
                let _ = stream
                    .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
                continue;
            }
            let onward = TcpStream::connect(&target).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n")
                .unwrap();
            for (mut from, mut to) in [
                (stream.try_clone().unwrap(), onward.try_clone().unwrap()),
                (onward, stream),
            ] {
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    (address, heads)
}

/// A provider at `https://provider.test`, whose certificate only the file `chain.pem` vouches for.
async fn provider(dir: &Path) -> (Strict, Program) {
    let replies = std::iter::repeat_with(|| Reply::text("Hello.")).take(9);
    let provider = Strict::start(Queue::new(replies), Options::default())
        .await
        .unwrap();
    let made = rcgen::generate_simple_self_signed(["provider.test".to_owned()]).unwrap();
    fs::write(dir.join("chain.pem"), made.cert.pem()).unwrap();
    fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let more = format!(
        "server.hosts = ['provider.test']\nserver.tls_cert = '{0}/chain.pem'\nserver.tls_key = '{0}/key.pem'\n",
        dir.display()
    );
    let front = Program::start(&config_for(&provider, dir, &more), &dir.join("front"));
    (provider, front)
}

async fn ask(program: &Program) -> RawResponse {
    let body = Anthropic
        .body(&[json!({"role": "user", "content": "Hello."})], true)
        .to_string();
    post(
        &format!("{}/v1/messages", program.data),
        Anthropic.headers(),
        body.into(),
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_are_reached_through_the_proxy_of_the_environment() {
    let dir = temp();
    let (_provider, front) = provider(dir.path()).await;
    let address = front.data.strip_prefix("https://").unwrap().to_owned();
    let port = address.split(':').nth(1).unwrap().to_owned();
    // `user:secret-word`, as basic authentication.
    let credentials = "dXNlcjpzZWNyZXQtd29yZA==";
    let (proxy, heads) = outbound_proxy(address, credentials);
    let state = dir.path().join("state");
    let start = |variables: &[(&str, &str)]| {
        let mut command = serve(&state);
        command
            .env(
                "BATON_UPSTREAMS__ANTHROPIC__BASE_URL",
                format!("https://provider.test:{port}"),
            )
            .env(
                "BATON_UPSTREAMS__ANTHROPIC__CA_FILE",
                dir.path().join("chain.pem"),
            );
        for name in [
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
            "NO_PROXY",
            "no_proxy",
        ] {
            command.env_remove(name);
        }
        Program::launch(command.envs(variables.iter().copied()))
    };
    let as_user = |password: &str| format!("http://user:{password}@{proxy}");
    let with_credentials = as_user("secret-word");
    let program = start(&[("HTTPS_PROXY", &with_credentials)]);
    let answer = ask(&program).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("Hello."));
    let head = heads.lock().unwrap()[0].clone();
    assert_begins(&head, &format!("CONNECT provider.test:{port} HTTP/1.1"));
    assert!(!head.contains("x-api-key"), "{head}");
    drop(program);
    // The error names the proxy, and not its password.
    let program = start(&[("https_proxy", &as_user("wrong-word"))]);
    let answer = ask(&program).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(answer.text().contains(&proxy), "{}", answer.text());
    assert!(!answer.text().contains("wrong-word"), "{}", answer.text());
    drop(program);
    let before = heads.lock().unwrap().len();
    let program = start(&[("HTTPS_PROXY", &with_credentials), ("NO_PROXY", "provider.test")]);
    let answer = ask(&program).await;
    assert_eq!(
        answer.status,
        502,
        "the name is only known to the proxy: {}",
        answer.text()
    );
    assert_eq!(heads.lock().unwrap().len(), before);
}

/// A value that names no proxy does not mean a direct connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_variable_is_an_error_that_names_it() {
    let dir = temp();
    for (variable, except, expected) in [
        ("HTTPS_PROXY", "", "HTTPS_PROXY is not the URL of a proxy"),
        ("all_proxy", "other.test", "all_proxy is not the URL of a proxy"),
        ("HTTPS_PROXY", "provider.test", "does not resolve"),
        ("HTTP_PROXY", "", "does not resolve"),
    ] {
        let mut command = serve(&dir.path().join("state"));
        command.env("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", "https://provider.test");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.env("NO_PROXY", except);
        let program = Program::launch(command.env(variable, "http://user:secret word@127.0.0.1:1"));
        let answer = ask(&program).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(answer.text().contains(expected), "{variable}: {}", answer.text());
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        let check = baton(dir.path(), &["check"])
            .env(variable, "http://user:secret word@127.0.0.1:1")
            .output();
        let said = String::from_utf8(check.unwrap().stdout).unwrap();
        assert!(said.contains(variable) && !said.contains("secret"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_upstream_is_never_asked_through_the_proxy() {
    let dir = temp();
    let provider = Strict::start(Queue::new([Reply::text("Hello.")]), Options::default())
        .await
        .unwrap();
    let (proxy, heads) = outbound_proxy("127.0.0.1:1".to_owned(), "");
    let mut command = serve(&dir.path().join("state"));
    command.env("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", provider.url());
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"] {
        command.env(name, format!("http://{proxy}"));
    }
    let program = Program::launch(command.env_remove("NO_PROXY").env_remove("no_proxy"));
    let answer = ask(&program).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(*heads.lock().unwrap(), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_authority_file_is_an_error_at_start() {
    let dir = temp();
    for (text, expected) in [
        ("nothing", "no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "ca.pem",
        ),
    ] {
        fs::write(dir.path().join("ca.pem"), text).unwrap();
        let mut command = serve(&dir.path().join("state"));
        command.env("BATON_UPSTREAMS__ANTHROPIC__CA_FILE", dir.path().join("ca.pem"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
}
