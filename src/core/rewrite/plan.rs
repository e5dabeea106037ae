//! Input and outcome of a rewrite.

use crate::tools::ToolTable;
use bytes::Bytes;

use super::reading::Candidate;
use crate::record::{HandoffId, HiddenPair};
use crate::text::splice::Edit;
use crate::wire::TextOnly;

/// Position of the cut in the transcript.
#[derive(Debug, Clone, Copy, Default)]
pub enum Cut<'a> {
    /// No cut.
    #[default]
    None,
    /// At a sentinel: `head`, then the text after the sentinel.
    At {
        /// The sentinel.
        candidate: &'a Candidate,
        /// The handoff's prompt, if the transcript showed it. Its rest after a sentinel without a closing
        /// line is not the model's text.
        prompt: Option<&'a str>,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Before a turn, because the agent left out the response that showed the sentinel.
    BeforeTurn {
        /// First turn that is kept.
        turn: usize,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Inside a string that holds a flattened transcript, for a summary request.
    Text {
        /// Replacements, as offsets inside the JSON string literal.
        edits: &'a [Edit],
    },
    /// Before everything but the system messages.
    ///
    /// The request continues a response that ended with a handoff, and drops the history that upstream stores
    /// (Responses).
    Before {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// After the end, for a leg with a fresh context.
    Fresh {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
}

/// An insertion with a position in a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedInsertion {
    pub id: uuid::Uuid,
    /// Turn that the notice follows: the user's, or a tool's.
    pub turn: usize,
    pub text: String,
}

/// Response that a request continues, by upstream's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContinuedResponse<'a> {
    /// Upstream's id; empty if there is none.
    pub id: &'a str,
    /// Results (JSON elements) that calls in it wait for. They come before everything that the agent sends.
    pub owed: &'a [String],
}

/// Changes to make to a request. The default makes none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rewrite<'a> {
    pub cut: Cut<'a>,
    /// Tools of baton to add, if any.
    pub tools: Option<&'a ToolTable>,
    /// Hidden pairs that may belong to the transcript.
    pub pairs: &'a [HiddenPair],
    /// Notices with a position in the transcript.
    pub insertions: &'a [PlacedInsertion],
    /// End of the turns whose thinking after the cut or the start is left out, because upstream has refused
    /// it.
    pub omitted: Option<usize>,
    /// Elements to append when baton asks the model again.
    pub more: &'a [String],
    /// The upstream response to continue, if it differs from the one the agent refers to or has pending
    /// results.
    ///
    /// A cut drops the reference.
    pub previous: Option<ContinuedResponse<'a>>,
    /// Tags that identify a preamble, for counting messages.
    pub tags: &'a [String],
    /// Form of a request for a plain-text response, such as a draft.
    pub text_only: Option<TextOnly>,
    /// Model that replaces the requested one.
    pub model: Option<&'a str>,
}

/// Reason for changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeReason {
    /// Preamble and carry-over prompt replaced the history before the active handoff.
    Cut,
    /// A hidden pair was restored, or replaced by a placeholder.
    Pair,
    /// A notice was inserted after a turn.
    Inserted,
    /// Thinking that upstream had refused was left out.
    Thinking,
    /// Escaped text of the model was unescaped.
    Unescaped,
    /// The tool was added, with the settings that it needs.
    Tool,
    /// The model is asked again after a refused call.
    AskAgain,
    /// The model is asked to write a handoff's document.
    Draft,
    /// References to injected items were removed, because upstream does not know them.
    Reference,
    /// The continued response has another id upstream, or is not continued.
    Previous,
    /// Request fields that ask the provider to store the history, or that describe the stored history, were
    /// removed.
    #[serde(rename = "provider_history")]
    History,
    /// Commands that baton itself answered, its replies, and the sentinels of undone handoffs were removed.
    Note,
    /// The request goes to another model, without the settings that are bound to the requested one.
    Model,
    /// The agent's preamble was kept before the carry-over prompt. Used for a message in a cut transcript.
    Preamble,
}

/// Bytes changed for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SizeChange {
    pub why: ChangeReason,
    /// Number of removed bytes.
    pub removed: usize,
    /// Number of added bytes.
    pub added: usize,
    /// Handoff of a cut, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffId>,
}

/// The outcome of a rewrite.
#[derive(Debug, Clone)]
pub struct RewriteOutcome {
    /// The body to send.
    pub rope: Vec<Bytes>,
    /// Number of messages in the model's view after the carry-over prompt, without system messages and
    /// preamble.
    pub messages: usize,
    /// Pairs that were placed, in the transcript's order.
    pub placed: Vec<uuid::Uuid>,
    /// Carry-over prompt and reason of a handoff that is pending until the turn's end.
    pub pending: Option<(String, Option<String>)>,
    /// Changed bytes by reason.
    pub changes: Vec<SizeChange>,
    /// Model that replaces the requested one.
    pub model: Option<String>,
}

impl RewriteOutcome {
    /// Names the handoff of the cut.
    #[must_use]
    pub fn cut_at(mut self, handoff: Option<HandoffId>) -> Self {
        let changes = self.changes.iter_mut();
        for change in changes.filter(|change| change.why == ChangeReason::Cut) {
            change.handoff = handoff;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The journal contains this name.
    #[test]
    fn a_reason_is_stored_under_its_first_name() {
        assert_eq!(
            serde_json::to_string(&ChangeReason::History).unwrap(),
            r#""provider_history""#
        );
    }
}
