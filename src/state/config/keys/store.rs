//! Keys for the store.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{SectionKeys, key};
use crate::config::StoreAddress;

#[rustfmt::skip]
pub(super) const STORE: SectionKeys = &[
    &key("kind", |c| &mut c.store.kind, |v, _| v.choice(StoreKind::ALL, StoreKind::name)).restart(),
    &key("url", |c| &mut c.store.address, |v, e| v.store_address(e).map(Some)).optional().restart(),
    &key("durability", |c| &mut c.store.durability, |v, _| v.choice(ServerDurability::ALL, ServerDurability::name)).restart(),
    &key("prefix", |c| &mut c.store.prefix, |v, _| v.key_prefix()).restart(),
    &key("timeout_secs", |c| &mut c.store.timeout, |v, _| v.secs(0.05, 60.0)).restart(),
    &key("ca_file", |c| &mut c.store.ca_file, |v, e| v.file(e).map(Some)).optional().restart(),
    &key("keep_conversations_days", |c| &mut c.store.keep.conversations, |v, _| v.days(1.0, 36_500.0)).restart(),
    &key("keep_pairs_days", |c| &mut c.store.keep.pairs, |v, _| v.days(1.0, 36_500.0)).restart(),
    &key("keep_cut_points_days", |c| &mut c.store.keep.places, |v, _| v.days(1.0, 36_500.0)).restart(),
    &key("keep_response_ids_days", |c| &mut c.store.keep.response_ids, |v, _| v.days(1.0, 36_500.0)).restart(),
    &key("keep_handoffs_days", |c| &mut c.store.keep.handoffs, |v, _| v.days_or_never(36_500.0)).restart(),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    pub kind: StoreKind,
    /// Address of the server. Always set for [`StoreKind::Redis`].
    pub address: Option<StoreAddress>,
    /// When a write to a server counts as durable.
    pub durability: ServerDurability,
    /// Prefix of every key on a server.
    pub prefix: String,
    /// Timeout of one call to a server.
    pub timeout: Duration,
    /// CA certificates (PEM) for the server's certificate. `None` means Mozilla's roots.
    pub ca_file: Option<PathBuf>,
    /// How long records are kept.
    pub keep: StoreRetention,
}

/// How long unused records are kept. Records that something in use refers to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreRetention<T = Duration> {
    /// Retention of conversations.
    pub conversations: T,
    /// Retention of hidden pairs.
    pub pairs: T,
    /// Retention of cut points and of insertions after turns.
    pub places: T,
    /// Retention of response ids.
    pub response_ids: T,
    /// Retention of handoffs, counted from their creation. `None` keeps them for ever.
    ///
    /// Only handoffs that no conversation is at, and whose conversation is gone, are removed.
    pub handoffs: Option<T>,
}

impl<T: Copy> StoreRetention<T> {
    /// Applies one time to every kind of record except handoffs, which stay.
    pub fn before(time: T) -> Self {
        Self {
            conversations: time,
            pairs: time,
            places: time,
            response_ids: time,
            handoffs: None,
        }
    }
}

/// The documented default of 90 days: users resume a session after weeks, rarely after months.
impl Default for StoreRetention {
    fn default() -> Self {
        Self::before(Duration::from_secs(90 * 24 * 60 * 60))
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreKind::Memory.into()
    }
}

/// Creates the config of a store of this kind. Local kinds need no further settings.
impl From<StoreKind> for StoreConfig {
    fn from(kind: StoreKind) -> Self {
        Self {
            kind,
            address: None,
            durability: ServerDurability::Fsync,
            prefix: "baton".to_owned(),
            timeout: Duration::from_secs(2),
            ca_file: None,
            keep: StoreRetention::default(),
        }
    }
}

baton_core::named! {
    /// Backend of the store.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StoreKind {
        /// In memory; lost at exit.
        Memory = "memory",
        /// One SQLite file in the state directory.
        Sqlite = "sqlite",
        /// A Redis or Valkey server that several processes share.
        Redis = "redis",
    }
}

baton_core::named! {
    /// When a write to a server counts as durable.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ServerDurability {
        /// A replica has acknowledged the write.
        Replicated = "replicated",
        /// The server has flushed the write to its append-only file.
        Fsync = "fsync",
        /// The server has the write in memory.
        Memory = "memory",
    }
}
