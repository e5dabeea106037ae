//! Keys for upstreams (providers) and for the clients that may use the proxy.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{ConfigKey, TOKEN_CHARS, row};
use crate::config::Secret;
use baton_core::brake::BrakePolicy;
use baton_core::record::WireId;

#[rustfmt::skip]
pub(in crate::config) const UPSTREAM: &[&dyn ConfigKey<UpstreamConfig>] = &[
    &row("base_url", |u: &mut UpstreamConfig| &mut u.base_url, |v, _| v.base_url()),
    &row("wire", |u: &mut UpstreamConfig| &mut u.wire, |v, _| v.choice(WireId::ALL, WireId::name).map(Some)).optional(),
    &row("headers", |u: &mut UpstreamConfig| &mut u.headers, |v, e| v.headers(e)).optional(),
    &row("api_key", |u: &mut UpstreamConfig| &mut u.api_key, |v, e| v.header_secret(e).map(Some)).optional(),
    &row("paths", |u: &mut UpstreamConfig| &mut u.paths, |v, _| v.paths()).optional(),
    &row("trace_context", |u: &mut UpstreamConfig| &mut u.trace_context, |v, _| v.flag()).optional(),
    &row("ca_file", |u: &mut UpstreamConfig| &mut u.ca_file, |v, e| v.file(e).map(Some)).optional(),
    &row("connect_secs", |u: &mut UpstreamConfig| &mut u.connect, |v, _| v.secs(0.1, 300.0)).optional(),
    &row("idle_secs", |u: &mut UpstreamConfig| &mut u.idle, |v, _| v.secs(1.0, 7200.0)).optional(),
];

#[rustfmt::skip]
pub(in crate::config) const CLIENT: &[&dyn ConfigKey<ClientKey>] = &[
    &row("name", |c: &mut ClientKey| &mut c.name, |v, _| v.text()).optional(),
    &row("key", |c: &mut ClientKey| &mut c.key, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional(),
    &row("key_sha256", |c: &mut ClientKey| &mut c.key_sha256, |v, _| v.sha256().map(Some)).optional(),
];

/// Keys of a file in the directory of clients. The file's name is the client's.
pub(in crate::config) const CLIENT_FILE: &[&dyn ConfigKey<ClientKey>] = CLIENT.split_at(1).1;

/// Settings of an upstream: one provider.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Scheme, host and an optional path prefix, without a trailing slash.
    pub base_url: String,
    /// Wire for requests whose path does not determine it.
    pub wire: Option<WireId>,
    /// Headers set on every request to this upstream.
    pub headers: Vec<(String, Secret)>,
    /// The proxy's API key for this upstream, sent in the header that the wire uses.
    pub api_key: Option<Secret>,
    /// Paths that clients may use in addition to those of models. A trailing `*` stands for any end.
    pub paths: Vec<String>,
    /// Whether the trace context of a request is sent to this upstream.
    pub trace_context: bool,
    /// PEM file with the only roots that the upstream's certificate may have.
    pub ca_file: Option<PathBuf>,
    /// Connect timeout.
    pub connect: Duration,
    /// Idle timeout: maximum time between two reads of a response.
    pub idle: Duration,
}

impl UpstreamConfig {
    /// Returns the host of the base URL, which selects the prices. Empty if the URL has none.
    pub fn host(&self) -> String {
        let url: Option<http::Uri> = self.base_url.parse().ok();
        let host = url.as_ref().and_then(http::Uri::host);
        host.unwrap_or_default().to_owned()
    }
}

/// Default of `upstreams.NAME.connect_secs`, as documented.
const CONNECT: Duration = Duration::from_secs(10);
/// Default of `upstreams.NAME.idle_secs`, as documented.
const IDLE: Duration = Duration::from_secs(600);

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            wire: None,
            headers: Vec::new(),
            api_key: None,
            paths: Vec::new(),
            trace_context: false,
            ca_file: None,
            connect: CONNECT,
            idle: IDLE,
        }
    }
}

/// A client of the proxy.
///
/// A checked one has either its key or the digest of its key.
#[derive(Debug, Clone, Default)]
pub struct ClientKey {
    /// Name of the client: the principal of its requests.
    pub name: String,
    /// Key that the client presents.
    pub key: Option<Secret>,
    /// SHA-256 digest of that key.
    pub key_sha256: Option<[u8; 32]>,
    /// File in the directory of clients. `None` for an entry of the config.
    pub file: Option<PathBuf>,
    /// The client's own limits. Those that it leaves open are the limits of all clients.
    pub brake: BrakePolicy,
}

impl ClientKey {
    /// Returns the SHA-256 digest of the client's key.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.key.as_ref().map(Secret::digest).or(self.key_sha256)
    }
}

/// Maximum of a budget in tokens, and in model calls.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// Maximum of a budget in minutes: about two years.
const MAX_MINUTES: u64 = 1_000_000;

/// Keys of the section `brake`, and of the table `brake` of a client.
#[rustfmt::skip]
pub(in crate::config) const BRAKE: &[&dyn ConfigKey<BrakePolicy>] = &[
    &row("session_dollars", |b: &mut BrakePolicy| &mut b.session.microdollars, |v, _| v.dollars()).optional(),
    &row("session_tokens", |b: &mut BrakePolicy| &mut b.session.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("session_calls", |b: &mut BrakePolicy| &mut b.session.calls, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("session_minutes", |b: &mut BrakePolicy| &mut b.session.millis, |v, _| v.count(1, MAX_MINUTES).map(|minutes| minutes * 60_000)).optional(),
    &row("day_dollars", |b: &mut BrakePolicy| &mut b.day.microdollars, |v, _| v.dollars()).optional(),
    &row("day_tokens", |b: &mut BrakePolicy| &mut b.day.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    &row("directory_dollars", |b: &mut BrakePolicy| &mut b.directory.microdollars, |v, _| v.dollars()).optional(),
    &row("directory_tokens", |b: &mut BrakePolicy| &mut b.directory.tokens, |v, _| v.count(1, MAX_COUNT)).optional(),
    // In hundredths of a percent, because providers state whole percents or a few more digits.
    &row("plan_window_share", |b: &mut BrakePolicy| &mut b.plan.share, |v, _| v.share(0.01).map(|share| (share * 10_000.0).round() as u64)).optional(),
    &row("no_progress", |b: &mut BrakePolicy| &mut b.no_progress, |v, _| v.flag().map(Some)),
    &row("may_raise", |b: &mut BrakePolicy| &mut b.may_raise, |v, _| v.flag().map(Some)),
];
