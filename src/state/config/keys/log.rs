//! Keys for logs, traces and prices.

use std::path::PathBuf;

use super::key::{KeySection, key};

/// Log levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[rustfmt::skip]
pub(super) const LOG: KeySection = KeySection {
    name: "log",
    keys: &[
        &key("level", |c| &mut c.log.level, |v, _| v.choice(LEVELS, |level| level)).restart(),
        &key("format", |c| &mut c.log.json, |v, _| v.choice([false, true], |json| if json { "json" } else { "text" })).restart(),
        &key("requests", |c| &mut c.log.requests, |v, _| v.flag()).restart(),
    ],
};

#[rustfmt::skip]
pub(super) const TELEMETRY: KeySection = KeySection {
    name: "telemetry",
    keys: &[
        &key("otlp_endpoint", |c| &mut c.telemetry.otlp_endpoint, |v, _| v.collector()).restart(),
    ],
};

#[rustfmt::skip]
pub(super) const BILL: KeySection = KeySection {
    name: "bill",
    keys: &[
        &key("prices", |c| &mut c.bill.prices, |v, e| v.file(e).map(Some)).optional(),
    ],
};

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
