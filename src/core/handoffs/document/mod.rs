//! A handoff as a document for users and tools. Pure.
//!
//! ```text
//! handoff, facts of its transcript (`work`) ─► handoff.json ─► handoff.md, rendered from it
//! ```
//!
//! Depends on handoffs and the facts that `work` reads from a transcript. Must not depend on stores, files, clocks or
//! git. The same handoff and transcript give the same bytes. `docs/handoff.schema.json` describes the JSON; a
//! test validates every document against it.

mod build;
mod markdown;
mod prompt;
mod value;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

pub use markdown::{fence, validate};
pub use value::{
    Checkout, ContextTokens, FailedAttempt, HandoffDocument, HandoffKind, HandoffSize, HandoffSource,
    NO_NEXT_ACTION, Prerequisite, PrerequisiteKind, Risk, Severity, VERSION, VerdictPointer,
};

use crate::record::HandoffStatus;
use crate::text::visible::visible;

impl HandoffDocument {
    /// The document as JSON, ending with a line break. The same document gives the same bytes.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a document from its JSON.
    ///
    /// # Errors
    /// The text is not JSON, or not a document. The message names the member.
    pub fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    /// The document as Markdown.
    pub fn markdown(&self) -> String {
        // Users print the file on a terminal.
        visible(&markdown::of(self)).into_owned()
    }

    /// The document with another status.
    #[must_use]
    pub fn with_status(mut self, status: HandoffStatus) -> Self {
        self.status = status;
        self
    }
}
