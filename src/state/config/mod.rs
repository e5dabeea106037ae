//! The config: parses raw text into checked values and reports all problems at once.
//!
//! This file and the sections next to it define the checked config. `raw` reads text and environment. `value` checks
//! single values; `addresses`, `secrets` and `names` check those of their kinds. `keys` is the table of keys,
//! `load` merges the layers, and `rules` checks what involves several keys.

mod addresses;
mod handoff_sections;
mod keys;
mod load;
mod names;
mod problem;
mod raw;
mod rules;
mod secret;
mod secrets;
mod store_address;
mod store_section;
#[cfg(test)]
mod tests;
mod value;

pub use handoff_sections::{
    ChatCommandPolicy, DocumentPolicy, DraftPolicy, FreeCutPolicy, HandoffMode, HandoffPolicy, HandoffRoute,
    InjectPolicy, PreambleMode, RecallPolicy, ReviewPolicy, SubagentThresholds, TranscriptDetail,
};
pub use load::{DEFAULT_TEXT, Flags};
pub use problem::{KeyOrigin, Problem, ProblemKind};
pub use raw::Environment;
pub use secret::Secret;
pub use store_address::{StoreAddress, Topology};
pub use store_section::{ServerDurability, StoreConfig, StoreKind, StoreRetention};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::handoffs::draft;
use baton_core::record::WireId;
use baton_core::redact::Redactor;

/// A config that has passed every check.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data listener.
    pub server: ListenerConfig,
    /// The admin listener.
    pub admin: Admin,
    /// Directory of the store, the journal and the seal keys.
    pub state_dir: PathBuf,
    pub store: StoreConfig,
    /// Providers by name; `anthropic`, `openai` and `gemini` always exist.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// The proxy's own clients. If empty, every request is `local`.
    pub clients: Vec<ClientKey>,
    /// Handoff settings.
    pub handoff: HandoffPolicy,
    /// Commands in the chat.
    pub commands: ChatCommandPolicy,
    /// How drafts are made.
    pub draft: DraftPolicy,
    /// Documents of handoffs.
    pub documents: DocumentPolicy,
    /// The search of what was cut.
    pub recall: RecallPolicy,
    /// Logging.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
    pub journal: Journal,
    pub bill: Bill,
    /// Limits.
    pub limits: LimitConfig,
}

impl Config {
    /// The folder with the files of the seal keys, where the config gives none.
    pub fn seal_key_dir(&self) -> &std::path::Path {
        self.handoff.seal_key_dir.as_deref().unwrap_or(&self.state_dir)
    }
}

/// The data listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Bind address; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Additional host names accepted in `Host`; lower case, without port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the proxy: `scheme://host[:port]`, lower case.
    pub origins: Vec<String>,
    /// Files of the certificate chain and the key (PEM); `None` for plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How long open streams may continue after a stop signal.
    pub drain: Duration,
}

/// The admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Bind address; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Bearer token; required unless the address is loopback.
    pub token: Option<Secret>,
}

/// A provider.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// Scheme, host and an optional path prefix; no trailing slash.
    pub base_url: String,
    /// Its wire, where a request's path does not determine it.
    pub wire: Option<WireId>,
    /// Headers set on every request to it.
    pub headers: Vec<(String, Secret)>,
    /// The proxy's own API key, sent in the header that its wire uses.
    pub api_key: Option<Secret>,
    /// Connect timeout.
    pub connect: Duration,
    /// Idle timeout: maximum time between two reads of a response.
    pub idle: Duration,
}

impl UpstreamConfig {
    /// The host of its URL, by which prices are found; empty where it has none.
    pub fn host(&self) -> String {
        let url: Option<http::Uri> = self.base_url.parse().ok();
        url.as_ref()
            .and_then(http::Uri::host)
            .unwrap_or_default()
            .to_owned()
    }
}

/// A client of the proxy.
#[derive(Debug, Clone)]
pub struct ClientKey {
    /// Its name: the principal.
    pub name: String,
    /// The key it presents.
    pub key: Secret,
}

impl Config {
    /// The folder with the documents of handoffs.
    pub fn handoffs_dir(&self) -> PathBuf {
        let given = self.documents.dir.clone();
        given.unwrap_or_else(|| self.state_dir.join("handoffs"))
    }

    /// The repository that handoffs are compared with: that of the documents, else that of the drafts.
    pub fn repository(&self) -> Option<&Path> {
        self.documents
            .git_dir
            .as_deref()
            .or(self.draft.git_dir.as_deref())
    }

    /// Takes credentials, and the proxy's own secrets, out of what is kept of transcripts.
    pub fn redactor(&self) -> Redactor {
        Redactor::lazy(&self.journal.redact)
            .knowing(self.journal.secrets.iter().map(Secret::reveal))
            .with_secret_files(&self.draft.secret_files)
    }

    /// How transcripts are read for drafts, documents and facts; `carry_over` is the prompt that they begin with.
    pub fn draft_settings(
        &self,
        carry_over: Option<String>,
        redactor: Redactor,
    ) -> draft::DraftIndexSettings {
        draft::DraftIndexSettings {
            tags: self.handoff.preamble_tags.clone(),
            markers: small(&self.draft.markers),
            verdicts: self.documents.verdict_paths.clone(),
            assumptions: small(&self.documents.assumption_words),
            carry_overs: carry_over.into_iter().collect(),
            redactor,
        }
    }
}

fn small(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}

/// Logging.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// A `tracing` filter: `info`, `baton=debug`, ….
    pub level: String,
    /// Whether lines are JSON.
    pub json: bool,
    /// Whether rewritten requests are logged.
    pub requests: bool,
}

/// Traces.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Base URL of an OTLP/HTTP collector; `None`: no traces.
    pub otlp_endpoint: Option<String>,
}

/// Settings of the bill.
#[derive(Debug, Clone, Default)]
pub struct Bill {
    /// A price table in place of the embedded one.
    pub prices: Option<PathBuf>,
}

/// Journal settings; `config/baton.toml` describes each key.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Whether the journal is kept.
    pub enabled: bool,
    /// Maximum bytes of the file and its write-ahead log.
    pub max_bytes: u64,
    /// How long an exchange is kept.
    pub max_age: Duration,
    /// Regular expressions of texts to be redacted.
    pub redact: Vec<String>,
    /// The proxy's own keys, tokens and header values from the rest of the config, also redacted.
    pub secrets: Vec<Secret>,
    /// Maximum bytes waiting to be written.
    pub queue_bytes: usize,
    /// Maximum bytes kept of one answer.
    pub response_bytes: usize,
    /// Maximum bytes of its caches. Not a key: its share of `limits.cache_bytes`.
    pub cache_bytes: usize,
}

/// Limits; `config/baton.toml` gives the reason of each.
#[derive(Debug, Clone, Default)]
pub struct LimitConfig {
    /// Maximum bytes of a decompressed request body.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory (compressed and decompressed) and of answers that are buffered.
    pub bodies_bytes: usize,
    /// Minimum bytes per second of a request body; 0: any progress at all.
    pub body_rate: usize,
    /// Maximum bytes of a header block.
    pub header_bytes: usize,
    /// Maximum bytes of one stream event.
    pub frame_bytes: usize,
    /// Maximum bytes of a hidden call's arguments.
    pub held_bytes: usize,
    /// Maximum bytes of request bodies kept in memory while responses stream; more are spilled to disk.
    pub shelf_bytes: usize,
    /// Maximum bytes cached in front of the databases: half of it prompts, a quarter conversations, a quarter the journal's hashes.
    pub cache_bytes: usize,
    /// Maximum concurrent exchanges.
    pub exchanges: usize,
    /// Maximum concurrent connections of agents.
    pub connections: usize,
    /// Maximum idle connections kept for each upstream. Not a key: a constant, lowered where file descriptors are few.
    pub upstream_idle: usize,
    /// Waits for agents that no key sets.
    pub waits: AgentWaits,
}

/// How long the listener waits for agents.
#[derive(Debug, Clone, Copy)]
pub struct AgentWaits {
    /// Time in which a request gets a place among `exchanges`. It is held for as long as agents wait for a slow provider: one that is
    /// refused comes again at once.
    pub place: Duration,
    /// Time in which a body gets room under `bodies_bytes`: agents wait for minutes, but one that is refused can say so.
    pub room: Duration,
    /// Time over which the rate of a body is measured, so that a short gap does not count.
    pub rate_window: Duration,
    /// How long after an answer's end was handed to its connection the agent counts as having read it. Until then the same
    /// request is a repeated one: agents retry within seconds. Zero: at once.
    pub unread: Duration,
    /// An agent that reads nothing of its response for this long is given up; without a bound it would hold its permit for
    /// ever. A person may have suspended it for a while.
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
