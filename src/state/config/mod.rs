//! The config: parses raw text into checked values and reports all problems at once.
//!
//! This file is the checked config. `keys` has its sections: their fields, and a row for each key. `raw` reads text and
//! environment. `value` checks single values; `addresses`, `secrets` and `names` check those of their kinds. `load` merges
//! the layers, and `rules` checks what involves several keys. `settings` has the core's settings by a config.

mod addresses;
mod keys;
mod load;
mod problem;
mod raw;
mod rules;
mod secrets;
mod settings;
mod store_address;
#[cfg(test)]
mod tests;
mod value;

pub use keys::{
    Admin, AgentWaits, Bill, ChatCommandPolicy, ClientKey, DocumentPolicy, DraftPolicy, HandoffMode,
    HandoffPolicy, HandoffRoute, InjectPolicy, Journal, LimitConfig, ListenerConfig, Log, PreambleMode,
    RecallPolicy, ServerDurability, StoreConfig, StoreKind, StoreRetention, SubagentThresholds, Telemetry,
    TranscriptDetail, UpstreamConfig,
};
pub use load::{DEFAULT_TEXT, Flags};
pub use problem::{KeyOrigin, Problem, ProblemKind, closest_name};
pub use raw::Environment;
pub use secrets::Secret;
pub use store_address::{StoreAddress, Topology};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::handoffs::draft;
use baton_core::redact::Redactor;

/// A config that has passed every check. The default is empty and passes none: the built-in config is read into it.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The data listener.
    pub server: ListenerConfig,
    /// The admin listener.
    pub admin: Admin,
    /// Directory of the store, the journal and the seal keys.
    pub state_dir: PathBuf,
    pub store: StoreConfig,
    /// Providers by name; `anthropic`, `openai` and `gemini` always exist.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// The proxy's own clients. If empty, every request is `local`.
    pub clients: Vec<ClientKey>,
    /// Handoff settings.
    pub handoff: HandoffPolicy,
    /// Commands in the chat.
    pub commands: ChatCommandPolicy,
    /// How drafts are made.
    pub draft: DraftPolicy,
    /// Documents of handoffs.
    pub documents: DocumentPolicy,
    /// The search of what was cut.
    pub recall: RecallPolicy,
    /// Logging.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
    pub journal: Journal,
    pub bill: Bill,
    /// Limits.
    pub limits: LimitConfig,
}

impl Config {
    /// The directory with the files of the seal keys, where the config gives none.
    pub fn seal_key_dir(&self) -> &std::path::Path {
        self.handoff.seal_key_dir.as_deref().unwrap_or(&self.state_dir)
    }
}

impl Config {
    /// The directory with the documents of handoffs.
    pub fn handoffs_dir(&self) -> PathBuf {
        let given = self.documents.dir.clone();
        given.unwrap_or_else(|| self.state_dir.join("handoffs"))
    }

    /// The repository that handoffs are compared with: that of the documents, else that of the drafts.
    pub fn repository(&self) -> Option<&Path> {
        self.documents
            .git_dir
            .as_deref()
            .or(self.draft.git_dir.as_deref())
    }

    /// Takes credentials, and the proxy's own secrets, out of what is kept of transcripts.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(&self.journal.redact)
            .knowing(self.journal.secrets.iter().map(Secret::reveal))
            .with_secret_files(&self.draft.secret_files)
    }

    /// How transcripts are read for drafts, documents and facts; `carry_over` is the prompt that they begin with.
    pub fn draft_settings(
        &self,
        carry_over: Option<String>,
        redactor: Redactor,
    ) -> draft::DraftIndexSettings {
        draft::DraftIndexSettings {
            tags: self.handoff.preamble_tags.clone(),
            markers: small(&self.draft.markers),
            verdicts: self.documents.verdict_paths.clone(),
            assumptions: small(&self.documents.assumption_words),
            carry_overs: carry_over.into_iter().collect(),
            quotes: true,
            redactor,
        }
    }
}

fn small(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}
