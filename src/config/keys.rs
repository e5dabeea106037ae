//! The table of config keys: name, reader and target field of each. The file, the environment, the flags and the test of
//! the documented default all use this table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::raw::{Environment, Given};
use super::value::Checked;
use super::{
    Admin, Client, Commands, Config, DraftPolicy, Durability, FactsPolicy, HandoffPolicy, Inject, Journal,
    Limits, Log, Mode, Packets, PreambleMode, RecallPolicy, Review, Server, StoreKind, SubagentThresholds,
    Telemetry, Transcript, Upstream,
};
use crate::draft::Method;
use crate::nudge::{Thresholds, Windows};
use crate::record::WireId;

/// One key of a section that is read into a `T`.
pub(super) struct Key<T: 'static> {
    pub(super) name: &'static str,
    /// Whether it has no default. Such keys are commented out in the documented default.
    pub(super) optional: bool,
    pub(super) read: fn(&mut T, &Given, &Environment) -> Checked<()>,
}

/// A section that occurs once.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) keys: &'static [Key<Draft>],
}

/// A config being read: some parts are final only after all layers.
pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) state_dir: Option<PathBuf>,
}

/// Section of the upstreams: one table each, read by [`UPSTREAM`].
pub(super) const UPSTREAMS: &str = "upstreams";
/// Section of the clients: a list of tables, read by [`CLIENT`].
pub(super) const CLIENTS: &str = "clients";

/// Minimum length of a client key: short enough to be typed, too long to be guessed over a network.
const TOKEN_CHARS: usize = 16;
/// Most seal keys: a prompt under an unknown seal is hashed with each of them.
const MOST_KEYS: usize = 16;
/// Minimum length of a seal key: the output size of HMAC-SHA256.
const SEAL_KEY_CHARS: usize = 32;
/// Most peers: each list of the inspector asks all of them.
const MOST_PEERS: usize = 32;
/// Idle connections kept for each upstream: the usual number of agents working at the same time.
const UPSTREAM_IDLE: usize = 64;
/// Minimum length of a preamble tag: one or two letters would match a person's own words.
const TAG_CHARS: usize = 3;

/// Shorter patterns would fit most files.
const PATTERN_CHARS: usize = 3;

/// Shorter words would be found in most sentences.
const MARKER_CHARS: usize = 3;

/// More tokens than any model takes.
const TOKENS: u64 = 1 << 30;

/// Stores a checked value in its field.
fn put<T>(place: &mut T, value: Checked<T>) -> Checked<()> {
    value.map(|value| *place = value)
}

const fn key<T>(name: &'static str, read: fn(&mut T, &Given, &Environment) -> Checked<()>) -> Key<T> {
    Key {
        name,
        optional: false,
        read,
    }
}

const fn optional<T>(name: &'static str, read: fn(&mut T, &Given, &Environment) -> Checked<()>) -> Key<T> {
    Key {
        name,
        optional: true,
        read,
    }
}

pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "server",
        keys: &[
            key("listen", |d, v, _| put(&mut d.config.server.listen, v.address())),
            key("hosts", |d, v, _| put(&mut d.config.server.hosts, v.hosts())),
            key("origins", |d, v, _| {
                put(&mut d.config.server.origins, v.origins())
            }),
            optional("tls_cert", |d, v, e| put(&mut d.tls_cert, v.file(e).map(Some))),
            optional("tls_key", |d, v, e| put(&mut d.tls_key, v.file(e).map(Some))),
            key("drain_secs", |d, v, _| {
                put(&mut d.config.server.drain, v.secs(0.0, 3600.0))
            }),
        ],
    },
    Section {
        name: "admin",
        keys: &[
            key("listen", |d, v, _| put(&mut d.config.admin.listen, v.address())),
            optional("token", |d, v, e| {
                put(&mut d.config.admin.token, v.secret(e, TOKEN_CHARS).map(Some))
            }),
            optional("name", |d, v, _| {
                put(&mut d.config.admin.name, v.replica_name().map(Some))
            }),
            optional("peers", |d, v, e| {
                put(&mut d.config.admin.peers, v.peers(e, TOKEN_CHARS, MOST_PEERS))
            }),
            optional("url", |d, v, _| {
                put(&mut d.config.admin.url, v.base_url().map(Some))
            }),
        ],
    },
    Section {
        name: "state",
        keys: &[optional("dir", |d, v, e| {
            put(&mut d.state_dir, v.path(e).map(Some))
        })],
    },
    Section {
        name: "store",
        keys: &[
            key("kind", |d, v, _| put(&mut d.config.store.kind, v.choice(STORES))),
            optional("url", |d, v, e| {
                put(&mut d.config.store.address, v.store_address(e).map(Some))
            }),
            key("durability", |d, v, _| {
                put(&mut d.config.store.durability, v.choice(DURABILITIES))
            }),
            key("prefix", |d, v, _| {
                put(&mut d.config.store.prefix, v.key_prefix())
            }),
            key("timeout_secs", |d, v, _| {
                put(&mut d.config.store.timeout, v.secs(0.05, 60.0))
            }),
            optional("ca_file", |d, v, e| {
                put(&mut d.config.store.ca_file, v.file(e).map(Some))
            }),
            key("keep_conversations_days", |d, v, _| {
                put(&mut d.config.store.keep.conversations, v.days(1.0, 36_500.0))
            }),
            key("keep_pairs_days", |d, v, _| {
                put(&mut d.config.store.keep.pairs, v.days(1.0, 36_500.0))
            }),
            key("keep_places_days", |d, v, _| {
                put(&mut d.config.store.keep.places, v.days(1.0, 36_500.0))
            }),
            key("keep_response_ids_days", |d, v, _| {
                put(&mut d.config.store.keep.response_ids, v.days(1.0, 36_500.0))
            }),
            key("keep_handoffs_days", |d, v, _| {
                let days = v.days(0.0, 36_500.0);
                let keep = days.map(|time| Some(time).filter(|time| !time.is_zero()));
                put(&mut d.config.store.keep.handoffs, keep)
            }),
        ],
    },
    Section {
        name: "handoff",
        keys: &[
            key("mode", |d, v, _| put(&mut d.config.handoff.mode, v.choice(MODES))),
            key("inject", |d, v, _| {
                put(&mut d.config.handoff.inject, v.choice(INJECT))
            }),
            key("transcript", |d, v, _| {
                put(&mut d.config.handoff.transcript, v.choice(TRANSCRIPTS))
            }),
            key("preamble", |d, v, _| {
                put(&mut d.config.handoff.preamble, v.choice(PREAMBLES))
            }),
            key("preamble_tags", |d, v, _| {
                put(&mut d.config.handoff.preamble_tags, v.texts(TAG_CHARS))
            }),
            optional("description", |d, v, _| {
                put(&mut d.config.handoff.description, v.text().map(Some))
            }),
            key("max_chain", |d, v, _| {
                put(&mut d.config.handoff.max_chain, v.count(1, 64))
            }),
            optional("seal_key", |d, v, e| {
                put(
                    &mut d.config.handoff.seal_keys,
                    v.secrets(e, SEAL_KEY_CHARS, MOST_KEYS),
                )
            }),
            optional("seal_key_dir", |d, v, e| {
                put(&mut d.config.handoff.seal_key_dir, v.path(e).map(Some))
            }),
            key("keepalive_secs", |d, v, _| {
                put(&mut d.config.handoff.keepalive, v.secs(0.1, 120.0))
            }),
            key("retries", |d, v, _| {
                put(&mut d.config.handoff.retries, v.count(0, 10))
            }),
            key("nudge_at", |d, v, _| {
                put(&mut d.config.handoff.thresholds.nudge_at, v.share())
            }),
            key("nudge_tokens", |d, v, _| {
                put(&mut d.config.handoff.thresholds.nudge_tokens, v.count(0, TOKENS))
            }),
            optional("subagent_nudge_at", |d, v, _| {
                put(&mut d.config.handoff.subagents.nudge_at, v.share().map(Some))
            }),
            optional("subagent_nudge_tokens", |d, v, _| {
                let place = &mut d.config.handoff.subagents.nudge_tokens;
                put(place, v.count(0, TOKENS).map(Some))
            }),
            key("auto_at", |d, v, _| {
                put(&mut d.config.handoff.thresholds.auto_at, v.share())
            }),
            optional("subagent_auto_at", |d, v, _| {
                put(&mut d.config.handoff.subagents.auto_at, v.share().map(Some))
            }),
            optional("save_dir", |d, v, e| {
                put(&mut d.config.handoff.save_dir, v.path(e).map(Some))
            }),
            key("windows", |d, v, _| {
                put(
                    &mut d.config.handoff.windows,
                    v.windows(TOKENS).map(Windows::with),
                )
            }),
            key("facts", |d, v, _| {
                put(&mut d.config.handoff.facts, v.choice(FACTS))
            }),
            key("review", |d, v, _| {
                put(&mut d.config.handoff.review, v.choice(REVIEWS))
            }),
        ],
    },
    Section {
        name: "commands",
        keys: &[key("prefix", |d, v, _| {
            put(&mut d.config.commands.prefix, v.prefix())
        })],
    },
    Section {
        name: "draft",
        keys: &[
            optional("git_dir", |d, v, e| {
                put(&mut d.config.draft.git_dir, v.path(e).map(Some))
            }),
            key("markers", |d, v, _| {
                put(&mut d.config.draft.markers, v.texts(MARKER_CHARS))
            }),
            key("facts_tokens", |d, v, _| {
                put(&mut d.config.draft.facts_tokens, v.count(500, 100_000))
            }),
            key("bundle_tokens", |d, v, _| {
                put(&mut d.config.draft.bundle_tokens, v.count(500, 100_000))
            }),
            key("method", |d, v, _| {
                put(&mut d.config.draft.method, v.choice(METHODS))
            }),
            optional("model", |d, v, _| {
                put(&mut d.config.draft.model, v.text().map(Some))
            }),
            key("max_tokens", |d, v, _| {
                put(&mut d.config.draft.max_tokens, v.count(1024, 1_000_000))
            }),
            key("timeout_secs", |d, v, _| {
                put(&mut d.config.draft.timeout, v.secs(1.0, 3600.0))
            }),
            optional("prompts_dir", |d, v, e| {
                put(&mut d.config.draft.prompts_dir, v.path(e).map(Some))
            }),
            key("expire_hours", |d, v, _| {
                let hours = v.count::<u64>(1, 8760);
                put(
                    &mut d.config.draft.expires,
                    hours.map(|hours| Duration::from_secs(hours * 3600)),
                )
            }),
            key("show", |d, v, _| put(&mut d.config.draft.show, v.flag())),
            key("secret_files", |d, v, _| {
                put(&mut d.config.draft.secret_files, v.texts(PATTERN_CHARS))
            }),
        ],
    },
    Section {
        name: "packets",
        keys: &[
            key("enabled", |d, v, _| put(&mut d.config.packets.enabled, v.flag())),
            optional("dir", |d, v, e| {
                put(&mut d.config.packets.dir, v.path(e).map(Some))
            }),
            optional("git_dir", |d, v, e| {
                put(&mut d.config.packets.git_dir, v.path(e).map(Some))
            }),
            optional("topic", |d, v, _| {
                put(&mut d.config.packets.topic, v.text().map(Some))
            }),
            key("verdict_paths", |d, v, _| {
                put(&mut d.config.packets.verdict_paths, v.texts(PATTERN_CHARS))
            }),
            optional("agent_mail_url", |d, v, _| {
                put(&mut d.config.packets.agent_mail_url, v.base_url().map(Some))
            }),
            optional("agent_mail_token", |d, v, e| {
                put(&mut d.config.packets.agent_mail_token, v.secret(e, 1).map(Some))
            }),
            optional("agent_mail_agents", |d, v, e| {
                put(&mut d.config.packets.agent_mail_agents, v.named_secrets(e))
            }),
            key("archive_days", |d, v, _| {
                let days = v.days(0.0, 3650.0);
                put(
                    &mut d.config.packets.archive_after,
                    days.map(|days| Some(days).filter(|days| !days.is_zero())),
                )
            }),
            key("assumption_words", |d, v, _| {
                put(&mut d.config.packets.assumption_words, v.texts(MARKER_CHARS))
            }),
        ],
    },
    Section {
        name: "recall",
        keys: &[
            key("enabled", |d, v, _| put(&mut d.config.recall.enabled, v.flag())),
            key("per_turn", |d, v, _| {
                put(&mut d.config.recall.per_turn, v.count(1, 100))
            }),
            key("index_bytes", |d, v, _| {
                put(&mut d.config.recall.index_bytes, v.count(1 << 16, 1 << 31))
            }),
        ],
    },
    Section {
        name: "log",
        keys: &[
            key("level", |d, v, _| put(&mut d.config.log.level, v.log_filter())),
            key("format", |d, v, _| put(&mut d.config.log.json, v.choice(FORMATS))),
            key("requests", |d, v, _| put(&mut d.config.log.requests, v.flag())),
        ],
    },
    Section {
        name: "telemetry",
        keys: &[key("otlp_endpoint", |d, v, _| {
            put(&mut d.config.telemetry.otlp_endpoint, v.collector())
        })],
    },
    Section {
        name: "journal",
        keys: &[
            key("enabled", |d, v, _| put(&mut d.config.journal.enabled, v.flag())),
            key("max_bytes", |d, v, _| {
                put(&mut d.config.journal.max_bytes, v.count(1 << 20, 1 << 40))
            }),
            key("max_age_days", |d, v, _| {
                put(&mut d.config.journal.max_age, v.days(0.01, 3650.0))
            }),
            key("redact", |d, v, _| {
                put(&mut d.config.journal.redact, v.patterns())
            }),
            key("queue_bytes", |d, v, _| {
                put(&mut d.config.journal.queue_bytes, v.count(64 << 10, 2 << 30))
            }),
            key("response_bytes", |d, v, _| {
                put(&mut d.config.journal.response_bytes, v.count(1 << 10, 1 << 30))
            }),
        ],
    },
    Section {
        name: "limits",
        keys: &[
            key("body_bytes", |d, v, _| {
                put(&mut d.config.limits.body_bytes, v.count(1 << 10, 1 << 30))
            }),
            key("bodies_bytes", |d, v, _| {
                put(&mut d.config.limits.bodies_bytes, v.count(1 << 10, 1 << 40))
            }),
            key("body_rate", |d, v, _| {
                put(&mut d.config.limits.body_rate, v.count(0, 1 << 20))
            }),
            key("head_secs", |d, v, _| {
                put(&mut d.config.limits.head_time, v.secs(1.0, 300.0))
            }),
            key("header_bytes", |d, v, _| {
                put(&mut d.config.limits.header_bytes, v.count(8 << 10, 1 << 20))
            }),
            key("frame_bytes", |d, v, _| {
                put(&mut d.config.limits.frame_bytes, v.count(64 << 10, 256 << 20))
            }),
            key("held_bytes", |d, v, _| {
                put(&mut d.config.limits.held_bytes, v.count(4 << 10, 64 << 20))
            }),
            key("shelf_bytes", |d, v, _| {
                put(&mut d.config.limits.shelf_bytes, v.count(0, 1 << 40))
            }),
            key("exchanges", |d, v, _| {
                put(&mut d.config.limits.exchanges, v.count(1, 1_000_000))
            }),
            key("connections", |d, v, _| {
                put(&mut d.config.limits.connections, v.count(1, 1_000_000))
            }),
        ],
    },
];

pub(super) const UPSTREAM: &[Key<Upstream>] = &[
    key("base_url", |u, v, _| put(&mut u.base_url, v.base_url())),
    optional("wire", |u, v, _| put(&mut u.wire, v.choice(WIRES).map(Some))),
    optional("headers", |u, v, e| put(&mut u.headers, v.headers(e))),
    optional("api_key", |u, v, e| {
        put(&mut u.api_key, v.header_secret(e).map(Some))
    }),
    optional("connect_secs", |u, v, _| put(&mut u.connect, v.secs(0.1, 300.0))),
    optional("idle_secs", |u, v, _| put(&mut u.idle, v.secs(1.0, 7200.0))),
];

pub(super) const CLIENT: &[Key<Client>] = &[
    optional("name", |c, v, _| put(&mut c.name, v.text())),
    optional("key", |c, v, e| put(&mut c.key, v.secret(e, TOKEN_CHARS))),
];

const STORES: &[(&str, StoreKind)] = &[
    ("memory", StoreKind::Memory),
    ("sqlite", StoreKind::Sqlite),
    ("redis", StoreKind::Redis),
];
const DURABILITIES: &[(&str, Durability)] = &[
    ("replicated", Durability::Replicated),
    ("fsync", Durability::Fsync),
    ("memory", Durability::Memory),
];
const REVIEWS: &[(&str, Review)] = &[
    ("never", Review::Never),
    ("manual", Review::Manual),
    ("always", Review::Always),
];
const METHODS: &[(&str, Method)] = &[
    ("oneshot", Method::Oneshot),
    ("bundle", Method::Bundle),
    ("local", Method::Local),
];
const MODES: &[(&str, Mode)] = &[("continue", Mode::Continue), ("stop", Mode::Stop)];
const INJECT: &[(&str, Inject)] = &[("auto", Inject::Auto), ("never", Inject::Never)];
const TRANSCRIPTS: &[(&str, Transcript)] = &[("full", Transcript::Full), ("sentinel", Transcript::Sentinel)];
const FACTS: &[(&str, FactsPolicy)] = &[
    ("drafts", FactsPolicy::Drafts),
    ("all", FactsPolicy::All),
    ("off", FactsPolicy::Off),
];
const PREAMBLES: &[(&str, PreambleMode)] = &[("keep", PreambleMode::Keep), ("drop", PreambleMode::Drop)];
const FORMATS: &[(&str, bool)] = &[("text", false), ("json", true)];
const WIRES: &[(&str, WireId)] = &[
    ("anthropic", WireId::Anthropic),
    ("openai_chat", WireId::OpenaiChat),
    ("openai_responses", WireId::OpenaiResponses),
    ("gemini", WireId::Gemini),
    ("ollama", WireId::Ollama),
];

/// Names of all sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS
        .iter()
        .map(|section| section.name)
        .chain([UPSTREAMS, CLIENTS])
}

/// Every key that exists as `section.key`, with whether it is optional; the variable part of a path is `*`.
pub(super) fn all() -> impl Iterator<Item = (String, bool)> {
    let single = SECTIONS.iter().flat_map(|section| {
        section
            .keys
            .iter()
            .map(move |key| (format!("{}.{}", section.name, key.name), key.optional))
    });
    let upstream = UPSTREAM
        .iter()
        .map(|key| (format!("{UPSTREAMS}.*.{}", key.name), key.optional));
    let client = CLIENT
        .iter()
        .map(|key| (format!("{CLIENTS}.{}", key.name), key.optional));
    single.chain(upstream).chain(client)
}

/// Default of `upstreams.NAME.connect_secs`, as documented.
const CONNECT: Duration = Duration::from_secs(10);
/// Default of `upstreams.NAME.idle_secs`, as documented.
const IDLE: Duration = Duration::from_secs(600);

pub(super) fn blank_upstream() -> Upstream {
    Upstream {
        base_url: String::new(),
        wire: None,
        headers: Vec::new(),
        api_key: None,
        connect: CONNECT,
        idle: IDLE,
    }
}

/// The draft that the built-in default is read into. The default sets every key that is not optional (a test checks it),
/// so none of these values is ever used.
pub(super) fn blank() -> Draft {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Draft {
        config: Config {
            server: Server {
                listen: nowhere,
                hosts: Vec::new(),
                origins: Vec::new(),
                tls: None,
                drain: Duration::ZERO,
            },
            admin: Admin {
                listen: nowhere,
                token: None,
                name: None,
                peers: Vec::new(),
                url: None,
            },
            state_dir: Default::default(),
            store: StoreKind::Memory.into(),
            upstreams: BTreeMap::new(),
            clients: Vec::new(),
            handoff: HandoffPolicy {
                mode: Mode::Continue,
                inject: Inject::Auto,
                transcript: Transcript::Full,
                preamble: PreambleMode::Keep,
                preamble_tags: Vec::new(),
                description: None,
                max_chain: 0,
                seal_keys: Vec::new(),
                seal_key_dir: None,
                keepalive: Duration::ZERO,
                retries: 0,
                thresholds: Thresholds::default(),
                subagents: SubagentThresholds::default(),
                windows: Windows::default(),
                save_dir: None,
                facts: FactsPolicy::Drafts,
                review: Review::Never,
            },
            commands: Commands {
                prefix: String::new(),
            },
            draft: DraftPolicy {
                git_dir: None,
                markers: Vec::new(),
                facts_tokens: 0,
                bundle_tokens: 0,
                method: Method::Oneshot,
                model: None,
                max_tokens: 0,
                timeout: Duration::ZERO,
                prompts_dir: None,
                expires: Duration::ZERO,
                show: false,
                secret_files: Vec::new(),
            },
            packets: Packets::default(),
            recall: RecallPolicy {
                enabled: false,
                per_turn: 0,
                index_bytes: 0,
            },
            log: Log {
                level: String::new(),
                json: false,
                requests: false,
            },
            telemetry: Telemetry { otlp_endpoint: None },
            journal: Journal {
                enabled: false,
                max_bytes: 0,
                max_age: Duration::ZERO,
                redact: Vec::new(),
                secrets: Vec::new(),
                queue_bytes: 0,
                response_bytes: 0,
            },
            limits: Limits {
                body_bytes: 0,
                bodies_bytes: 0,
                body_rate: 0,
                head_time: Duration::ZERO,
                header_bytes: 0,
                frame_bytes: 0,
                held_bytes: 0,
                shelf_bytes: 0,
                exchanges: 0,
                connections: 0,
                upstream_idle: UPSTREAM_IDLE,
            },
        },
        tls_cert: None,
        tls_key: None,
        state_dir: None,
    }
}
