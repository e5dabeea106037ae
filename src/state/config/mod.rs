//! The config: parses raw text into checked values and reports all problems at once.
//!
//! This file defines the checked config. `keys` has its sections: their fields, and a row for each key. `raw`
//! reads text and environment. `value` checks single values; `addresses` and `secrets` check those of their
//! kinds. `load` merges the layers, and `rules` checks combinations of keys. `settings` derives the core's
//! settings from a config.

mod addresses;
pub mod client_files;
mod directories;
mod keys;
mod load;
mod problem;
mod raw;
mod rules;
mod secrets;
mod store_address;
#[cfg(test)]
mod tests;
mod value;

pub use keys::{
    Admin, AgentWaits, Bill, ChatCommandPolicy, ClientKey, DocumentPolicy, DraftPolicy, HandoffMode,
    HandoffPolicy, HandoffRoute, InjectPolicy, Journal, LimitConfig, ListenAddress, ListenerConfig, Log,
    PreambleMode, RecallPolicy, ServerDurability, StoreConfig, StoreKind, StoreRetention, SubagentThresholds,
    Telemetry, TranscriptDetail, UpstreamConfig,
};
pub use load::{DEFAULT_TEXT, Flags};
pub use problem::{KeyOrigin, Problem, ProblemKind};
pub use raw::Environment;
pub use secrets::Secret;
pub use store_address::{StoreAddress, Topology};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::disk;
use baton_core::brake::BrakePolicy;
use baton_core::handoffs::carry::CarryPolicy;
use baton_core::handoffs::draft::Prompts;
use baton_core::handoffs::recall::RecallIndexSettings;
use baton_core::plan::{Policy, RefusedModels};
use baton_core::redact::Redactor;
use baton_core::rewrite::notes::NoteSearch;
use baton_core::tools::{OurTools, ToolSettings};
use baton_core::work::DraftIndexSettings;
use std::io;

/// A config that has passed every check.
///
/// The `Default` value is empty and would pass none: the built-in config is read into it.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Settings of the data listener.
    pub server: ListenerConfig,
    /// Settings of the admin listener.
    pub admin: Admin,
    /// Directory of the store, the journal and the seal keys.
    pub state_dir: PathBuf,
    pub store: StoreConfig,
    /// Providers by name: the built-in and the configured ones that requests may reach.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// Clients that may use the proxy, including those of `server.clients_dir`.
    pub clients: Vec<ClientKey>,
    /// Problems in files of `server.clients_dir`, whose clients are refused.
    pub refused_clients: Vec<Problem>,
    /// Config file, if there is one.
    pub file: Option<PathBuf>,
    /// Files that secrets were read from.
    pub secret_files: Vec<PathBuf>,
    /// Keys that name a directory, and where each is set.
    pub directories: Vec<(&'static str, KeyOrigin)>,
    /// Environment variables that set keys, or that secrets refer to.
    pub variables: Vec<String>,
    pub handoff: HandoffPolicy,
    pub commands: ChatCommandPolicy,
    pub draft: DraftPolicy,
    /// Settings of handoff documents.
    pub documents: DocumentPolicy,
    /// Settings of the search in removed history.
    pub recall: RecallPolicy,
    pub brake: BrakePolicy,
    pub log: Log,
    /// Trace settings.
    pub telemetry: Telemetry,
    pub journal: Journal,
    pub bill: Bill,
    pub limits: LimitConfig,
}

impl Config {
    /// Returns the directory of the seal key files: the configured one, or the state directory.
    pub fn seal_key_dir(&self) -> &std::path::Path {
        self.handoff.seal_key_dir.as_deref().unwrap_or(&self.state_dir)
    }

    /// Returns the directory of the handoff documents.
    pub fn handoffs_dir(&self) -> PathBuf {
        let given = self.documents.dir.clone();
        given.unwrap_or_else(|| self.state_dir.join("handoffs"))
    }

    /// Returns the repository that handoffs are compared with: that of the documents, or else that of the
    /// drafts.
    pub fn repository(&self) -> Option<&Path> {
        self.documents
            .git_dir
            .as_deref()
            .or(self.draft.git_dir.as_deref())
    }

    /// Returns the redactor that removes credentials, including the proxy's secrets, from stored transcripts.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(&self.journal.redact)
            .knowing(self.journal.secrets.iter().map(Secret::reveal))
            .with_secret_files(&self.draft.secret_files)
    }

    /// Returns the settings for reading transcripts for drafts, documents and facts.
    ///
    /// `carry_over` is the prompt that the transcripts begin with.
    pub fn draft_settings(&self, carry_over: Option<String>, redactor: Redactor) -> DraftIndexSettings {
        DraftIndexSettings {
            tags: self.handoff.preamble_tags.clone(),
            // In lower case, like the text that they are compared with.
            markers: small(&self.draft.markers),
            verdicts: self.documents.verdict_paths.clone(),
            assumptions: small(&self.documents.assumption_words),
            carry_overs: carry_over.into_iter().collect(),
            quotes: true,
            redactor,
        }
    }

    /// Returns the limits of a client.
    pub fn brake_of(&self, client: &str) -> BrakePolicy {
        let own = self.clients.iter().find(|own| own.name == client);
        own.map_or(self.brake, |own| own.brake.or(&self.brake))
    }

    /// Whether the brake is off for every client.
    pub fn is_brake_off(&self) -> bool {
        self.brake.is_off() && self.clients.iter().all(|client| client.brake.is_off())
    }

    /// Whether only clients may use the proxy, even if there is none yet. Otherwise every request is admitted.
    pub fn requires_clients(&self) -> bool {
        !self.clients.is_empty() || self.server.clients_dir.is_some()
    }

    /// Returns the digests of the clients' keys, each with the client's name; `None` if everybody is admitted.
    pub fn client_digests(&self) -> Option<Vec<([u8; 32], String)>> {
        let entry = |client: &ClientKey| Some((client.digest()?, client.name.clone()));
        self.requires_clients()
            .then(|| self.clients.iter().filter_map(entry).collect())
    }

    /// Returns the keys and tokens of the config, without those in the headers of upstreams.
    pub fn keys(&self) -> impl Iterator<Item = &Secret> {
        let upstreams = self
            .upstreams
            .values()
            .filter_map(|upstream| upstream.api_key.as_ref());
        let clients = self.clients.iter().filter_map(|client| client.key.as_ref());
        let tokens = self.admin.tokens().map(|(_, token)| token);
        upstreams
            .chain(clients)
            .chain(tokens)
            .chain(&self.handoff.seal_keys)
    }

    /// Returns baton's tools, as requests offer them.
    pub fn tools(&self) -> OurTools {
        OurTools::new(&ToolSettings {
            description: self.handoff.description.as_deref(),
            recalls: self.recall.per_turn,
        })
    }

    /// Returns the settings for searching the removed history.
    pub fn recall_settings(&self, redactor: Redactor) -> RecallIndexSettings {
        RecallIndexSettings {
            tags: self.handoff.preamble_tags.clone(),
            redactor,
        }
    }

    /// Returns the settings for appending missing information to a carry-over prompt.
    pub fn carry_policy(&self) -> CarryPolicy {
        CarryPolicy {
            scope: self.handoff.append_missing,
            tokens: self.handoff.append_tokens,
        }
    }

    /// Returns how commands and their notes are recognized in a transcript.
    pub fn note_search(&self) -> NoteSearch<'_> {
        NoteSearch {
            prefix: &self.commands.prefix,
            tags: &self.handoff.preamble_tags,
        }
    }

    /// Returns the settings of request planning.
    ///
    /// The arguments are the inputs that come from the process instead of the config.
    pub fn policy<'a>(
        &'a self,
        tools: &'a OurTools,
        refused_models: &'a dyn RefusedModels,
        may_have_insertions: bool,
    ) -> Policy<'a> {
        Policy {
            look: self.note_search(),
            keeps_preamble: self.handoff.preamble == PreambleMode::Keep,
            spelled_out: self.handoff.transcript == TranscriptDetail::Full,
            recall: self.recall.enabled,
            tools,
            agents_reset: self.handoff.inject == InjectPolicy::Auto,
            may_have_insertions,
            refused_models,
            draft_cost: self.draft.cost(),
        }
    }

    /// Returns the prompts that ask a model for a draft: the built-in ones, or the files of
    /// `draft.prompts_dir`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn prompts(&self) -> io::Result<Prompts> {
        let Some(dir) = &self.draft.prompts_dir else {
            return Ok(Prompts::default());
        };
        Prompts::with(|name| {
            let file = dir.join(name);
            match disk::read_named(&file) {
                Ok(text) => Ok(Some(text)),
                // A missing file means the built-in prompt. A missing directory is an error: the path is
                // probably wrong.
                Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => Ok(None),
                Err(error) => {
                    let why = format!("{}: {error}", file.display());
                    Err(io::Error::new(error.kind(), why))
                }
            }
        })
    }
}

fn small(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}
