//! Keys for the journal.

use std::time::Duration;

use super::key::{KeySection, key};
use crate::config::Secret;

#[rustfmt::skip]
pub(super) const JOURNAL: KeySection = KeySection {
    name: "journal",
    keys: &[
        &key("enabled", |c| &mut c.journal.enabled, |v, _| v.flag()).restart(),
        &key("max_bytes", |c| &mut c.journal.max_bytes, |v, _| v.count(1 << 20, 1 << 40)).restart(),
        &key("max_age_days", |c| &mut c.journal.max_age, |v, _| v.days(0.01, 3650.0)).restart(),
        &key("redact", |c| &mut c.journal.redact, |v, _| v.patterns()),
        &key("queue_bytes", |c| &mut c.journal.queue_bytes, |v, _| v.count(64 << 10, 2 << 30)).restart(),
        &key("response_bytes", |c| &mut c.journal.response_bytes, |v, _| v.count(1 << 10, 1 << 30)).restart(),
    ],
};

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
