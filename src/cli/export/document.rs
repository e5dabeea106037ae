//! An export as values.

use serde::Serialize;
use uuid::Uuid;

use super::work::ExportedTurn;
use baton_core::mark::sentinel;
use baton_core::record::Handoff;

/// An export. The names of its parts are API.
#[derive(Serialize)]
pub(super) struct ConversationExport {
    #[serde(flatten)]
    pub(super) head: ExportHead,
    pub(super) work: Vec<ExportedTurn>,
}

/// All but the work: the first line of JSON Lines.
#[derive(Default, Serialize)]
pub(super) struct ExportHead {
    pub(super) conversation: String,
    pub(super) title: Option<String>,
    pub(super) wire: Option<String>,
    pub(super) model: Option<String>,
    /// The exchange that the work is taken from.
    pub(super) exchange: Option<String>,
    /// When it began.
    pub(super) at_ms: Option<u64>,
    pub(super) handoff: Option<ExportedHandoff>,
    /// The missing parts, with reasons.
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ExportedHandoff {
    pub(super) id: String,
    pub(super) resume: String,
    pub(super) reason: Option<String>,
    pub(super) created_ms: Option<u64>,
    pub(super) prompt: String,
}

impl ExportedHandoff {
    /// With the prompt as the store has it.
    pub(super) fn of_store(handoff: &Handoff) -> Self {
        Self {
            id: handoff.id.to_string(),
            resume: sentinel::opening(handoff.id),
            reason: handoff.reason.clone(),
            created_ms: Some(handoff.created_ms),
            prompt: handoff.prompt.clone(),
        }
    }

    /// With the journal's copy of the prompt.
    pub(super) fn of_journal(id: Uuid, prompt: String) -> Self {
        Self {
            id: id.to_string(),
            resume: sentinel::opening(id),
            reason: None,
            created_ms: None,
            prompt,
        }
    }
}
