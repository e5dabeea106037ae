//! Core settings that follow from a config.

use std::io;

use super::{Config, InjectPolicy, PreambleMode, TranscriptDetail};
use crate::disk;
use baton_core::handoffs::carry::CarryPolicy;
use baton_core::handoffs::draft::Prompts;
use baton_core::handoffs::recall::RecallIndexSettings;
use baton_core::plan::{Policy, RefusedModels};
use baton_core::redact::Redactor;
use baton_core::rewrite::notes::NoteSearch;
use baton_core::tools::{OurTools, ToolSettings};

impl Config {
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
