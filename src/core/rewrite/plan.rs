//! The plan of a rewrite, and its outcome.

use crate::tools::ToolTable;
use bytes::Bytes;

use super::reading::Candidate;
use crate::record::{HandoffId, HiddenPair};
use crate::text::splice::Edit;
use crate::wire::TextOnly;

/// Where the transcript is cut.
#[derive(Debug, Clone, Copy, Default)]
pub enum Cut<'a> {
    /// Nowhere.
    #[default]
    None,
    /// At a sentinel in it: `head`, then what follows.
    At {
        /// The sentinel.
        candidate: &'a Candidate,
        /// The handoff's prompt where the transcript showed it: its rest after a sentinel without a closing line is not
        /// the model's text.
        prompt: Option<&'a str>,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// In front of a turn: the answer that showed the sentinel was left out by the agent.
    BeforeTurn {
        /// The first turn that is kept.
        turn: usize,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Inside a text that holds a flattened transcript: a summary is requested.
    Text {
        /// What goes, and what takes its place, as inside of a JSON string.
        edits: &'a [Edit],
    },
    /// Before all but the system messages: the request continues a response that ended with a handoff, and drops
    /// upstream's stored history (Responses).
    Before {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// After its end: a leg with a fresh context.
    Fresh {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
}

/// An insertion that has its place in a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedInsertion {
    pub id: uuid::Uuid,
    /// The turn that its text goes after: the user's, or a tool's.
    pub turn: usize,
    pub text: String,
}

/// The response that a request continues, as upstream knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContinuedResponse<'a> {
    /// Upstream's id of it; empty: there is none.
    pub id: &'a str,
    /// Results, as elements, that calls in it wait for: they go in front of all that the agent sends.
    pub owed: &'a [String],
}

/// What to do to a request; by default nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rewrite<'a> {
    pub cut: Cut<'a>,
    /// Our tools, where they go in.
    pub tools: Option<&'a ToolTable>,
    /// Hidden pairs that may have their place in the transcript.
    pub pairs: &'a [HiddenPair],
    /// Texts of ours that have their place in the transcript.
    pub insertions: &'a [PlacedInsertion],
    /// Thinking of the model's between the cut, or the start, and this turn is left out: upstream has refused it.
    pub omitted: Option<usize>,
    /// Elements to append: the model is asked again.
    pub more: &'a [String],
    /// The response that the request continues, where upstream has another than the agent knows, or something in it
    /// is open. A cut drops the reference.
    pub previous: Option<ContinuedResponse<'a>>,
    /// Tags by which a preamble is recognised, for counting.
    pub tags: &'a [String],
    /// The model is asked for a text alone: a draft.
    pub text_only: Option<TextOnly>,
    /// The model that it goes to in place of the requested one.
    pub model: Option<&'a str>,
}

/// Why bytes were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeReason {
    /// Preamble and carry-over prompt replaced the history before the active handoff.
    Cut,
    /// A hidden pair was restored, or replaced by a placeholder.
    Pair,
    /// A text of ours was put after a turn.
    Inserted,
    /// Thinking that upstream had refused was left out.
    Thinking,
    /// A model's own text, escaped in the response, was unescaped.
    Unescaped,
    /// The tool was added, with the settings that it needs.
    Tool,
    /// The model is asked again after a refused call.
    AskAgain,
    /// The model is asked to write a handoff's document.
    Draft,
    /// References to items of ours were taken out, of which upstream has never heard.
    Reference,
    /// The response that it continues has another name upstream, or is not continued.
    Previous,
    /// Members that have the provider hold the agent's own history, or describe that history, were removed.
    #[serde(rename = "provider_history")]
    History,
    /// Commands that baton itself answered, its answers, and the sentinels of undone handoffs were taken out.
    Note,
    /// It goes to another model, without the settings that are bound to the requested one.
    Model,
    /// For a message in a cut transcript: the agent's preamble, kept before the carry-over prompt.
    Preamble,
}

/// What one reason changed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SizeChange {
    pub why: ChangeReason,
    /// Bytes removed.
    pub removed: usize,
    /// Bytes added.
    pub added: usize,
    /// The handoff that a cut is at, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffId>,
}

/// The outcome of a rewrite.
#[derive(Debug, Clone)]
pub struct RewriteOutcome {
    /// The body to send.
    pub rope: Vec<Bytes>,
    /// Messages in the model's view after the carry-over prompt; system messages and preamble not counted.
    pub messages: usize,
    /// Pairs that found their place, in the transcript's order.
    pub placed: Vec<uuid::Uuid>,
    /// Carry-over prompt and reason of a handoff that waits for the turn's end.
    pub pending: Option<(String, Option<String>)>,
    /// What was changed, by reason.
    pub changes: Vec<SizeChange>,
    /// The model that it goes to in place of the requested one.
    pub model: Option<String>,
}

impl RewriteOutcome {
    /// The same, with the cut named by its handoff.
    #[must_use]
    pub fn cut_at(mut self, handoff: Option<HandoffId>) -> Self {
        for change in self
            .changes
            .iter_mut()
            .filter(|change| change.why == ChangeReason::Cut)
        {
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
