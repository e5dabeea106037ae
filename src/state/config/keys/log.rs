//! Keys for logs, traces and prices.

use std::path::PathBuf;

use super::key::{SectionKeys, key};
use crate::config::Secret;
use std::time::Duration;

/// Log levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[rustfmt::skip]
pub(super) const LOG: SectionKeys = &[
    &key("level", |c| &mut c.log.level, |v, _| v.choice(LEVELS, |level| level)).restart(),
    &key("format", |c| &mut c.log.json, |v, _| v.choice([false, true], |json| if json { "json" } else { "text" })).restart(),
    &key("requests", |c| &mut c.log.requests, |v, _| v.flag()).restart(),
];

#[rustfmt::skip]
pub(super) const TELEMETRY: SectionKeys = &[
    &key("otlp_endpoint", |c| &mut c.telemetry.otlp_endpoint, |v, _| v.collector()).restart(),
];

#[rustfmt::skip]
pub(super) const BILL: SectionKeys = &[
    &key("prices", |c| &mut c.bill.prices, |v, e| v.file(e).map(Some)).optional(),
];

/// Format and content of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// Log level as configured.
    pub level: &'static str,
    /// Whether log lines are JSON.
    pub json: bool,
    /// Whether rewritten requests are logged.
    pub requests: bool,
}

/// Destination of traces.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Base URL of an OTLP/HTTP collector. `None` turns traces off.
    pub otlp_endpoint: Option<String>,
}

/// Prices for the bill.
#[derive(Debug, Clone, Default)]
pub struct Bill {
    /// File of a price table that replaces the embedded one.
    pub prices: Option<PathBuf>,
}

#[rustfmt::skip]
pub(super) const JOURNAL: SectionKeys = &[
    &key("enabled", |c| &mut c.journal.enabled, |v, _| v.flag()).restart(),
    &key("max_bytes", |c| &mut c.journal.max_bytes, |v, _| v.count(1 << 20, 1 << 40)).restart(),
    &key("max_age_days", |c| &mut c.journal.max_age, |v, _| v.days(0.01, 3650.0)).restart(),
    &key("redact", |c| &mut c.journal.redact, |v, _| v.patterns()),
    &key("queue_bytes", |c| &mut c.journal.queue_bytes, |v, _| v.count(64 << 10, 2 << 30)).restart(),
    &key("response_bytes", |c| &mut c.journal.response_bytes, |v, _| v.count(1 << 10, 1 << 30)).restart(),
];

/// Journal settings. `config/baton.toml` describes each key.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Whether the journal records traffic.
    pub enabled: bool,
    /// Maximum bytes of the file and its write-ahead log.
    pub max_bytes: u64,
    /// How long an exchange is kept.
    pub max_age: Duration,
    /// Regular expressions of strings to redact.
    pub redact: Vec<String>,
    /// The proxy's keys, tokens and header values from the rest of the config. They are redacted as well.
    pub secrets: Vec<Secret>,
    /// Maximum bytes waiting to be written.
    pub queue_bytes: usize,
    /// Maximum bytes recorded of one response.
    pub response_bytes: usize,
    /// Maximum bytes of the journal's caches. Not a key: a fixed share of `limits.cache_bytes`.
    pub cache_bytes: usize,
}
