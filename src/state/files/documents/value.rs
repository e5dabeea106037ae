//! Input and settings of documents.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::config::{Config, Secret};
use baton_core::handoffs::document::HandoffSize;
use baton_core::nudge::Windows;
use baton_core::record::Handoff;
use baton_core::redact::Redactor;
use baton_core::work::DraftIndexSettings;

/// Time limit for one document. Git has seconds for its queries, and another process may hold a directory's
/// lock for 20.
const MAX_DOCUMENT_TIME: Duration = Duration::from_secs(45);

/// The part of the config that documents need.
#[derive(Debug, Clone)]
pub struct DocumentSettings {
    pub(super) dir: PathBuf,
    /// Directory of the journal.
    pub(super) state_dir: PathBuf,
    pub(super) windows: Windows,
    pub(super) git_dir: Option<PathBuf>,
    pub(super) topic: Option<String>,
    pub(super) archive_after: Option<Duration>,
    pub(super) keep_files: usize,
    /// Time limit for one document, so that one cannot delay the others.
    pub(super) limit: Duration,
    pub(super) reading: DraftIndexSettings,
}

impl DocumentSettings {
    /// Returns the settings of a config, or `None` if documents are off.
    pub fn from_config(config: &Config) -> Option<Self> {
        config.documents.enabled.then(|| Self::even_if_off(config))
    }

    /// Returns the settings even if documents are off, because handoff files state the same facts as
    /// documents.
    pub fn even_if_off(config: &Config) -> Self {
        let secrets = config.journal.secrets.iter().map(Secret::reveal);
        Self {
            dir: config.handoffs_dir(),
            state_dir: config.state_dir.clone(),
            windows: config.handoff.windows.clone(),
            git_dir: config.documents.git_dir.clone(),
            topic: config.documents.topic.clone(),
            archive_after: config.documents.archive_after,
            keep_files: config.documents.keep_files,
            limit: MAX_DOCUMENT_TIME,
            reading: config.draft_settings(None, Redactor::new(&config.journal.redact).knowing(secrets)),
        }
    }
}

/// Returns the request that the model was working on, as sent upstream, or `None` if it cannot be read.
pub type TranscriptReader = Box<dyn FnOnce() -> Option<Bytes> + Send>;

/// A stored handoff, with the input of its document.
pub struct StoredHandoff {
    pub handoff: Handoff,
    /// Carry-over prompt that the handoff's transcript begins with.
    pub carry_over: Option<String>,
    /// Exchange that contains the handoff.
    pub exchange: Option<String>,
    /// Id of the `baton run` that started the agent.
    pub run: Option<String>,
    /// Topic of the session. `None` uses the configured one.
    pub topic: Option<String>,
    /// Context tokens reported by the last response before the handoff. `None` looks them up in the journal.
    pub context_tokens: Option<u64>,
    /// Bytes of the request before the handoff and of the first one after it.
    pub bytes: HandoffSize,
    pub transcript: TranscriptReader,
}

/// The reason why there is no document.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct DocumentError {
    /// The failed operation and its error.
    pub why: String,
    /// Whether the disk has no room for the write.
    pub is_full: bool,
}

pub(super) fn document_error(what: &str, error: impl fmt::Display) -> DocumentError {
    DocumentError {
        why: format!("{what}: {error}"),
        is_full: false,
    }
}
