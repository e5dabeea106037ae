//! Test helpers: scripted upstreams over plain sockets, and the real listener.

use std::collections::BTreeMap;
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
use crate::state::telemetry::ExchangeEvent;
use baton_core::handoffs::carry::CarryScope;
use baton_core::handoffs::draft::ReviewPolicy;

/// A config whose upstreams are all at `base_url`.
pub(crate) fn config(base_url: &str) -> Config {
    let upstream = UpstreamConfig {
        base_url: base_url.to_owned(),
        wire: None,
        headers: Vec::new(),
        api_key: None,
        connect: Duration::from_secs(2),
        idle: Duration::from_secs(5),
        paths: Vec::new(),
        trace_context: false,
        ca_file: None,
    };
    let names = ["anthropic", "openai", "gemini", "chatgpt", "codeassist"];
    Config {
        bill: Default::default(),
        brake: Default::default(),
        server: ListenerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            hosts: ["baton", "x"].map(str::to_owned).to_vec(),
            origins: Vec::new(),
            tls_cert: None,
            tls_key: None,
            drain: Duration::from_secs(2),
            stop_delay: Duration::ZERO,
            trusted: Vec::new(),
            upstreams: Vec::new(),
            clients_dir: None,
        },
        admin: Admin {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ..Admin::default()
        },
        state_dir: PathBuf::new(),
        store: StoreKind::Memory.into(),
        upstreams: names
            .map(|n| (n.to_owned(), upstream.clone()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        clients: Vec::new(),
        refused_clients: Vec::new(),
        secret_files: Vec::new(),
        variables: Vec::new(),
        handoff: HandoffPolicy {
            mode: HandoffMode::Continue,
            inject: InjectPolicy::Never,
            transcript: TranscriptDetail::Full,
            preamble: PreambleMode::Keep,
            preamble_tags: Vec::new(),
            description: None,
            max_chain: 8,
            seal_keys: Vec::new(),
            seal_key_dir: None,
            keepalive: Duration::from_secs(10),
            retries: 3,
            thresholds: Default::default(),
            nudge_limit: false,
            nudge_wording: Default::default(),
            subagents: Default::default(),
            windows: Default::default(),
            save_dir: None,
            append_missing: CarryScope::All,
            append_tokens: 1200,
            review: ReviewPolicy::Never,
            when_cache_cold: baton_core::plan::FreeCutPolicy::Off,
            routes: Vec::new(),
            cache_lifetime: None,
        },
        documents: DocumentPolicy::default(),
        commands: ChatCommandPolicy {
            prefix: String::new(),
        },
        draft: DraftPolicy {
            git_dir: None,
            markers: Vec::new(),
            facts_tokens: 3000,
            bundle_tokens: 8000,
            method: baton_core::handoffs::draft::DraftMethod::Oneshot,
            model: None,
            max_tokens: 16_384,
            timeout: Duration::from_secs(180),
            prompts_dir: None,
            expires: Duration::from_secs(86_400),
            secret_files: Vec::new(),
        },
        recall: crate::state::config::RecallPolicy {
            enabled: true,
            per_turn: 3,
        },
        log: Log {
            level: "info",
            json: false,
            requests: false,
        },
        telemetry: crate::state::config::Telemetry { otlp_endpoint: None },
        journal: Journal {
            enabled: false,
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(86_400),
            redact: Vec::new(),
            secrets: Vec::new(),
            queue_bytes: 64 << 20,
            response_bytes: 8 << 20,
            cache_bytes: 1 << 20,
        },
        limits: LimitConfig {
            body_bytes: 1 << 20,
            bodies_bytes: 64 << 20,
            body_rate: 1 << 10,
            header_bytes: 64 << 10,
            frame_bytes: 1 << 20,
            tool_arguments_bytes: 1 << 20,
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
        },
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
        let app = Arc::new(
            App::new(
                config,
                Arc::new(crate::state::store::sqlite::SqliteStore::in_memory().unwrap()),
                baton_core::marker::seal::SealKey::new(*b"test"),
            )
            .unwrap(),
        );
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

    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Sends raw bytes and reads until the proxy closes.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(request.as_ref()).await.unwrap();
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
