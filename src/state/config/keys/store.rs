//! Where records are kept.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{KeySection, key};
use crate::config::StoreAddress;

#[rustfmt::skip]
pub(super) const STORE: KeySection = KeySection {
    name: "store",
    keys: &[
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
    ],
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    pub kind: StoreKind,
    /// The server; always there with [`StoreKind::Redis`].
    pub address: Option<StoreAddress>,
    /// The condition under which a write to a server counts as durable.
    pub durability: ServerDurability,
    /// In front of every key in a server.
    pub prefix: String,
    /// How long a call to a server may take.
    pub timeout: Duration,
    /// Certificates (PEM) that the server's is signed by; `None`: Mozilla's roots.
    pub ca_file: Option<PathBuf>,
    /// How long records are kept.
    pub keep: StoreRetention,
}

/// How long records are kept that nothing uses. What something in use refers to stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreRetention<T = Duration> {
    /// Conversations.
    pub conversations: T,
    /// Hidden pairs.
    pub pairs: T,
    /// Cut points, and texts after turns.
    pub places: T,
    /// Response ids.
    pub response_ids: T,
    /// Handoffs, by when they were made: those whose conversation is gone, and that no conversation is at. `None`: for ever.
    pub handoffs: Option<T>,
}

impl<T: Copy> StoreRetention<T> {
    /// One time for every kind of record but handoffs, which stay.
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

/// As documented: people resume a session after weeks, rarely after months.
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

/// A store of that kind; the kinds on this machine need no more.
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
    /// The store to use.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StoreKind {
        /// In memory, lost at exit.
        Memory = "memory",
        /// One SQLite file in the state directory.
        Sqlite = "sqlite",
        /// A server that several processes share: Redis or Valkey.
        Redis = "redis",
    }
}

baton_core::named! {
    /// The condition under which a write to a server counts as durable.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ServerDurability {
        /// A replica has it.
        Replicated = "replicated",
        /// It is in the server's append-only file, flushed.
        Fsync = "fsync",
        /// The server has it in memory.
        Memory = "memory",
    }
}
