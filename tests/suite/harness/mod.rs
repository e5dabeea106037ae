//! The real proxy with the strict provider as upstream, and a small agent that talks to the proxy over a
//! socket.

mod agent_wire;
pub mod anthropic;
pub mod cases;
pub mod fixture;
pub mod program;
pub mod quirks;
#[allow(dead_code, reason = "the library's tests use all of it")]
pub mod redis;
pub mod texts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::handoffs::carry::CarryScope;
use baton_core::marker::seal::SealKey;
use baton_llm::serve::app::App;
use baton_llm::serve::proxy::server;
use baton_llm::serve::service;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::drafts::DraftQueue;
use baton_llm::state::journal::Recorder;
use baton_llm::state::session::Sessions;
use baton_llm::state::store::SharedStore;
use baton_llm::state::store::sqlite::SqliteStore;
use baton_llm::state::telemetry::ExchangeEvent;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::task::JoinHandle;

pub use self::agent_wire::{AgentWire, Message};

/// Seal key of every test.
pub const KEY: &[u8] = b"suite-test-key";

/// A response as received.
#[derive(Debug)]
pub struct RawResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub raw: Vec<u8>,
    pub broken: bool,
}

impl RawResponse {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

/// The default configuration with every upstream at `url`, and delays that suit a test.
pub fn config(url: &str) -> Config {
    let mut config = Config::default_for_tests();
    for upstream in config.upstreams.values_mut() {
        url.clone_into(&mut upstream.base_url);
    }
    config.server.drain = Duration::ZERO;
    // Spill every request to a file while its response streams.
    config.limits.request_buffer_bytes = 0;
    // Tests repeat a request although they have read the first response.
    config.limits.waits.unread = Duration::ZERO;
    config.state_dir = memory_dir();
    // Most tests of the cut check only the prompt. The appended block has tests of its own.
    config.handoff.append_missing = CarryScope::Rules;
    config
}

fn memory_dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

pub fn memory() -> SharedStore {
    Arc::new(SqliteStore::in_memory().unwrap())
}

/// Runs git in a directory with a fixed identity. Returns whether it succeeded.
pub fn git(dir: &std::path::Path, args: &[&str]) -> bool {
    let done = std::process::Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(args)
        .output();
    done.is_ok_and(|done| done.status.success())
}

/// Creates a temporary directory, in memory if the system supports it, because these tests do not test the
/// disk.
pub fn temp() -> tempfile::TempDir {
    tempfile::tempdir_in(memory_dir()).unwrap()
}

pub fn sqlite(dir: &Path) -> SharedStore {
    Arc::new(SqliteStore::open(dir).unwrap())
}

/// A listening proxy. Dropping it stops it with all its connections.
pub struct Baton {
    pub addr: SocketAddr,
    /// Drafts of its conversations.
    pub drafting: Arc<DraftQueue>,
    /// Conversations of the proxy.
    pub sessions: Arc<Sessions>,
    events: Arc<Mutex<Vec<ExchangeEvent>>>,
    task: JoinHandle<()>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Baton {
    pub fn start(config: Config, store: SharedStore) -> Self {
        Self::with_key(config, store, KEY)
    }

    pub fn with_key(config: Config, store: SharedStore, key: &[u8]) -> Self {
        Self::journaled(config, store, key, Recorder::off())
    }

    pub fn journaled(config: Config, store: SharedStore, key: &[u8], journal: Recorder) -> Self {
        Self::changed(config, store, key, journal, |app| app)
    }

    /// Starts a proxy with settings that no configuration key sets.
    pub fn changed(
        config: Config,
        store: SharedStore,
        key: &[u8],
        journal: Recorder,
        change: impl FnOnce(App) -> App,
    ) -> Self {
        let bound = server::bind(&config).unwrap();
        let addr = bound.addr();
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let noted = journal.clone();
        let tap = Arc::new(move |event: Box<ExchangeEvent>| {
            noted.end(event.clone());
            sink.lock().unwrap().push(*event);
        });
        let mut app = App::new(config, store, SealKey::new(key)).unwrap();
        app.journal = journal;
        let app = Arc::new(change(app));
        let drafting = Arc::clone(&app.drafting);
        let sessions = Arc::clone(&app.sessions);
        let gateway = Arc::new(service::gateway(&app, tap).unwrap());
        let task = tokio::spawn(bound.run(
            server::slot(gateway),
            Box::pin(std::future::pending()),
            Arc::default(),
        ));
        Self {
            addr,
            drafting,
            sessions,
            events,
            task,
            client: client(),
        }
    }

    /// Waits until there are `count` events, and returns all events so far.
    pub async fn events(&self, count: usize) -> Vec<ExchangeEvent> {
        for _ in 0..300 {
            let events = self.events.lock().unwrap().clone();
            if events.len() >= count {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} events: {:?}", self.events.lock().unwrap());
    }

    /// Sends a request and returns the response as soon as its head has arrived.
    pub async fn open(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> http::Response<Incoming> {
        open(
            &self.client,
            &format!("http://{}{path}", self.addr),
            headers,
            body,
        )
        .await
    }

    /// Sends a request and reads the response to its end, or until the connection breaks.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> RawResponse {
        read(self.open(path, headers, body).await).await
    }

    /// Sends a turn of an agent.
    pub async fn turn(&self, variant: &impl AgentWire, body: &Value) -> RawResponse {
        self.post(variant.path(), variant.headers(), body.to_string().into())
            .await
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends a request to any server.
pub async fn open(
    client: &Client<HttpConnector, Full<Bytes>>,
    url: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> http::Response<Incoming> {
    let mut request = Request::post(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client
        .request(request.body(Full::new(body)).unwrap())
        .await
        .unwrap()
}

/// Sends a request to any server and reads the response.
pub async fn post(url: &str, headers: &[(&str, &str)], body: Bytes) -> RawResponse {
    read(open(&client(), url, headers, body).await).await
}

/// Reads a response to its end, or until the connection breaks.
pub async fn read(response: http::Response<Incoming>) -> RawResponse {
    let (parts, mut body) = response.into_parts();
    let mut reply = RawResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        raw: Vec::new(),
        broken: false,
    };
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => reply.raw.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                reply.broken = true;
                break;
            }
        }
    }
    reply
}

/// Reads a response until it contains `mark`. Returns the bytes read, and the body.
pub async fn read_until(response: http::Response<Incoming>, mark: &str) -> (Vec<u8>, Incoming) {
    let mut body = response.into_body();
    let mut raw = Vec::new();
    while memchr::memmem::find(&raw, mark.as_bytes()).is_none() {
        let frame = body.frame().await;
        let frame = frame.unwrap_or_else(|| panic!("no {mark:?} in {}", String::from_utf8_lossy(&raw)));
        raw.extend(frame.unwrap().into_data().unwrap_or_default());
    }
    (raw, body)
}
