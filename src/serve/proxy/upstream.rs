//! Upstreams: one client and connection pool each, and the faults that can occur before a response begins.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use super::connect::{self, Connector, Outbound, Served, chain};
use super::download::UpstreamBody;
use super::exchange_recorder::Progress;
use super::fault::{Code, Fault};
use super::min_rate::{MinRateBody, Stopped};
use super::upload::{RopeBody, SendBody, UploadSource};
use crate::state::access::hosts;
use crate::state::config::{self, Config, LimitConfig};
use crate::state::telemetry::ServerAddress;

/// Maximum idle time of a pooled connection.
///
/// Providers and their load balancers drop idle connections after a minute or more, and baton must do so first.
const POOL_IDLE: Duration = Duration::from_secs(50);

/// Maximum header lines of one response.
///
/// The library's own limit is 100, and some gateways send more. Each line costs 64 bytes that are written
/// before a head is parsed, on the way to the first event.
const HEADER_LINES: usize = 256;

/// Minimum buffer size that hyper accepts, in bytes.
pub(super) const SMALLEST_BUFFER: usize = 8192;

/// All upstreams, by name.
#[derive(Clone)]
pub struct Upstreams(BTreeMap<String, Arc<Upstream>>);

impl Upstreams {
    /// Creates a client for each upstream without opening a connection.
    ///
    /// # Errors
    /// TLS cannot be set up, or a `ca_file` cannot be read.
    pub fn new(config: &Config) -> io::Result<Self> {
        let outbound = Outbound::from_system()?;
        let upstreams = config.upstreams.iter().map(|(name, upstream)| {
            let client = Upstream::new(name, upstream, &config.limits, &outbound)?;
            let is_guarded = config.requires_clients() && is_guarded(name, upstream);
            Ok((name.clone(), Arc::new(Upstream { is_guarded, ..client })))
        });
        upstreams.collect::<io::Result<_>>().map(Self)
    }

    /// Variables of the environment that are to name an outbound proxy, and do not. Requests that need it fail.
    pub fn broken_proxies() -> impl Iterator<Item = String> {
        connect::broken_proxies()
    }

    /// Returns the upstream with this name in the config.
    pub fn get(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.0.get(name)
    }
}

/// An upstream with its client and connection pool.
pub struct Upstream {
    /// Name in the config.
    pub name: String,
    /// Section of the config.
    pub config: config::UpstreamConfig,
    /// Whether its server would let clients reach more than they may.
    pub(super) is_guarded: bool,
    /// Host and port, for traces.
    pub(super) server: Option<ServerAddress>,
    client: Client<Connector, SendBody>,
    /// Warnings that were already logged for this upstream, one bit each.
    logged: AtomicU8,
}

/// Response to a request, or the fault that prevented it.
pub type UpstreamResult = Result<Response<UpstreamBody>, Fault>;

/// Failure of a request before its response head arrived.
struct Failed {
    fault: Fault,
    /// Whether the connection had served before, and may just have been stale.
    reused: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, reused: false }
    }
}

impl Upstream {
    fn new(
        name: &str,
        config: &config::UpstreamConfig,
        limits: &LimitConfig,
        outbound: &Outbound,
    ) -> io::Result<Self> {
        let connector = Connector::new(config.connect, config.ca_file.as_deref(), outbound)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(limits.upstream_idle)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(limits.header_bytes.max(SMALLEST_BUFFER))
            .http1_max_headers(HEADER_LINES)
            .build(connector);
        Ok(Self {
            name: name.to_owned(),
            server: server_address(&config.base_url),
            config: config.clone(),
            is_guarded: false,
            client,
            logged: AtomicU8::new(0),
        })
    }

    /// Whether this warning is new for this upstream. Marks it as logged.
    pub(super) fn first_time(&self, thing: u8) -> bool {
        self.logged.fetch_or(thing, Relaxed) & thing == 0
    }

    /// Sends a request with a buffered body to `target`, which is appended to the base URL unchanged.
    ///
    /// If a pooled connection turns out to be closed before any byte of a response, the request is sent again
    /// on another one, with the headers that `again` rebuilds.
    ///
    /// # Errors
    /// No response began. The fault's code names the stage.
    pub async fn send(
        &self,
        method: &Method,
        target: &str,
        headers: HeaderMap,
        again: impl FnOnce() -> HeaderMap + Send,
        body: RopeBody,
    ) -> UpstreamResult {
        let first = self.request(method, target, headers)?;
        match self.attempt(first, body.clone()).await {
            // Only a reused connection can be stale. A fresh one that closes is upstream's doing.
            Err(failed) if failed.reused && failed.fault.code == Code::CLOSED => {
                let again = self.request(method, target, again())?;
                self.attempt(again, body).await
            }
            done => done,
        }
        .map_err(|failed| failed.fault)
    }

    async fn attempt(&self, request: Request<()>, body: RopeBody) -> Result<Response<UpstreamBody>, Failed> {
        let progress = Progress::start();
        let request = request.map(|()| SendBody::new(UploadSource::Buffered(body), progress.clone()));
        self.answer(request, &progress).await
    }

    /// Sends a request whose body the agent is still sending. `progress` counts it.
    ///
    /// There is no second attempt, because the body is gone after the first.
    pub(super) async fn relay(
        &self,
        method: &Method,
        target: &str,
        headers: HeaderMap,
        body: MinRateBody,
        progress: &Arc<Progress>,
    ) -> UpstreamResult {
        let request = self.request(method, target, headers)?;
        let request = request.map(|()| SendBody::new(UploadSource::Agent(body), progress.clone()));
        let answer = self.answer(request, progress).await;
        answer.map_err(|failed| failed.fault)
    }

    /// Returns the URL of a request to `target` without its query, which may hold keys.
    pub fn address(&self, target: &str) -> String {
        let path = target.split('?').next().unwrap_or_default();
        [self.config.base_url.as_str(), path].concat()
    }

    fn request(&self, method: &Method, target: &str, headers: HeaderMap) -> Result<Request<()>, Fault> {
        let uri = [self.config.base_url.as_str(), target].concat();
        let uri = Uri::try_from(uri).map_err(|e| Fault::because(Code::BAD_TARGET, e.to_string()))?;
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Waits for the response head.
    ///
    /// The idle time runs from the last byte sent, because neither connecting nor a long upload is silence.
    async fn answer(
        &self,
        request: Request<SendBody>,
        progress: &Progress,
    ) -> Result<Response<UpstreamBody>, Failed> {
        let idle = self.config.idle;
        let mut response = std::pin::pin!(self.client.request(request));
        let start = Instant::now();
        let mut due = start + idle;
        loop {
            match tokio::time::timeout_at(due, response.as_mut()).await {
                // The agent asked for no other protocol, and would take the next bytes for a response.
                Ok(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(Fault::because(Code::UNREADABLE, "it switches protocols").into());
                }
                Ok(Ok(response)) => return Ok(begun(response, idle)),
                Ok(Err(error)) => {
                    let (fault, reused) = (classify(&error), served_before(&error));
                    return Err(Failed { fault, reused });
                }
                Err(_) => {
                    // Nothing was sent, so the client may still be connecting.
                    let last = match progress.bytes() {
                        0 => start + self.config.connect,
                        _ => Instant::from_std(progress.last()),
                    };
                    due = last + idle;
                    if due <= Instant::now() {
                        let detail = format!("{} s", idle.as_secs_f32());
                        return Err(Fault::because(Code::SILENT, detail).into());
                    }
                }
            }
        }
    }
}

/// Name of a server, and of its wire, whose own paths load and delete models for whoever reaches it.
const OLLAMA: &str = "ollama";

/// Whether clients reach only the models of an upstream.
///
/// Elsewhere they present a credential of their own, which the upstream checks.
fn is_guarded(name: &str, upstream: &config::UpstreamConfig) -> bool {
    let is_ollama = name == OLLAMA || upstream.wire.is_some_and(|wire| wire.name() == OLLAMA);
    upstream.has_own_key() || is_ollama || hosts::is_private(&upstream.host())
}

fn server_address(base_url: &str) -> Option<ServerAddress> {
    let url: Uri = base_url.parse().ok()?;
    let own = match url.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    Some(ServerAddress {
        host: url.host()?.to_owned(),
        port: url.port_u16().unwrap_or(own),
    })
}

fn begun(response: Response<Incoming>, idle: Duration) -> Response<UpstreamBody> {
    if let Some(served) = response.extensions().get::<Served>() {
        // A connection that has delivered a head may be stale when it is reused.
        served.one_more();
    }
    response.map(|body| UpstreamBody::new(body, idle))
}

fn classify(error: &ClientError) -> Fault {
    let chain = || chain(error);
    // The connector's fault is wrapped in the client's error.
    if let Some(fault) = chain().find_map(|e| e.downcast_ref::<Fault>()) {
        return fault.clone();
    }
    let mut library = chain().filter_map(|e| e.downcast_ref::<hyper::Error>());
    let unparsed = library.find(|e| e.is_parse());
    // If the agent's upload failed, the fault is the agent's and not upstream's.
    let code = match chain().find_map(|e| e.downcast_ref::<Stopped>()) {
        Some(Stopped::Broken(_)) => Code::BODY_BROKEN,
        Some(Stopped::Slow) => Code::BODY_TIMEOUT,
        None => match unparsed.map(hyper::Error::is_parse_too_large) {
            Some(true) => Code::HEAD_TOO_LARGE,
            Some(false) => Code::UNREADABLE,
            None => Code::CLOSED,
        },
    };
    let detail = chain().last().map(ToString::to_string).unwrap_or_default();
    Fault::because(code, detail)
}

fn served_before(error: &ClientError) -> bool {
    let mut found = Extensions::new();
    if let Some(info) = error.connect_info() {
        info.get_extras(&mut found);
    }
    found.get::<Served>().is_some_and(Served::any)
}
