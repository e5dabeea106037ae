//! The table of config keys: a row for each key, next to the struct whose field it sets.
//!
//! The file, the environment, the flags, a reload and the test of the documented default all use this table.

mod draft;
mod handoff;
mod key;
mod log;
mod server;
mod store;
mod upstreams;

pub use self::draft::{ChatCommandPolicy, DraftPolicy, RecallPolicy};
pub use self::handoff::{
    DocumentPolicy, HandoffMode, HandoffPolicy, HandoffRoute, InjectPolicy, PreambleMode, SubagentThresholds,
    TranscriptDetail,
};
pub(super) use self::key::{ConfigKey, SectionKeys};
pub use self::log::{Bill, Journal, Log, Telemetry};
pub use self::server::{Admin, AgentWaits, LimitConfig, ListenAddress, ListenerConfig};
pub use self::store::{ServerDurability, StoreConfig, StoreKind, StoreRetention};
pub(super) use self::upstreams::{BRAKE, CLIENT, CLIENT_FILE, UPSTREAM};
pub use self::upstreams::{ClientKey, UpstreamConfig};
use super::Config;

/// Section of the upstreams: one table each, read by [`UPSTREAM`].
pub(super) const UPSTREAMS: &str = "upstreams";
/// Section of the clients: a list of tables, read by [`CLIENT`].
pub(super) const CLIENTS: &str = "clients";

/// Section of the brake, and the table of a client's own limits, both read by [`BRAKE`].
pub(super) const BRAKE_TABLE: &str = "brake";

/// Sections that occur at most once, by name.
pub(super) const SECTIONS: &[(&str, SectionKeys)] = &[
    ("server", server::SERVER),
    ("admin", server::ADMIN),
    ("state", server::STATE),
    ("store", store::STORE),
    ("handoff", handoff::HANDOFF),
    ("commands", draft::COMMANDS),
    ("draft", draft::DRAFT),
    ("recall", draft::RECALL),
    ("log", log::LOG),
    ("telemetry", log::TELEMETRY),
    ("bill", log::BILL),
    ("journal", log::JOURNAL),
    ("limits", server::LIMITS),
];

/// Returns the names of all sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let single = SECTIONS.iter().map(|(name, _)| *name);
    single.chain([BRAKE_TABLE, UPSTREAMS, CLIENTS])
}

/// Returns the keys of the sections that occur once, each with its path.
pub(super) fn single() -> impl Iterator<Item = (String, &'static dyn ConfigKey<Config>)> {
    SECTIONS.iter().flat_map(|(name, keys)| {
        let keys = keys.iter();
        keys.map(move |key| (format!("{name}.{}", key.name()), *key))
    })
}

/// Returns every key as `section.key`, with whether it is optional. `*` stands for the variable part of a
/// path.
pub(super) fn all() -> impl Iterator<Item = (String, bool)> {
    fn under<C>(table: String, keys: &[&'static dyn ConfigKey<C>]) -> impl Iterator<Item = (String, bool)> {
        let keys = keys.iter();
        keys.map(move |key| (format!("{table}.{}", key.name()), key.is_optional()))
    }
    let single = single().map(|(path, key)| (path, key.is_optional()));
    single
        .chain(under(format!("{UPSTREAMS}.*"), UPSTREAM))
        .chain(under(CLIENTS.to_owned(), CLIENT))
        .chain(under(BRAKE_TABLE.to_owned(), BRAKE))
        .chain([(format!("{CLIENTS}.{BRAKE_TABLE}"), true)])
}

impl Config {
    /// Copies values that cannot change before a restart from the running config.
    ///
    /// Returns the keys whose values differed.
    pub fn keep_fixed(&mut self, running: &Self) -> Vec<String> {
        let mut running = running.clone();
        let fixed = single().filter(|(_, key)| key.needs_restart());
        let differing = fixed.filter(|(_, key)| key.keep(&mut running, self));
        differing.map(|(path, _)| path).collect()
    }
}

/// Returns the empty config that the built-in default is read into.
///
/// The default sets every key that is not optional (a test checks it), so none of these values is ever used.
pub(super) fn blank() -> Config {
    let mut config = Config::default();
    config.limits.upstream_idle = server::UPSTREAM_IDLE;
    config
}
