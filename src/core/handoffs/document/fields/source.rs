//! The inputs of a document.

use super::{ContextTokens, HandoffSize};
use crate::handoffs::draft::SeenFacts;
use crate::record::Handoff;

/// The inputs of a document.
pub struct HandoffSource<'s> {
    pub handoff: &'s Handoff,
    /// What was seen since the handoff before it.
    pub seen: &'s SeenFacts,
    /// The folder that the agent worked in.
    pub folder: Option<&'s str>,
    /// The repository of the work as git has it.
    pub checkout: Option<&'s Checkout>,
    /// What it is about; without one it is the session.
    pub topic: Option<&'s str>,
    /// The exchange in which it fired.
    pub exchange: Option<&'s str>,
    /// Words by which a sentence of the prompt is an assumption, in lower case.
    pub assumptions: &'s [String],
    /// What the last answer before it took of the model's context.
    pub context: Option<ContextTokens>,
    /// Bytes of the request before the handoff and of the first one after it.
    pub bytes: HandoffSize,
    /// Takes credentials out of a text.
    pub clean: &'s dyn Fn(&str) -> String,
}

/// A repository as git has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkout {
    /// The branch; empty where none is checked out.
    pub branch: String,
    /// The commit.
    pub head: String,
    /// Files that differ from it or are new.
    pub changed: Vec<String>,
}
