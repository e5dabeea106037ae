//! Keys for the listeners and the state directory.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::{SectionKeys, TOKEN_CHARS, key};
use crate::access::peers::AddressRange;
use crate::config::Secret;
use crate::config::addresses::{host, origin};

#[rustfmt::skip]
pub(super) const SERVER: SectionKeys = &[
    &key("listen", |c| &mut c.server.at.listen, |v, _| v.address()).restart(),
    &key("hosts", |c| &mut c.server.hosts, |v, _| v.names(host)),
    &key("origins", |c| &mut c.server.origins, |v, _| v.names(origin)),
    &key("trusted", |c| &mut c.server.trusted, |v, _| v.address_ranges()),
    &key("upstreams", |c| &mut c.server.upstreams, |v, _| v.texts(1)).optional(),
    &key("clients_dir", |c| &mut c.server.clients_dir, |v, e| v.path(e).map(Some)).optional(),
    &key("tls_cert", |c| &mut c.server.at.tls_cert, |v, e| v.file(e).map(Some)).optional(),
    &key("tls_key", |c| &mut c.server.at.tls_key, |v, e| v.file(e).map(Some)).optional(),
    &key("stop_delay_secs", |c| &mut c.server.stop_delay, |v, _| v.secs(0.0, 300.0)).restart(),
    &key("drain_secs", |c| &mut c.server.drain, |v, _| v.secs(0.0, 3600.0)).restart(),
];

#[rustfmt::skip]
pub(super) const ADMIN: SectionKeys = &[
    &key("listen", |c| &mut c.admin.at.listen, |v, _| v.address()).restart(),
    &key("token", |c| &mut c.admin.token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
    &key("read_token", |c| &mut c.admin.read_token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
    &key("metrics_token", |c| &mut c.admin.metrics_token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
    &key("tls_cert", |c| &mut c.admin.at.tls_cert, |v, e| v.file(e).map(Some)).optional().restart(),
    &key("tls_key", |c| &mut c.admin.at.tls_key, |v, e| v.file(e).map(Some)).optional().restart(),
];

#[rustfmt::skip]
pub(super) const STATE: SectionKeys = &[
    &key("dir", |c| &mut c.state_dir, |v, e| v.path(e)).optional().restart(),
];

/// Asks the system for a free loopback port.
const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Address and certificate of a listener.
#[derive(Debug, Clone)]
pub struct ListenAddress {
    /// Bind address. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// PEM files of the certificate chain and its key. Either both are set or neither.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

impl ListenAddress {
    /// Returns the files of the certificate chain and the key, or `None` for plain HTTP.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }

    /// Returns the scheme of the listener's URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls().is_some() { "https" } else { "http" }
    }
}

impl Default for ListenAddress {
    fn default() -> Self {
        Self {
            listen: FREE_PORT,
            tls_cert: None,
            tls_key: None,
        }
    }
}

/// Settings of the data listener.
#[derive(Debug, Clone, Default)]
pub struct ListenerConfig {
    pub at: ListenAddress,
    /// Additional host names accepted in `Host`, in lower case and without port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the proxy: `scheme://host[:port]`, lower case.
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` names the sender.
    pub trusted: Vec<AddressRange>,
    /// Names of the upstreams that requests reach. Empty if the config does not list them.
    pub upstreams: Vec<String>,
    /// Directory with a file for each client.
    pub clients_dir: Option<PathBuf>,
    /// How long connections are still accepted after a stop signal.
    pub stop_delay: Duration,
    /// How long open streams may continue after a stop signal.
    pub drain: Duration,
}

impl ListenerConfig {
    /// Whether other machines can reach the listener.
    ///
    /// They can if its address is not loopback, or if host names are configured: those are for a reverse proxy before
    /// it.
    pub fn is_shared(&self) -> bool {
        !self.at.listen.ip().is_loopback() || !self.hosts.is_empty()
    }
}

/// Settings of the admin listener.
#[derive(Debug, Clone, Default)]
pub struct Admin {
    pub at: ListenAddress,
    /// Token that permits every request. Required unless the address is loopback.
    pub token: Option<Secret>,
    /// Token that permits reading everything, but no changes.
    pub read_token: Option<Secret>,
    /// Token that permits only reading the metrics.
    pub metrics_token: Option<Secret>,
}

impl Admin {
    /// Returns the tokens, each with its key in the config.
    pub fn tokens(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        let all = [
            ("admin.token", &self.token),
            ("admin.read_token", &self.read_token),
            ("admin.metrics_token", &self.metrics_token),
        ];
        all.into_iter()
            .filter_map(|(key, token)| Some((key, token.as_ref()?)))
    }
}

#[rustfmt::skip]
pub(super) const LIMITS: SectionKeys = &[
    &key("body_bytes", |c| &mut c.limits.body_bytes, |v, _| v.count(1 << 10, 1 << 30)),
    &key("bodies_bytes", |c| &mut c.limits.bodies_bytes, |v, _| v.count(1 << 10, 1 << 40)).restart(),
    &key("body_rate", |c| &mut c.limits.body_rate, |v, _| v.count(0, 1 << 20)),
    &key("header_bytes", |c| &mut c.limits.header_bytes, |v, _| v.count(8 << 10, 1 << 20)),
    &key("frame_bytes", |c| &mut c.limits.frame_bytes, |v, _| v.count(64 << 10, 256 << 20)),
    &key("tool_arguments_bytes", |c| &mut c.limits.tool_arguments_bytes, |v, _| v.count(4 << 10, 64 << 20)),
    &key("request_buffer_bytes", |c| &mut c.limits.request_buffer_bytes, |v, _| v.count(0, 1 << 40)).restart(),
    &key("cache_bytes", |c| &mut c.limits.cache_bytes, |v, _| v.count(1 << 20, 1 << 40)).restart(),
    &key("client_bytes_per_day", |c| &mut c.limits.client_bytes_per_day, |v, _| v.count(1 << 20, 1 << 40)).restart(),
    &key("max_concurrent_requests", |c| &mut c.limits.max_concurrent_requests, |v, _| v.count(1, 1_000_000)).restart(),
    &key("max_connections", |c| &mut c.limits.max_connections, |v, _| v.count(1, 1_000_000)).restart(),
];

/// Maximum idle connections kept for each upstream: the usual number of agents working at the same time.
pub(super) const UPSTREAM_IDLE: usize = 64;

/// Limits. `config/baton.toml` gives the reason for each.
#[derive(Debug, Clone, Default)]
pub struct LimitConfig {
    /// Maximum bytes of a decompressed request body.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory (compressed and decompressed) and of buffered responses.
    pub bodies_bytes: usize,
    /// Minimum bytes per second of a request body. 0 accepts any progress.
    pub body_rate: usize,
    /// Maximum bytes of a header block.
    pub header_bytes: usize,
    /// Maximum bytes of one stream event.
    pub frame_bytes: usize,
    /// Maximum bytes of a hidden call's arguments.
    pub tool_arguments_bytes: usize,
    /// Maximum bytes of request bodies kept in memory while responses stream. Further bodies are spilled to
    /// disk.
    pub request_buffer_bytes: usize,
    /// Maximum bytes cached for the databases.
    ///
    /// Half is for prompts, a quarter for conversations, and a quarter for the journal's hashes.
    pub cache_bytes: usize,
    /// Maximum bytes of records that a client of a shared proxy writes to the store in a day.
    pub client_bytes_per_day: u64,
    /// Maximum concurrent exchanges.
    pub max_concurrent_requests: usize,
    /// Maximum concurrent connections of agents.
    pub max_connections: usize,
    /// Maximum idle connections kept for each upstream. Not a key: a constant, lowered if file descriptors
    /// are scarce.
    pub upstream_idle: usize,
    /// Timeouts toward agents, which no key sets.
    pub waits: AgentWaits,
}

/// Timeouts toward agents.
#[derive(Debug, Clone, Copy)]
pub struct AgentWaits {
    /// Maximum wait for a concurrency slot under `max_concurrent_requests`.
    ///
    /// It is as long as agents wait for a slow provider, because a refused agent would retry at once.
    pub place: Duration,
    /// Maximum wait for body memory under `bodies_bytes`.
    ///
    /// Agents would wait for minutes, but a refusal tells them the reason.
    pub room: Duration,
    /// Window over which a body's rate is measured, so that a short gap does not count.
    pub rate_window: Duration,
    /// Time between handing a response's last bytes to the connection and treating the response as read.
    ///
    /// An identical request within this time counts as a repeat, since agents retry within seconds. Zero
    /// treats every response as read at once.
    pub unread: Duration,
    /// Maximum time that an agent may read nothing of its response.
    ///
    /// Without it a stalled agent would hold its permit for ever. It is long because a user may have
    /// suspended the agent for a while.
    pub stalled: Duration,
}

impl Default for AgentWaits {
    fn default() -> Self {
        Self {
            place: Duration::from_secs(60),
            room: Duration::from_secs(10),
            rate_window: Duration::from_secs(30),
            unread: Duration::from_secs(10),
            stalled: Duration::from_secs(600),
        }
    }
}
