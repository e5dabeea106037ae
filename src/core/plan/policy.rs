//! Configuration that a plan depends on.

use std::fmt;

use crate::bill::DraftCost;
use crate::rewrite::notes::NoteSearch;
use crate::rewrite::preamble;
use crate::tools::OurTools;
use crate::wire::View;

/// Configuration that a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// How commands and their notes are recognized in a transcript.
    pub look: NoteSearch<'a>,
    /// Whether the agent's messages before the conversation survive a cut.
    pub keeps_preamble: bool,
    /// Default of [`Handoff::spelled_out`](crate::record::Handoff::spelled_out) for records that do not state it.
    pub spelled_out: bool,
    /// Whether requests after a cut made now get the tool that searches the cut history.
    pub recall: bool,
    pub tools: &'a OurTools,
    /// Whether agents that have their own tool for a new context do without the handoff tool.
    pub agents_reset: bool,
    /// Whether the store may have insertions at all.
    pub may_have_insertions: bool,
    pub refused_models: &'a dyn RefusedModels,
    /// Cost of a draft that is not written yet.
    pub draft_cost: DraftCost,
}

/// Models that upstream does not know, or does not offer to this account.
pub trait RefusedModels: fmt::Debug + Sync {
    fn has(&self, model: &str) -> bool;
}

impl Policy<'_> {
    /// Messages that the agent put before the conversation, and state that it has reported to its model
    /// since.
    ///
    /// Unknown for a conversation that the provider stores, because a later request does not begin with them.
    pub fn preamble(&self, view: &View, until: Option<(usize, usize)>) -> preamble::Preamble {
        match self.keeps_preamble && view.facts.previous.is_none() {
            true => preamble::of(view, until, self.look.tags),
            false => preamble::Preamble::default(),
        }
    }
}
