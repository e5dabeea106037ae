//! The config: raw text to checked values, every problem reported at once.
//!
//! This file holds the checked config. `raw` reads text and environment, `value` checks one value, `keys` is the
//! table of what exists, `load` puts the layers together and `rules` asks what one key cannot answer.

mod keys;
mod load;
mod names;
mod problem;
mod raw;
mod rules;
#[cfg(test)]
mod tests;
mod value;

pub use load::{DEFAULT_TEXT, Flags};
pub use problem::{Origin, Problem, ProblemKind};
pub use raw::Environment;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::record::WireId;

/// A config that has passed every check.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data listener.
    pub server: Server,
    /// The admin listener.
    pub admin: Admin,
    /// Where state lives.
    pub state_dir: PathBuf,
    /// Which store.
    pub store: StoreKind,
    /// Providers by name; `anthropic`, `openai` and `gemini` always exist.
    pub upstreams: BTreeMap<String, Upstream>,
    /// The proxy's own clients; none: everybody is `local`.
    pub clients: Vec<Client>,
    /// How handoffs behave.
    pub handoff: HandoffPolicy,
    /// Logging.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
    /// The journal.
    pub journal: Journal,
    /// Bounds.
    pub limits: Limits,
}

/// The data listener.
#[derive(Debug, Clone)]
pub struct Server {
    /// Address; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Host names, besides its own, under which the listener may be asked; lower case, without port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the proxy: `scheme://host[:port]`, lower case.
    pub origins: Vec<String>,
    /// Certificate chain and key in PEM; absent: plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How long open streams may go on after a stop signal.
    pub drain: Duration,
}

/// The admin listener.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Address; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Bearer token; required where the address is not loopback.
    pub token: Option<Secret>,
}

/// The store to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Lost at exit.
    Memory,
    /// One file in the state directory.
    Sqlite,
}

/// A provider.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Scheme, host, and a path prefix if any; no trailing slash.
    pub base_url: String,
    /// Its wire, where the path of a request does not tell.
    pub wire: Option<WireId>,
    /// Headers set on every request to it.
    pub headers: Vec<(String, Secret)>,
    /// A key of the proxy's own, set in the header its wire uses.
    pub api_key: Option<Secret>,
    /// Time to connect.
    pub connect: Duration,
    /// Longest silence between bytes of a response.
    pub idle: Duration,
}

/// A client of the proxy.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name: the principal.
    pub name: String,
    /// The key it presents.
    pub key: Secret,
}

/// How handoffs behave; each key is described in `config/baton.toml`.
#[derive(Debug, Clone)]
pub struct HandoffPolicy {
    /// Whether the next leg runs in the same response.
    pub mode: Mode,
    /// Whether the tool is offered.
    pub inject: Inject,
    /// What stands in the agent's transcript.
    pub transcript: Transcript,
    /// Whether the harness's preamble survives a cut.
    pub preamble: Preamble,
    /// Opening tags by which a preamble is recognised.
    pub preamble_tags: Vec<String>,
    /// The tool's description, where the built-in one is not wanted.
    pub description: Option<String>,
    /// Most legs for one agent request.
    pub max_chain: u32,
    /// Key of the seals, where replicas share one; absent: made at first start, in the state directory.
    pub seal_key: Option<Secret>,
    /// Silence after which a keep-alive is sent.
    pub keepalive: Duration,
    /// How often the next leg is tried again.
    pub retries: u32,
}

/// `handoff.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The next leg's response continues the same response.
    Continue,
    /// The response ends after the sentinel.
    Stop,
}

/// `handoff.inject`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inject {
    /// Agent loops get the tool.
    Auto,
    /// Nobody does.
    Never,
}

/// `handoff.transcript`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transcript {
    /// Opening line, prompt, closing line with the seal.
    Full,
    /// The opening line alone.
    Sentinel,
}

/// `handoff.preamble`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// Carried over in front of the prompt.
    Keep,
    /// Cut with the rest.
    Drop,
}

/// Logging.
#[derive(Debug, Clone)]
pub struct Log {
    /// A `tracing` filter: `info`, `baton=debug`, ….
    pub level: String,
    /// Text or JSON lines.
    pub json: bool,
    /// Rewritten requests in the log, too.
    pub requests: bool,
}

/// Traces.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// Base URL of an OTLP/HTTP collector; absent: no traces.
    pub otlp_endpoint: Option<String>,
}

/// The journal; each key is described in `config/baton.toml`.
#[derive(Debug, Clone)]
pub struct Journal {
    /// Whether anything is copied and written.
    pub enabled: bool,
    /// Most bytes of the file.
    pub max_bytes: u64,
    /// How long an exchange is kept.
    pub max_age: Duration,
    /// Regular expressions of texts that are never written down.
    pub redact: Vec<String>,
    /// The proxy's own keys, tokens and header values, from the rest of the config: never written down either.
    pub secrets: Vec<Secret>,
    /// Bytes that may wait to be written.
    pub queue_bytes: usize,
    /// Bytes kept of one answer.
    pub response_bytes: usize,
}

/// Bounds, each with its reason in `config/baton.toml`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Decompressed request body.
    pub body_bytes: usize,
    /// All request bodies under way together, decompressed and as they came, and the answers that are read whole.
    pub bodies_bytes: usize,
    /// Least bytes a second of a request body; 0: any at all.
    pub body_rate: usize,
    /// Time for the head of a request, from its first byte.
    pub head_time: Duration,
    /// Request and response header block.
    pub header_bytes: usize,
    /// One event of a stream.
    pub frame_bytes: usize,
    /// Collected arguments of hidden calls.
    pub held_bytes: usize,
    /// Requests kept in memory while their answers stream.
    pub shelf_bytes: usize,
    /// Exchanges under way at once.
    pub exchanges: usize,
    /// Connections of agents at once.
    pub connections: usize,
    /// Idle connections kept for each upstream. No key: as many as there are agents at work at once, usually, and fewer
    /// where descriptors are few.
    pub upstream_idle: usize,
}

/// Text that is never logged: its `Debug` and `Display` show dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The credential itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}
