//! The listener: TLS, header limits, drain.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy::testing::{Act, Proxy, Script, config};
use crate::state::config::{ClientKey, Secret};

async fn client<S>(stream: S) -> SendRequest<Full<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn ask(sender: &mut SendRequest<Full<Bytes>>, path: &str) -> (u16, Bytes) {
    let request = Request::post(path)
        .header("host", "localhost")
        .body(Full::from("{}"))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn tls_with_a_certificate_of_ones_own() {
    let upstream = Script::saying("[1]").await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut config = config(&upstream.url);
    (config.server.at.tls_cert, config.server.at.tls_key) = (Some(chain), Some(key.clone()));
    let proxy = Proxy::start(config.clone());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // As browsers and Go offer it: the first protocol that both sides have is taken.
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let stream = TcpStream::connect(proxy.addr).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut sender = client(connector.connect(name, stream).await.unwrap()).await;
    assert_eq!(ask(&mut sender, "/v1/messages").await, (200, Bytes::from("[1]")));

    (config.server.at.tls_cert, config.server.at.tls_key) = (Some(key.clone()), Some(key));
    assert!(
        crate::proxy::server::bind(&config).is_err(),
        "a key is no certificate"
    );
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let proxy = Proxy::start(config("http://127.0.0.1:9"));
    let request = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: {}\r\n\r\n",
        "x".repeat(80 << 10)
    );
    let mut stream = TcpStream::connect(proxy.addr).await.unwrap();
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}

#[tokio::test]
async fn shutdown_lets_open_streams_end_within_the_drain_time() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n";
    let upstream = Script::start(vec![Act::Hang(head.into())]).await;
    let mut config = config(&upstream.url);
    config.server.drain = Duration::from_millis(300);
    let mut proxy = Proxy::start(config);
    let mut idle = TcpStream::connect(proxy.addr).await.unwrap();
    let mut agent = proxy.send("GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut piece = [0; 1024];
    assert!(agent.read(&mut piece).await.unwrap() > 0);
    proxy.stop();
    let read = idle.read(&mut piece).await.unwrap_or(0);
    assert_eq!(read, 0, "idle connections end at once");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!proxy.running.is_finished(), "the stream has its time");
    let another = TcpStream::connect(proxy.addr).await;
    assert!(another.is_err(), "no new connections");
    upstream.closed(1).await;
    (&mut proxy.running).await.unwrap();
    proxy.events(1).await;
}

#[tokio::test]
async fn connections_are_capped_and_idle_ones_do_not_keep_others_out() {
    let upstream = Script::start(vec![Act::Answer(crate::proxy::testing::ok("{}"))]).await;
    let mut config = config(&upstream.url);
    config.limits.max_connections = 4;
    let proxy = Proxy::start(config);
    let request = b"GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut piece = [0; 1024];
    let mut kept = Vec::new();
    for at in 0..8 {
        let mut agent = proxy.send(request).await;
        let n = agent.read(&mut piece).await.unwrap();
        let got = String::from_utf8_lossy(&piece[..n]).into_owned();
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        assert_eq!(got.contains("connection: close"), at >= 3, "{at}: {got}");
        kept.push(agent);
    }
    // A silent connection holds the last permit, so a new one waits until it is free.
    let silent = TcpStream::connect(proxy.addr).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut agent = proxy.send(request).await;
    let early = tokio::time::timeout(Duration::from_millis(200), agent.read(&mut piece)).await;
    assert!(early.is_err(), "there is no place");
    // After a second without a request it gives way.
    assert!(agent.read(&mut piece).await.unwrap() > 0);
    drop(silent);
}

/// Where clients are required, only one that presents a key keeps a connection.
#[tokio::test]
async fn nobody_without_a_key_keeps_others_out() {
    let upstream = Script::saying("{}").await;
    let mut config = config(&upstream.url);
    config.limits.max_connections = 8;
    config.clients = vec![ClientKey {
        name: "ada".to_owned(),
        key: Some(Secret::new("client-key-of-ada")),
        ..ClientKey::default()
    }];
    let proxy = Proxy::start(config);
    let mut piece = [0; 1024];
    for (line, status) in [
        ("GET /", "200"),
        ("CONNECT a:443", "401"),
        ("GET /v1/models", "401"),
    ] {
        let mut stranger = TcpStream::connect(proxy.addr).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n");
        stranger.write_all(request.as_bytes()).await.unwrap();
        let mut got = String::new();
        stranger.read_to_string(&mut got).await.unwrap();
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {got}");
        assert!(got.contains("connection: close"), "{line}: {got}");
    }
    let mut ada = TcpStream::connect(proxy.addr).await.unwrap();
    let request = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: client-key-of-ada\r\n\r\n";
    ada.write_all(request).await.unwrap();
    assert!(ada.read(&mut piece).await.unwrap() > 0);
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(proxy.addr).await.unwrap());
    }
    let mut later = TcpStream::connect(proxy.addr).await.unwrap();
    later.write_all(request).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(10), later.read(&mut piece)).await;
    assert!(answered.expect("the silent ones gave way").unwrap() > 0);
    ada.write_all(request).await.unwrap();
    assert!(ada.read(&mut piece).await.unwrap() > 0, "admitted before");
}
