//! Whether a server's settings can guarantee the configured durability.

use redis::InfoDict;

use crate::config::ServerDurability;

/// The state that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerState {
    /// Version of the protocol that it implements: what Valkey calls its `redis_version`.
    pub(super) version: (u32, u32),
    /// `master`, else it cannot be written.
    pub(super) role: String,
    /// Replicas that are connected.
    pub(super) replicas: u32,
    /// Whether it appends to a file.
    pub(super) appends: bool,
    /// `always`, `everysec` or `no`; `None` where the server does not report it.
    pub(super) fsync: Option<String>,
    /// The eviction policy.
    pub(super) eviction: String,
    /// Bytes from which it evicts; 0: never.
    pub(super) memory_limit: u64,
}

/// The first version that supports waiting for its own file.
const WAITS_FOR_FILE: (u32, u32) = (7, 2);

/// The first version with what the scripts use.
const OLDEST: (u32, u32) = (7, 0);

/// The condition under which a write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteWait {
    /// Its answer is enough.
    No,
    /// A replica has it.
    Replica,
    /// It is in the server's own file.
    File,
}

impl ServerState {
    /// Reads the answers to `INFO` and, where it was allowed, `CONFIG GET appendfsync`.
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

    /// How a write is made durable by what the server is now: an offline replica may come back, and each write shows
    /// it.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), except for a missing replica.
    pub(super) fn wait(&self, durability: ServerDurability) -> Result<WriteWait, String> {
        let replicas = self.replicas.max(1);
        Self {
            replicas,
            ..self.clone()
        }
        .fit(durability)
    }

    /// How a write is made durable.
    ///
    /// # Errors
    /// The settings cannot hold that; says which, and what to set.
    pub(super) fn fit(&self, durability: ServerDurability) -> Result<WriteWait, String> {
        if self.version < OLDEST {
            let (major, minor) = self.version;
            return Err(format!("it is version {major}.{minor}: 7.0 or later is needed"));
        }
        // Without a limit nothing is evicted, and a policy for keys with an end of their own takes none of ours.
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
            ServerDurability::Fsync if self.fsync.as_deref() == Some("always") => Ok(WriteWait::No),
            ServerDurability::Fsync if self.fsync.as_deref() == Some("no") => Err(
                "store.durability is \"fsync\", and its appendfsync is no: set `appendfsync always`".to_owned(),
            ),
            ServerDurability::Fsync if self.version >= WAITS_FOR_FILE => Ok(WriteWait::File),
            ServerDurability::Fsync => Err(format!(
                "store.durability is \"fsync\", and its appendfsync is {}: set `appendfsync always`, or use version 7.2, \
                 which supports waiting",
                self.fsync.as_deref().unwrap_or("not told (CONFIG GET is not allowed)")
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
            (with(|s| s.fsync = None), Fsync, "not told"),
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
