//! The scripts that run on the server. Each reads or writes several records atomically.

use redis::Cmd;

/// A script that the server loads with each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedisScript {
    Write,
    Read,
    Find,
    Set,
    Sweep,
    Document,
    Archive,
    Delete,
}

impl RedisScript {
    /// Every script, in the order of their numbers.
    pub(super) const ALL: [Self; 8] = [
        Self::Write,
        Self::Read,
        Self::Find,
        Self::Set,
        Self::Sweep,
        Self::Document,
        Self::Archive,
        Self::Delete,
    ];

    /// Returns the source text of the script.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Write => include_str!("scripts/write.lua"),
            Self::Read => include_str!("scripts/read.lua"),
            Self::Find => include_str!("scripts/find.lua"),
            Self::Set => include_str!("scripts/set.lua"),
            Self::Sweep => concat!(
                include_str!("scripts/remove.lua"),
                include_str!("scripts/sweep.lua")
            ),
            Self::Document => include_str!("scripts/document.lua"),
            Self::Archive => include_str!("scripts/archive.lua"),
            Self::Delete => concat!(
                include_str!("scripts/remove.lua"),
                include_str!("scripts/delete.lua")
            ),
        }
    }
}

/// A script with its arguments. The server loads the scripts with each connection and then only receives
/// their digests.
#[derive(Debug, Clone)]
pub(super) struct ScriptCall {
    pub(super) script: RedisScript,
    pub(super) args: Vec<Vec<u8>>,
}

impl ScriptCall {
    pub(super) fn new(script: RedisScript, args: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_vec()).collect();
        Self { script, args }
    }

    /// Builds the command from the script's digest and a key of the store.
    ///
    /// The key tells a cluster which node has all of the store's keys.
    pub(super) fn command(&self, digests: &[String], slot: &str) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        let digest = digests.get(self.script as usize);
        // Declares the slot as the only key. Redis treats all other arguments as values.
        command.arg(digest.map_or("", String::as_str)).arg(1).arg(slot);
        for arg in &self.args {
            command.arg(arg.as_slice());
        }
        command
    }
}
