use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::readiness::{Check, Report, State};
use super::*;
use crate::state::config::Secret;
use crate::state::prices;
use crate::state::store::sqlite::SqliteStore;

struct Running {
    address: std::net::SocketAddr,
    up: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start(token: Option<&str>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let up = Arc::new(AtomicBool::new(true));
    let requested = Arc::clone(&up);
    let ready: Ready = Arc::new(move || {
        let ready = requested.load(Ordering::SeqCst);
        let write = Check {
            name: "store_write",
            state: if ready { State::Ok } else { State::Failed },
            required: true,
            why: Some("/home/x/baton.db is gone".into()),
        };
        let report = Report {
            ready,
            degraded: false,
            stopping: false,
            checks: vec![write],
        };
        Box::pin(async move { report })
    });
    let mut config = Config::default_for_tests();
    config.admin.token = token.map(Secret::new);
    let store: SharedStore = Arc::new(SqliteStore::in_memory().unwrap());
    let state = AdminState {
        metrics: Arc::new(Metrics::new()),
        ready,
        config: Arc::new(config),
        journal: Recorder::off(),
        drafting: Arc::new(DraftQueue::expiring_after(Duration::ZERO)),
        sessions: Arc::new(Sessions::new(Arc::clone(&store), 1)),
        store,
        prices: prices::table(None).unwrap(),
        data_listener: None,
        instance: String::new(),
        started: Instant::now(),
    };
    let (stop, stopped) = oneshot::channel();
    let stopped = Box::pin(async {
        let _ = stopped.await;
    });
    let served = tokio::spawn(serve(listener, None, Arc::new(state), stopped));
    Running {
        address,
        up,
        stop,
        served,
    }
}

impl Running {
    async fn ask(&self, start: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{start} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn status(&self, start: &str, headers: &str) -> String {
        self.ask(start, headers).await[9..12].to_owned()
    }
}

const LOCAL: &str = "host: localhost\r\n";
const FOREIGN: &str = "host: evil.example\r\n";
const AUTHORIZED: &str = "authorization: Bearer 0123456789abcdef\r\n";

#[tokio::test]
async fn pages_answer_and_the_rest_is_json() {
    let running = start(None).await;
    assert!(running.ask("GET /healthz", LOCAL).await.ends_with("ok\n"));
    assert_eq!(running.status("GET /readyz", LOCAL).await, "200");
    assert!(running.ask("GET /", LOCAL).await.contains("baton"));
    let metrics = running.ask("GET /metrics", LOCAL).await;
    assert!(metrics.contains("baton_open_exchanges 0"));
    assert!(metrics.contains("content-type: text/plain; version=0.0.4") && !metrics.contains("# EOF"));
    for (accept, open) in [
        ("application/openmetrics-text; version=1.0.0", true),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            true,
        ),
        ("text/plain;q=0.9, application/openmetrics-text;q=0.1", false),
        ("application/openmetrics-text;q=0", false),
        ("text/html, */*", false),
    ] {
        let headers = format!("{LOCAL}accept: {accept}\r\n");
        let metrics = running.ask("GET /metrics", &headers).await;
        assert_eq!(metrics.contains("openmetrics-text"), open, "{accept}");
        assert_eq!(metrics.contains("# EOF"), open, "{accept}");
    }
    let missing = running.ask("GET /nope", LOCAL).await;
    assert!(missing.starts_with("HTTP/1.1 404") && missing.contains("\"code\":\"not_found\""));
    assert_eq!(running.status("POST /metrics", LOCAL).await, "405");
    running.up.store(false, Ordering::SeqCst);
    let missing = running.ask("GET /readyz", LOCAL).await;
    assert!(missing.starts_with("HTTP/1.1 503"), "{missing}");
    assert!(
        missing.ends_with("not ready: store_write\n"),
        "which, and no path: {missing}"
    );
    for accept in ["application/json", "text/plain, application/json;q=0.5"] {
        let reply = running
            .ask("GET /readyz", &format!("{LOCAL}accept: {accept}\r\n"))
            .await;
        assert!(
            reply.starts_with("HTTP/1.1 503") && reply.contains("content-type: application/json"),
            "{reply}"
        );
        let expected = r#"{"ready":false,"degraded":false,"stopping":false,"checks":[{"name":"store_write","state":"failed","required":true}]}"#;
        assert_eq!(
            reply.trim_end().lines().last(),
            Some(expected),
            "which, and no path"
        );
    }
    assert_eq!(running.status("GET /healthz", LOCAL).await, "200");
}

#[tokio::test]
async fn a_change_is_known_by_method_and_path() {
    let running = start(None).await;
    for change in [
        "POST /api/conversations/a/handoff",
        "DELETE /api/drafts/d",
        "POST /api/drafts/d/accept",
        "POST /api/drafts/d/reject",
    ] {
        let answer = running.ask(change, LOCAL).await;
        assert!(answer.contains("\"code\":\"no_proxy\""), "{change}: {answer}");
    }
    for other in [
        "POST /api/drafts/d",
        "DELETE /api/drafts/d/accept",
        "PUT /api/drafts/d/reject",
        "POST /api/drafts/d/accept/x",
        "POST /api/conversations",
        "POST /api/handoffs/h",
    ] {
        assert_eq!(running.status(other, LOCAL).await, "405", "{other}");
    }
}

#[tokio::test]
async fn foreign_hosts_see_health_alone() {
    let running = start(None).await;
    assert_eq!(running.status("GET /metrics", FOREIGN).await, "403");
    assert_eq!(running.status("GET /", FOREIGN).await, "403");
    assert_eq!(running.status("GET /nope", FOREIGN).await, "403");
    assert_eq!(running.status("GET /healthz", FOREIGN).await, "200");
}

#[tokio::test]
async fn a_request_names_one_host() {
    for token in [None, Some("0123456789abcdef")] {
        let running = start(token).await;
        let twice = [LOCAL, LOCAL, AUTHORIZED].concat();
        let foreign = [LOCAL, FOREIGN, AUTHORIZED].concat();
        for headers in [twice, foreign] {
            for path in [
                "GET /",
                "GET /healthz",
                "GET /api/conversations",
                "POST /api/nope",
            ] {
                let answer = running.ask(path, &headers).await;
                assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
                assert!(answer.contains("\"code\":\"bad_host\""), "{path}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_is_required() {
    let running = start(Some("0123456789abcdef")).await;
    assert_eq!(running.status("GET /metrics", LOCAL).await, "401");
    let headers = &[FOREIGN, AUTHORIZED].concat();
    assert_eq!(running.status("GET /metrics", headers).await, "200");
    assert_eq!(running.status("GET /readyz", FOREIGN).await, "200");
}

/// More silent connections than the listener holds, from somebody without a token.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let running = start(Some("0123456789abcdef")).await;
    let headers = &[FOREIGN, AUTHORIZED].concat();
    let mut page = TcpStream::connect(running.address).await.unwrap();
    let kept = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n");
    page.write_all(kept.as_bytes()).await.unwrap();
    assert!(page.read(&mut [0; 1 << 16]).await.unwrap() > 0);
    let mut silent = Vec::new();
    for _ in 0..2 * server::CONNECTIONS {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    assert_eq!(running.status("GET /healthz", LOCAL).await, "200");
    assert_eq!(running.status("GET /metrics", headers).await, "200");
    page.write_all(kept.as_bytes()).await.unwrap();
    assert!(page.read(&mut [0; 1 << 16]).await.unwrap() > 0, "admitted before");
}

/// Whatever the status of a refusal, its connection gives way: also one for two `Host` lines.
#[tokio::test]
async fn refused_connections_keep_nobody_out() {
    let running = start(Some("0123456789abcdef")).await;
    let mut refused = Vec::new();
    for _ in 0..server::CONNECTIONS {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let ambiguous = format!("GET /x HTTP/1.1\r\n{LOCAL}{LOCAL}\r\n");
        stream.write_all(ambiguous.as_bytes()).await.unwrap();
        // The last ones were closed already, because the listener was full.
        let _ = stream.read(&mut [0; 1 << 12]).await;
        refused.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(running.status("GET /healthz", LOCAL).await, "200");
    }
}

#[tokio::test]
async fn it_stops_on_a_signal() {
    let running = start(None).await;
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}
