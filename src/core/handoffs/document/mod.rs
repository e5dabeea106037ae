//! A handoff as a document for people and tools. Pure.
//!
//! ```text
//! handoff, what was seen of its transcript (`work`) ─► handoff.json ─► handoff.md, rendered from it
//! ```
//!
//! Knows handoffs, and what drafts read off a transcript. Must not know: stores, files, clocks, git. The same handoff
//! and the same transcript make the same bytes.
//! `docs/handoff.schema.json` describes the JSON; a test validates every document against it.

mod build;
mod markdown;
mod next_action;
mod prompt;
mod risks;
mod validate;
mod value;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use markdown::fence;
pub use validate::validate;
pub use value::{
    Checkout, ContextTokens, FailedAttempt, HandoffDocument, HandoffKind, HandoffSize, HandoffSource,
    NO_NEXT_ACTION, Prerequisite, PrerequisiteKind, Risk, Severity, VERSION, VerdictPointer,
};

use crate::record::HandoffStatus;

impl HandoffDocument {
    /// The JSON, with a line break at its end. The same document makes the same bytes.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A document from its JSON.
    ///
    /// # Errors
    /// It is not JSON, or not a document: names the member.
    pub fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    /// The same as Markdown.
    pub fn markdown(&self) -> String {
        markdown::of(self)
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: HandoffStatus) -> Self {
        self.status = status;
        self
    }
}
