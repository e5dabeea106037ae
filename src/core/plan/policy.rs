//! What of the config a plan depends on.

use std::fmt;

use crate::bill::DraftCost;
use crate::rewrite::notes::NoteSearch;
use crate::rewrite::preamble;
use crate::tools::OurTools;
use crate::wire::View;

/// What of the config a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// How commands and their notes are recognised in a transcript.
    pub look: NoteSearch<'a>,
    /// Whether the texts that the agent puts in front of its conversations survive a cut.
    pub keeps_preamble: bool,
    /// Whether transcripts show the prompts of handoffs, where their records do not say.
    pub spelled_out: bool,
    /// Whether a cut that is made now is followed by the tool that searches what was cut.
    pub recall: bool,
    pub tools: &'a OurTools,
    /// Whether an agent with a tool that starts a new context keeps to that one.
    pub agents_reset: bool,
    /// Whether the store may have texts of ours at all.
    pub may_have_insertions: bool,
    pub refused_models: &'a dyn RefusedModels,
    /// What a draft costs that is not written yet.
    pub draft_cost: DraftCost,
}

/// The models that upstream does not know, or does not give to this account.
pub trait RefusedModels: fmt::Debug + Sync {
    fn has(&self, model: &str) -> bool;
}

impl Policy<'_> {
    /// What the agent put in front of the conversation, and told its model since. Unknown for a conversation that the provider stores,
    /// since a later request does not begin with them.
    pub fn preamble(&self, view: &View, until: Option<(usize, usize)>) -> preamble::Preamble {
        match self.keeps_preamble && view.facts.previous.is_none() {
            true => preamble::of(view, until, self.look.tags),
            false => preamble::Preamble::default(),
        }
    }
}
