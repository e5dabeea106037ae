//! The config: parses raw text into checked values and reports all problems at once.
//!
//! This file defines the checked config. `raw` reads text and environment, `value` checks single values (`peers` those of replicas), `keys` is the
//! table of keys, `load` merges the layers, and `rules` checks what involves several keys.

mod keys;
mod load;
mod names;
mod peers;
mod problem;
mod raw;
mod rules;
mod store_address;
#[cfg(test)]
mod tests;
mod value;

pub use load::{DEFAULT_TEXT, Flags};
pub use problem::{Origin, Problem, ProblemKind};
pub use raw::Environment;
pub use store_address::{StoreAddress, Topology};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::draft::{self, Method};
use crate::nudge::{Thresholds, Windows};
use crate::record::WireId;
use crate::redact::Redactor;

/// A config that has passed every check.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data listener.
    pub server: Server,
    /// The admin listener.
    pub admin: Admin,
    /// Directory of the store, the journal and the seal keys.
    pub state_dir: PathBuf,
    /// The store.
    pub store: Store,
    /// Providers by name; `anthropic`, `openai` and `gemini` always exist.
    pub upstreams: BTreeMap<String, Upstream>,
    /// The proxy's own clients. If empty, every request is `local`.
    pub clients: Vec<Client>,
    /// Handoff settings.
    pub handoff: HandoffPolicy,
    /// Commands in the chat.
    pub commands: Commands,
    /// How drafts are made.
    pub draft: DraftPolicy,
    /// Documents of handoffs.
    pub packets: Packets,
    /// The search of what was cut.
    pub recall: RecallPolicy,
    /// Logging.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
    /// The journal.
    pub journal: Journal,
    /// Limits.
    pub limits: Limits,
}

impl Config {
    /// The folder with the files of the seal keys, where the config gives none.
    pub fn seal_key_dir(&self) -> &std::path::Path {
        self.handoff.seal_key_dir.as_deref().unwrap_or(&self.state_dir)
    }
}

/// The data listener.
#[derive(Debug, Clone)]
pub struct Server {
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
#[derive(Debug, Clone)]
pub struct Admin {
    /// Bind address; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Bearer token; required unless the address is loopback.
    pub token: Option<Secret>,
    /// What this process is called beside its peers; `None`: its address.
    pub name: Option<String>,
    /// The other processes whose exchanges the inspector shows, too.
    pub peers: Vec<Peer>,
    /// Where the others reach this listener; no trailing slash. With it this process registers itself in a store that it
    /// shares, and finds those that did.
    pub url: Option<String>,
}

/// Another process behind the same balancer.
#[derive(Debug, Clone)]
pub struct Peer {
    /// What it is called; its host and port, where the config does not say.
    pub name: String,
    /// URL of its admin listener; no trailing slash.
    pub url: String,
    /// Its `admin.token`.
    pub token: Option<Secret>,
}

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    /// Its kind.
    pub kind: StoreKind,
    /// The server; always there with [`StoreKind::Redis`].
    pub address: Option<StoreAddress>,
    /// What makes a write to a server durable.
    pub durability: Durability,
    /// In front of every key in a server.
    pub prefix: String,
    /// How long a call to a server may take.
    pub timeout: Duration,
    /// Certificates (PEM) that the server's is signed by; `None`: Mozilla's roots.
    pub ca_file: Option<PathBuf>,
    /// How long records are kept.
    pub keep: Keep,
}

/// How long records are kept that nothing uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Conversations.
    pub conversations: Duration,
    /// Hidden pairs.
    pub pairs: Duration,
    /// Cut points, and texts behind turns.
    pub places: Duration,
    /// Response ids.
    pub response_ids: Duration,
    /// Handoffs; `None`: for ever.
    pub handoffs: Option<Duration>,
}

/// As documented: people resume a session after weeks, rarely after months.
impl Default for Keep {
    fn default() -> Self {
        let days = Duration::from_secs(90 * 24 * 60 * 60);
        Self {
            conversations: days,
            pairs: days,
            places: days,
            response_ids: days,
            handoffs: None,
        }
    }
}

/// A store of that kind; the kinds on this machine need no more.
impl From<StoreKind> for Store {
    fn from(kind: StoreKind) -> Self {
        Self {
            kind,
            address: None,
            durability: Durability::Fsync,
            prefix: "baton".to_owned(),
            timeout: Duration::from_secs(2),
            ca_file: None,
            keep: Keep::default(),
        }
    }
}

/// The store to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory, lost at exit.
    Memory,
    /// One SQLite file in the state directory.
    Sqlite,
    /// A server that several processes share: Redis or Valkey.
    Redis,
}

/// What makes a write to a server durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A replica has it.
    Replicated,
    /// It is in the server's append-only file, flushed.
    Fsync,
    /// The server has it in memory.
    Memory,
}

/// A provider.
#[derive(Debug, Clone)]
pub struct Upstream {
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

/// A client of the proxy.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name: the principal.
    pub name: String,
    /// The key it presents.
    pub key: Secret,
}

/// Handoff settings; `config/baton.toml` describes each key.
#[derive(Debug, Clone)]
pub struct HandoffPolicy {
    /// Whether the next leg continues the same response.
    pub mode: Mode,
    /// Whether the tool is offered.
    pub inject: Inject,
    /// What is written into the agent's transcript.
    pub transcript: Transcript,
    /// Whether the harness's preamble is kept at a cut.
    pub preamble: PreambleMode,
    /// Opening tags that identify a preamble.
    pub preamble_tags: Vec<String>,
    /// Replaces the built-in description of the tool.
    pub description: Option<String>,
    /// Maximum number of legs for one agent request.
    pub max_chain: u32,
    /// `seal_key`: the seal keys shared by replicas, the one that makes seals first; none: generated at first start in the
    /// state directory.
    pub seal_keys: Vec<Secret>,
    /// `seal_key_dir`: the folder with the files of the seal keys; `None`: the state directory.
    pub seal_key_dir: Option<PathBuf>,
    /// Time without output after which a keep-alive is sent.
    pub keepalive: Duration,
    /// Maximum retries of a later leg.
    pub retries: u32,
    /// When the model is told that its context fills up, and when its session is handed over.
    pub thresholds: Thresholds,
    /// What differs for subagents.
    pub subagents: SubagentThresholds,
    /// Windows of models.
    pub windows: Windows,
    /// Where the prompts of automatic handoffs are kept as files.
    pub save_dir: Option<PathBuf>,
    /// Where what the proxy saw stands behind a carry-over prompt.
    pub facts: FactsPolicy,
    /// Which drafts wait for a person's yes.
    pub review: Review,
}

impl HandoffPolicy {
    /// The thresholds of an agent, or of a subagent.
    pub fn thresholds_of(&self, subagent: bool) -> Thresholds {
        if !subagent {
            return self.thresholds;
        }
        Thresholds {
            nudge_at: self.subagents.nudge_at.unwrap_or(self.thresholds.nudge_at),
            nudge_tokens: self
                .subagents
                .nudge_tokens
                .unwrap_or(self.thresholds.nudge_tokens),
            auto_at: self.subagents.auto_at.unwrap_or(self.thresholds.auto_at),
        }
    }
}

/// Documents of handoffs.
#[derive(Debug, Clone, Default)]
pub struct Packets {
    /// Whether any is written.
    pub enabled: bool,
    /// Where; `None`: `packets` in the state directory.
    pub dir: Option<PathBuf>,
    /// The repository whose branch, commit and uncommitted files a packet tells.
    pub git_dir: Option<PathBuf>,
    /// What packets are about; `None`: the session.
    pub topic: Option<String>,
    /// Patterns of files that hold a verification or a review.
    pub verdict_paths: Vec<String>,
    /// URL of Agent Mail's MCP endpoint.
    pub agent_mail_url: Option<String>,
    /// Bearer token for it.
    pub agent_mail_token: Option<Secret>,
    /// Tokens that agents registered with, by name.
    pub agent_mail_agents: Vec<(String, Secret)>,
    /// Age from which a superseded packet is archived; `None`: never.
    pub archive_after: Option<Duration>,
    /// Words by which a sentence of the model's is an assumption.
    pub assumption_words: Vec<String>,
}

impl Config {
    /// The folder with the packets.
    pub fn packets_dir(&self) -> PathBuf {
        let given = self.packets.dir.clone();
        given.unwrap_or_else(|| self.state_dir.join("packets"))
    }

    /// The repository that handoffs are compared with: that of the packets, else that of the drafts.
    pub fn repository(&self) -> Option<&Path> {
        self.packets.git_dir.as_deref().or(self.draft.git_dir.as_deref())
    }

    /// How transcripts are read for drafts, packets and facts; `carry_over` is the prompt that they begin with.
    pub fn draft_settings(&self, carry_over: Option<String>, redactor: Redactor) -> draft::Settings {
        draft::Settings {
            tags: self.handoff.preamble_tags.clone(),
            markers: small(&self.draft.markers),
            verdicts: self.packets.verdict_paths.clone(),
            assumptions: small(&self.packets.assumption_words),
            carry_overs: carry_over.into_iter().collect(),
            redactor,
        }
    }
}

fn small(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}

/// Thresholds of subagents, where they differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubagentThresholds {
    /// `handoff.subagent_nudge_at`
    pub nudge_at: Option<f64>,
    /// `handoff.subagent_nudge_tokens`
    pub nudge_tokens: Option<u64>,
    /// `handoff.subagent_auto_at`
    pub auto_at: Option<f64>,
}

/// `handoff.facts`: where what the proxy saw stands behind a carry-over prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactsPolicy {
    /// Where baton wrote the prompt.
    Drafts,
    /// Behind every prompt.
    All,
    /// Nowhere.
    Off,
}

/// `handoff.review`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// Drafts take effect by themselves.
    Never,
    /// Those that a person or the API asks for wait for a person's yes.
    Manual,
    /// All of them do.
    Always,
}

/// `handoff.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The next leg's answer continues the same response.
    Continue,
    /// The response ends after the sentinel.
    Stop,
}

/// `handoff.inject`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inject {
    /// Requests of agent loops get the tool.
    Auto,
    /// No request gets it.
    Never,
}

/// `handoff.transcript`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transcript {
    /// Opening line, prompt, and closing line with the seal.
    Full,
    /// The opening line and the line for people.
    Sentinel,
}

/// `handoff.preamble`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreambleMode {
    /// Kept in front of the prompt.
    Keep,
    /// Removed like the rest.
    Drop,
}

/// Logging.
#[derive(Debug, Clone)]
pub struct Log {
    /// A `tracing` filter: `info`, `baton=debug`, ….
    pub level: String,
    /// Whether lines are JSON.
    pub json: bool,
    /// Whether rewritten requests are logged.
    pub requests: bool,
}

/// Traces.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// Base URL of an OTLP/HTTP collector; `None`: no traces.
    pub otlp_endpoint: Option<String>,
}

/// Commands in the chat.
#[derive(Debug, Clone)]
pub struct Commands {
    /// What a command begins with; empty: there are none.
    pub prefix: String,
}

/// How drafts are made: documents of a conversation that baton writes.
#[derive(Debug, Clone)]
pub struct DraftPolicy {
    /// The repository whose state a draft tells.
    pub git_dir: Option<PathBuf>,
    /// Further words that make a sentence a constraint.
    pub markers: Vec<String>,
    /// Tokens of a draft that is composed without a model, estimated.
    pub facts_tokens: usize,
    /// Tokens of what a model is shown that writes one, estimated.
    pub bundle_tokens: usize,
    /// How one is made where nobody says.
    pub method: Method,
    /// The model that writes one, of the same upstream; `None`: the conversation's own.
    pub model: Option<String>,
    /// Most tokens of output of the request for one.
    pub max_tokens: u64,
    /// Longest time to make one.
    pub timeout: Duration,
    /// Folder with texts in place of the built-in prompts.
    pub prompts_dir: Option<PathBuf>,
    /// How long one waits for a person's yes.
    pub expires: Duration,
    /// Whether the agent sees a draft's text as it is written.
    pub show: bool,
    /// Patterns of files of which nothing is quoted, further to those that are known by name.
    pub secret_files: Vec<String>,
}

/// The tool that searches what was cut.
#[derive(Debug, Clone)]
pub struct RecallPolicy {
    /// Whether conversations get it at their next handoff.
    pub enabled: bool,
    /// How many calls are answered in one agent request.
    pub per_turn: u32,
    /// Maximum bytes of all indexes in memory.
    pub index_bytes: usize,
}

/// Journal settings; `config/baton.toml` describes each key.
#[derive(Debug, Clone)]
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
}

/// Limits; `config/baton.toml` gives the reason of each.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum bytes of a decompressed request body.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory (compressed and decompressed) and of answers that are buffered.
    pub bodies_bytes: usize,
    /// Minimum bytes per second of a request body; 0: any progress at all.
    pub body_rate: usize,
    /// Maximum time for a request's head, from its first byte.
    pub head_time: Duration,
    /// Maximum bytes of a header block.
    pub header_bytes: usize,
    /// Maximum bytes of one stream event.
    pub frame_bytes: usize,
    /// Maximum bytes of a hidden call's arguments.
    pub held_bytes: usize,
    /// Maximum bytes of request bodies kept in memory while responses stream; more are spilled to disk.
    pub shelf_bytes: usize,
    /// Maximum concurrent exchanges.
    pub exchanges: usize,
    /// Maximum concurrent connections of agents.
    pub connections: usize,
    /// Maximum idle connections kept for each upstream. Not a key: a constant, lowered where file descriptors are few.
    pub upstream_idle: usize,
}

/// A secret text. `Debug` and `Display` print dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}
