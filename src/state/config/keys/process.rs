//! Keys about the process: listeners, storage, logging, and limits.

use super::key::{KeySection, TOKEN_CHARS, key, optional, put};
use crate::state::config::{ServerDurability, StoreKind};

pub(super) const SERVER: KeySection = KeySection {
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
};

pub(super) const ADMIN: KeySection = KeySection {
    name: "admin",
    keys: &[
        key("listen", |d, v, _| put(&mut d.config.admin.listen, v.address())),
        optional("token", |d, v, e| {
            put(&mut d.config.admin.token, v.secret(e, TOKEN_CHARS).map(Some))
        }),
    ],
};

pub(super) const STATE: KeySection = KeySection {
    name: "state",
    keys: &[optional("dir", |d, v, e| {
        put(&mut d.state_dir, v.path(e).map(Some))
    })],
};

pub(super) const STORE: KeySection = KeySection {
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
};

pub(super) const LOG: KeySection = KeySection {
    name: "log",
    keys: &[
        key("level", |d, v, _| put(&mut d.config.log.level, v.log_filter())),
        key("format", |d, v, _| put(&mut d.config.log.json, v.choice(FORMATS))),
        key("requests", |d, v, _| put(&mut d.config.log.requests, v.flag())),
    ],
};

pub(super) const TELEMETRY: KeySection = KeySection {
    name: "telemetry",
    keys: &[key("otlp_endpoint", |d, v, _| {
        put(&mut d.config.telemetry.otlp_endpoint, v.collector())
    })],
};

pub(super) const JOURNAL: KeySection = KeySection {
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
};

pub(super) const BILL: KeySection = KeySection {
    name: "bill",
    keys: &[optional("prices", |d, v, e| {
        put(&mut d.config.bill.prices, v.file(e).map(Some))
    })],
};

pub(super) const LIMITS: KeySection = KeySection {
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
        key("cache_bytes", |d, v, _| {
            put(&mut d.config.limits.cache_bytes, v.count(1 << 20, 1 << 40))
        }),
        key("exchanges", |d, v, _| {
            put(&mut d.config.limits.exchanges, v.count(1, 1_000_000))
        }),
        key("connections", |d, v, _| {
            put(&mut d.config.limits.connections, v.count(1, 1_000_000))
        }),
    ],
};

const STORES: &[(&str, StoreKind)] = &[
    ("memory", StoreKind::Memory),
    ("sqlite", StoreKind::Sqlite),
    ("redis", StoreKind::Redis),
];
const DURABILITIES: &[(&str, ServerDurability)] = &[
    ("replicated", ServerDurability::Replicated),
    ("fsync", ServerDurability::Fsync),
    ("memory", ServerDurability::Memory),
];
const FORMATS: &[(&str, bool)] = &[("text", false), ("json", true)];
