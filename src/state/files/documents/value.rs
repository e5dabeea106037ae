//! What a packet is made of, and with.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::state::config::{Config, Secret};
use baton_core::handoffs::document::fields::HandoffSize;
use baton_core::handoffs::draft;
use baton_core::record::Handoff;
use baton_core::redact::Redactor;

/// What packets are made and written with.
#[derive(Debug, Clone)]
pub struct PacketSettings {
    pub(super) dir: PathBuf,
    pub(super) git_dir: Option<PathBuf>,
    pub(super) topic: Option<String>,
    pub(super) archive_after: Option<Duration>,
    pub(super) reading: draft::DraftIndexSettings,
}

/// A point at which a process may be killed while a packet is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The row is in the store.
    Stored,
    /// The handoff file in YAML is written.
    Beside,
    /// One of the two files is begun, under another name.
    Opened,
    /// It has its contents.
    Filled,
    /// It has its name.
    Named,
    /// The files of those that it superseded say so.
    Superseded,
}

impl PacketSettings {
    /// Those of a config; `None` where packets are off.
    pub fn of(config: &Config) -> Option<Self> {
        let secrets = config.journal.secrets.iter().map(Secret::reveal);
        config.packets.enabled.then(|| Self {
            dir: config.packets_dir(),
            git_dir: config.packets.git_dir.clone(),
            topic: config.packets.topic.clone(),
            archive_after: config.packets.archive_after,
            reading: config.draft_settings(None, Redactor::lazy(&config.journal.redact).knowing(secrets)),
        })
    }
}

/// Gives the request that the model was working on, as it went upstream; `None` where there is none to be read.
pub type Reading = Box<dyn FnOnce() -> Option<Bytes> + Send>;

/// A handoff that is stored, with what its packet is made of.
pub struct Stored {
    /// The handoff.
    pub handoff: Handoff,
    /// The carry-over prompt that its transcript begins with.
    pub carry_over: Option<String>,
    /// The exchange in which it fired.
    pub exchange: Option<String>,
    /// Bytes of the request before it and of the first one behind it.
    pub bytes: HandoffSize,
    /// The transcript.
    pub transcript: Reading,
}

/// Why there is no packet.
#[derive(Debug, Clone)]
pub struct NotWritten {
    /// What failed, in words.
    pub why: String,
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotWritten {}

pub(super) fn not_written(what: &str, error: impl fmt::Display) -> NotWritten {
    NotWritten {
        why: format!("{what}: {error}"),
    }
}
