//! Test helpers: scripted upstreams over plain sockets, and the real listener.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{Gateway, server};
use crate::app::App;
use crate::state::config::*;
use crate::state::store::sqlite::SqliteStore;
use crate::state::telemetry::ExchangeEvent;
use baton_core::marker::seal::SealKey;

/// A config whose upstreams are all at `base_url`.
pub(crate) fn config(base_url: &str) -> Config {
    let mut config = Config::default_for_tests();
    for upstream in config.upstreams.values_mut() {
        base_url.clone_into(&mut upstream.base_url);
        (upstream.connect, upstream.idle) = (Duration::from_secs(2), Duration::from_secs(5));
    }
    config.server.hosts = ["baton", "x"].map(str::to_owned).to_vec();
    config.server.drain = Duration::from_secs(2);
    config.state_dir = PathBuf::new();
    config.journal.enabled = false;
    config.commands.prefix.clear();
    Config {
        brake: Default::default(),
        documents: DocumentPolicy::default(),
        handoff: HandoffPolicy {
            inject: InjectPolicy::Never,
            preamble_tags: Vec::new(),
            thresholds: Default::default(),
            nudge_limit: false,
            subagents: Default::default(),
            ..config.handoff
        },
        limits: LimitConfig {
            body_bytes: 1 << 20,
            bodies_bytes: 64 << 20,
            header_bytes: 64 << 10,
            frame_bytes: 1 << 20,
            request_buffer_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            client_bytes_per_day: 1 << 30,
            max_concurrent_requests: 16,
            max_connections: 256,
            upstream_idle: 16,
            waits: AgentWaits {
                place: Duration::from_millis(100),
                room: Duration::from_secs(1),
                rate_window: Duration::from_millis(400),
                unread: Duration::ZERO,
                stalled: Duration::from_secs(2),
            },
            ..config.limits
        },
        ..config
    }
}

/// Advances paused time in small steps, so that no timer of seconds fires while a byte is on its way.
pub(crate) fn small_steps() {
    tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// The proxy on a real listener.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    events: Arc<Mutex<Vec<ExchangeEvent>>>,
    pub(crate) app: Arc<App>,
    pub(crate) gateway: Arc<Gateway>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) running: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) fn start(config: Config) -> Self {
        let bound = server::bind(&config).unwrap();
        let addr = bound.addr();
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let app = Arc::new(App::new(config, store, SealKey::new(*b"test")).unwrap());
        let events_hook = Arc::new(move |e: Box<ExchangeEvent>| sink.lock().unwrap().push(*e));
        let gateway = Arc::new(crate::service::gateway(&app, events_hook).unwrap());
        let (stop, stopped) = oneshot::channel();
        let stopped = Box::pin(async {
            let _ = stopped.await;
        });
        let running = tokio::spawn(bound.run(server::slot(gateway.clone()), stopped, Arc::default()));
        Self {
            addr,
            events,
            app,
            gateway,
            stop: Some(stop),
            running,
        }
    }

    /// Starts an upstream and a proxy before it.
    pub(crate) async fn before(acts: Vec<Act>) -> (Script, Self) {
        let upstream = Script::start(acts).await;
        let proxy = Self::start(config(&upstream.url));
        (upstream, proxy)
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Sends raw bytes on a new connection.
    pub(crate) async fn send(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(request.as_ref()).await.unwrap();
        stream
    }

    /// Sends a GET with these header lines.
    pub(crate) async fn get(&self, target: &str, lines: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
        self.raw(request).await
    }

    /// Sends raw bytes and reads until the proxy closes.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.send(request).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a POST of `body` with further header lines.
    pub(crate) async fn post(&self, path: &str, lines: &str, body: &[u8]) -> String {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: baton\r\nconnection: close\r\ncontent-length: {}\r\n{lines}\r\n",
            body.len()
        );
        self.raw([head.as_bytes(), body].concat()).await
    }

    /// Waits for `count` events and returns all of them.
    pub(crate) async fn events(&self, count: usize) -> Vec<ExchangeEvent> {
        for _ in 0..300 {
            let events = self.events.lock().unwrap().clone();
            if events.len() >= count {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} events: {:?}", self.events.lock().unwrap());
    }
}

/// Reaction of an upstream to a request that it has read.
#[derive(Clone)]
pub(crate) enum Act {
    /// Writes this and closes.
    Answer(Bytes),
    /// Writes this and waits for the proxy to close.
    Hang(Bytes),
    /// Writes this and waits for the next request.
    Keep(Bytes),
    /// Closes without a response.
    Close,
}

/// A scripted upstream, whose connections follow the script together.
///
/// The n-th request gets the n-th act, and requests beyond the last act get the last one.
pub(crate) struct Script {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    closed: Arc<Mutex<usize>>,
}

impl Script {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(Mutex::new(0));
        let (seen, gone) = (received.clone(), closed.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(play(stream, acts.clone(), seen.clone(), gone.clone()));
            }
        });
        Self {
            url,
            received,
            closed,
        }
    }

    /// Starts an upstream that answers everything with 200 and this body.
    pub(crate) async fn saying(body: &str) -> Self {
        Self::start(vec![Act::Answer(ok(body))]).await
    }

    /// Heads and bodies of the requests so far.
    pub(crate) fn received(&self) -> Vec<(String, Vec<u8>)> {
        let all = self.received.lock().unwrap();
        all.iter()
            .map(|bytes| {
                let end = head_end(bytes).unwrap();
                (
                    String::from_utf8_lossy(&bytes[..end]).into_owned(),
                    bytes[end..].to_vec(),
                )
            })
            .collect()
    }

    /// Waits until the proxy has closed `count` hanging connections.
    pub(crate) async fn closed(&self, count: usize) {
        for _ in 0..300 {
            if *self.closed.lock().unwrap() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("upstream's connection is still open");
    }
}

/// A 200 with a length.
pub(crate) fn ok(body: &str) -> Bytes {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into()
}

async fn play(
    mut stream: TcpStream,
    acts: Vec<Act>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    gone: Arc<Mutex<usize>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len() - 1
        };
        match &acts[at.min(acts.len() - 1)] {
            Act::Close => return,
            Act::Keep(bytes) => stream.write_all(bytes).await.unwrap(),
            Act::Answer(bytes) => {
                stream.write_all(bytes).await.unwrap();
                let _ = stream.shutdown().await;
                return;
            }
            Act::Hang(bytes) => {
                stream.write_all(bytes).await.unwrap();
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {}
                *gone.lock().unwrap() += 1;
                return;
            }
        }
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads head and body of one request. `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = head_end(&bytes) {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .map_or(0, |l| l.parse().unwrap());
            let chunked = head.contains("transfer-encoding: chunked");
            if (chunked && bytes.ends_with(b"0\r\n\r\n")) || (!chunked && bytes.len() >= end + length) {
                return Some(bytes);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
