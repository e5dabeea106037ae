//! Checks whether a server's settings can guarantee the configured durability.

use redis::InfoDict;

use crate::config::ServerDurability;

/// The state that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerState {
    /// Version of the protocol that the server implements, which Valkey reports as `redis_version` as well.
    pub(super) version: (u32, u32),
    /// Role of the server. Only `master` can be written to.
    pub(super) role: String,
    /// Number of connected replicas.
    pub(super) replicas: u32,
    /// Whether the server has an append-only file.
    pub(super) appends: bool,
    /// `always`, `everysec` or `no`. `None` if the server does not report it.
    pub(super) fsync: Option<String>,
    /// Eviction policy.
    pub(super) eviction: String,
    /// Bytes of memory at which eviction begins. 0 means never.
    pub(super) memory_limit: u64,
}

/// First version that can wait for its own append-only file (`WAITAOF`).
const WAITS_FOR_FILE: (u32, u32) = (7, 2);

/// First version with the features that the scripts use.
const OLDEST: (u32, u32) = (7, 0);

/// How a write becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteWait {
    /// The reply is enough.
    No,
    /// A replica must have the write.
    Replica,
    /// The server's append-only file must have the write.
    File,
}

impl ServerState {
    /// Parses the replies to `INFO` and, if permitted, `CONFIG GET appendfsync`.
    pub(super) fn read(info: &InfoDict, fsync: Option<String>) -> Self {
        let version: String = info.get("redis_version").unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().ok());
        let mut part = || parts.next().flatten().unwrap_or_default();
        Self {
            version: (part(), part()),
            role: info.get("role").unwrap_or_default(),
            replicas: info.get("connected_slaves").unwrap_or_default(),
            appends: info.get("aof_enabled").unwrap_or_default(),
            fsync,
            eviction: info.get("maxmemory_policy").unwrap_or_default(),
            memory_limit: info.get("maxmemory").unwrap_or_default(),
        }
    }

    /// Returns how a write becomes durable, given the server's current settings.
    ///
    /// A missing replica is not an error here: it may return, and each write checks for it.
    ///
    /// # Errors
    /// Fails like [`fit`](Self::fit), except for a missing replica.
    pub(super) fn wait(&self, durability: ServerDurability) -> Result<WriteWait, String> {
        let replicas = self.replicas.max(1);
        Self {
            replicas,
            ..self.clone()
        }
        .fit(durability)
    }

    /// Returns how a write becomes durable.
    ///
    /// # Errors
    /// Returns an error if the settings cannot guarantee it. The message names the setting and its fix.
    pub(super) fn fit(&self, durability: ServerDurability) -> Result<WriteWait, String> {
        if self.version < OLDEST {
            let (major, minor) = self.version;
            return Err(format!("it is version {major}.{minor}: 7.0 or later is needed"));
        }
        // Without `maxmemory` nothing is evicted, and `volatile-*` policies skip baton's keys, which have no
        // TTL.
        if self.memory_limit > 0 && self.eviction.starts_with("allkeys") {
            return Err(format!(
                "its maxmemory-policy is {}, which drops handoffs when its memory is full: set noeviction",
                self.eviction
            ));
        }
        match durability {
            ServerDurability::Memory => Ok(WriteWait::No),
            ServerDurability::Replicated if self.replicas == 0 => Err(
                "store.durability is \"replicated\", and it has no replica: connect one, or set \"fsync\" or \"memory\""
                    .to_owned(),
            ),
            ServerDurability::Replicated => Ok(WriteWait::Replica),
            ServerDurability::Fsync if !self.appends => Err(
                "store.durability is \"fsync\", and its appendonly is no: set `appendonly yes` and `appendfsync always`"
                    .to_owned(),
            ),
            // The server replies only after its own flush.
            ServerDurability::Fsync if self.fsync.as_deref() == Some("always") => Ok(WriteWait::No),
            ServerDurability::Fsync if self.fsync.as_deref() == Some("no") => Err(
                "store.durability is \"fsync\", and its appendfsync is no: set `appendfsync always`".to_owned(),
            ),
            ServerDurability::Fsync if self.version >= WAITS_FOR_FILE => Ok(WriteWait::File),
            ServerDurability::Fsync => Err(format!(
                "store.durability is \"fsync\", and its appendfsync is {}: set `appendfsync always`, or use version 7.2, \
                 which supports waiting",
                self.fsync.as_deref().unwrap_or("unknown (CONFIG GET is not allowed)")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerState {
        let info = "# Server\r\nredis_version:7.0.15\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
                    aof_enabled:1\r\nmaxmemory:1048576\r\nmaxmemory_policy:noeviction\r\n";
        ServerState::read(&InfoDict::new(info), Some("always".into()))
    }

    #[test]
    fn an_answer_is_read() {
        let read = server();
        assert_eq!(read.version, (7, 0));
        assert_eq!((&*read.role, read.replicas, read.appends), ("master", 1, true));
        assert_eq!((read.memory_limit, &*read.eviction), (1 << 20, "noeviction"));
    }

    #[test]
    fn each_promise_is_kept_or_the_setting_is_named() {
        use ServerDurability::{Fsync, Memory, Replicated};
        let with = |change: fn(&mut ServerState)| {
            let mut server = server();
            change(&mut server);
            server
        };
        assert_eq!(server().fit(Memory), Ok(WriteWait::No));
        assert_eq!(server().fit(Replicated), Ok(WriteWait::Replica));
        assert_eq!(server().fit(Fsync), Ok(WriteWait::No));
        let every_second = |s: &mut ServerState| s.fsync = Some("everysec".into());
        let newer = with(|s| {
            s.fsync = Some("everysec".into());
            s.version = (7, 2);
        });
        assert_eq!(newer.fit(Fsync), Ok(WriteWait::File));
        assert_eq!(with(|s| s.memory_limit = 0).fit(Memory), Ok(WriteWait::No));
        let unevicting = with(|s| {
            s.memory_limit = 0;
            s.eviction = "allkeys-lru".into();
        });
        assert_eq!(unevicting.fit(Memory), Ok(WriteWait::No));
        for (unfit, durability, named) in [
            (with(|s| s.version = (6, 2)), Memory, "6.2"),
            (
                with(|s| s.eviction = "allkeys-lru".into()),
                Memory,
                "maxmemory-policy",
            ),
            (with(|s| s.replicas = 0), Replicated, "no replica"),
            (with(|s| s.appends = false), Fsync, "appendonly"),
            (with(every_second), Fsync, "appendfsync"),
            (with(|s| s.fsync = None), Fsync, "unknown"),
            (
                with(|s| {
                    s.version = (8, 0);
                    s.fsync = Some("no".into());
                }),
                Fsync,
                "appendfsync is no",
            ),
        ] {
            let error = unfit.fit(durability).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
