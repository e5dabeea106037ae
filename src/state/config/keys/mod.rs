//! The table of config keys: name, reader and target field of each. The file, the environment, the flags and the test of
//! the documented default all use this table.

mod handoffs;
mod key;
mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) use self::key::{ConfigDraft, ConfigKey, KeySection};
use self::key::{TOKEN_CHARS, key, optional, put};
use super::{
    Admin, Bill, ChatCommandPolicy, ClientKey, Config, DocumentPolicy, DraftPolicy, HandoffPolicy, Journal,
    LimitConfig, ListenerConfig, Log, RecallPolicy, StoreKind, Telemetry, UpstreamConfig,
};
use baton_core::record::WireId;

/// Section of the upstreams: one table each, read by [`UPSTREAM`].
pub(super) const UPSTREAMS: &str = "upstreams";
/// Section of the clients: a list of tables, read by [`CLIENT`].
pub(super) const CLIENTS: &str = "clients";

/// Idle connections kept for each upstream: the usual number of agents working at the same time.
const UPSTREAM_IDLE: usize = 64;

pub(super) const SECTIONS: &[KeySection] = &[
    process::SERVER,
    process::ADMIN,
    process::STATE,
    process::STORE,
    handoffs::HANDOFF,
    handoffs::COMMANDS,
    handoffs::DRAFT,
    handoffs::RECALL,
    process::LOG,
    process::TELEMETRY,
    process::BILL,
    process::JOURNAL,
    process::LIMITS,
];

pub(super) const UPSTREAM: &[ConfigKey<UpstreamConfig>] = &[
    key("base_url", |u, v, _| put(&mut u.base_url, v.base_url())),
    optional("wire", |u, v, _| put(&mut u.wire, v.choice(WIRES).map(Some))),
    optional("headers", |u, v, e| put(&mut u.headers, v.headers(e))),
    optional("api_key", |u, v, e| {
        put(&mut u.api_key, v.header_secret(e).map(Some))
    }),
    optional("connect_secs", |u, v, _| put(&mut u.connect, v.secs(0.1, 300.0))),
    optional("idle_secs", |u, v, _| put(&mut u.idle, v.secs(1.0, 7200.0))),
];

pub(super) const CLIENT: &[ConfigKey<ClientKey>] = &[
    optional("name", |c, v, _| put(&mut c.name, v.text())),
    optional("key", |c, v, e| put(&mut c.key, v.secret(e, TOKEN_CHARS))),
];

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

pub(super) fn blank_upstream() -> UpstreamConfig {
    UpstreamConfig {
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
pub(super) fn blank() -> ConfigDraft {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    ConfigDraft {
        config: Config {
            server: ListenerConfig {
                listen: nowhere,
                hosts: Vec::new(),
                origins: Vec::new(),
                tls: None,
                drain: Duration::ZERO,
            },
            admin: Admin {
                listen: nowhere,
                token: None,
            },
            state_dir: PathBuf::new(),
            store: StoreKind::Memory.into(),
            upstreams: BTreeMap::new(),
            clients: Vec::new(),
            handoff: HandoffPolicy::default(),
            commands: ChatCommandPolicy::default(),
            draft: DraftPolicy::default(),
            documents: DocumentPolicy::default(),
            recall: RecallPolicy::default(),
            log: Log::default(),
            telemetry: Telemetry::default(),
            journal: Journal::default(),
            bill: Bill::default(),
            limits: LimitConfig {
                upstream_idle: UPSTREAM_IDLE,
                ..LimitConfig::default()
            },
        },
        tls_cert: None,
        tls_key: None,
        state_dir: None,
    }
}
