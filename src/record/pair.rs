//! A hidden pair: a call of one of our tools with its result, and where it stands.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{Principal, WireId};

/// What every call fingerprint of this version begins with.
pub(crate) const FINGERPRINT: &str = "~2.";

/// What the model is told in the result of a hidden call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Accepted beside other calls: it fires when the turn ends.
    Queued,
    /// The prompt was empty.
    EmptyPrompt,
    /// The arguments were not a JSON object with a string `prompt`.
    BadArguments,
    /// Fewer than two messages since the last cut.
    NothingToHandOff,
    /// The prompt was over the limit.
    TooLong,
    /// The turn was cut off behind the call: out of room, or by a filter.
    CutOff,
}

impl Answer {
    /// The result text, one constant per kind: it becomes part of a prefix that must never change.
    pub fn text(self) -> &'static str {
        match self {
            Self::Queued => "Handoff queued; it runs when this turn ends.",
            Self::EmptyPrompt => {
                "Handoff refused: `prompt` is empty. Call session_handoff again with everything the next session has to know."
            }
            Self::BadArguments => {
                "Handoff refused: the arguments were not a JSON object with a string `prompt`. Call session_handoff again."
            }
            Self::NothingToHandOff => {
                "Handoff refused: there is nothing to hand off yet. Go on with the task and call session_handoff when it is done."
            }
            Self::TooLong => {
                "Handoff refused: `prompt` is too long. Call session_handoff again with a shorter one."
            }
            Self::CutOff => {
                "Handoff refused: the turn was cut off before its end. Call session_handoff again when the task is done."
            }
        }
    }

    /// Whether the model should see the result as an error.
    pub fn is_error(self) -> bool {
        self != Self::Queued
    }
}

/// Where a hidden call stands in the agent's transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the turn that holds the sibling call: `offset` ≥ 0 stands that many parts behind the sibling
    /// (0: right behind it), `offset` < 0 that many in front of it (-1: right in front).
    Beside {
        /// Id of a visible call of the same turn, as the agent echoes it; where ids may be missing
        /// (Gemini, Ollama) an anchor of that call, which only its wire can find again.
        sibling: String,
        /// Distance in visible parts, see above.
        offset: i32,
    },
    /// At the line `[[handoff-aside:ID]]`, ID being the pair's own.
    Aside,
}

impl Place {
    /// What a pair here is looked up by: the sibling's id, or what of its anchor agents cannot drop.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Beside { sibling, .. } => Some(sibling_key(sibling)),
            Self::Aside => None,
        }
    }
}

/// A hidden call with its result: in the upstream view, and not in the agent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenPair {
    /// The pair's id; for an aside also the id in its line.
    pub id: Uuid,
    /// Who may see it.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// The wire whose JSON `call` is.
    pub wire: WireId,
    /// Upstream's id of the hidden call; empty where the wire has none.
    pub call_id: String,
    /// The call as JSON, as it goes back into the upstream view: a content block, an element of
    /// `tool_calls`, an item or a part, byte for byte as first put back.
    pub call: String,
    /// What the model is told.
    pub answer: Answer,
    /// Where it goes back.
    pub place: Place,
    /// Carry-over prompt and reason of an accepted call: it is pending until the turn ends.
    pub pending: Option<(String, Option<String>)>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// What a pair beside this sibling is looked up by: the id, or that part of a call fingerprint which no agent drops.
pub(crate) fn sibling_key(sibling: &str) -> &str {
    match sibling.split_once(';') {
        Some((key, _)) if key.starts_with(FINGERPRINT) => key,
        _ => sibling,
    }
}
