//! Hidden pairs: a call of one of baton's tools with its result, and its position.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{Principal, WireId};
use super::insertion::InsertionPoint;

/// Result of a hidden call, as the model reads it.
///
/// The result becomes part of a prefix that must never change, so it is stored in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenResult {
    text: Cow<'static, str>,
    error: bool,
}

impl HiddenResult {
    /// Accepted next to other calls: the handoff happens at the end of the turn.
    pub const QUEUED: Self = Self::new(
        Cow::Borrowed(
            "Handoff queued: it takes place when your turn ends, unless the user sends a message first. Call session_handoff again to replace its prompt.",
        ),
        false,
    );
    /// The prompt was empty.
    pub const EMPTY_PROMPT: Self = Self::refused(
        "Handoff refused: `prompt` is empty. Call session_handoff again with everything the next session has to know.",
    );
    /// The arguments were not a JSON object with a string `prompt`.
    pub const BAD_ARGUMENTS: Self = Self::refused(
        "Handoff refused: the arguments were not a JSON object with a string `prompt`. Call session_handoff again.",
    );
    /// Fewer than two messages since the last cut.
    pub const NOTHING_TO_HAND_OFF: Self = Self::refused(
        "Handoff refused: there is nothing to hand off yet. Go on with the task and call session_handoff when it is done.",
    );
    /// The response is bound to a format, which a sentinel would break.
    pub const IN_FORMAT: Self = Self::refused(
        "Handoff refused: this response must be in the requested format. Give it now, and call session_handoff in a later turn.",
    );
    /// The prompt exceeded the limit.
    pub const TOO_LONG: Self = Self::refused(
        "Handoff refused: `prompt` is too long. Call session_handoff again with a shorter one.",
    );
    /// The turn was cut off after the call, by the output limit or a filter.
    pub const CUT_OFF: Self = Self::refused(
        "Handoff refused: the turn was cut off before its end. Call session_handoff again when the task is done.",
    );
    /// The call was valid, but no leg was left to execute it or to ask again.
    pub const NOT_TAKEN: Self = Self::refused(
        "Handoff refused: no more handoffs can be made in this answer. Go on with the task and call session_handoff again when it is done.",
    );
    /// The handoff could not be written, so it must not take effect.
    pub const NOT_STORED: Self = Self::refused(
        "Handoff refused: it cannot be stored at present. Go on with the task as it is, and call session_handoff again in a later turn.",
    );
    /// A call of another tool was incomplete or exceeded the limit.
    pub const NOT_WHOLE: Self = Self::refused("Not run: the call was not whole, or too long. Call it again.");
    /// A call of another tool exceeded the number of calls per turn.
    pub const TOO_OFTEN: Self = Self::refused(
        "Not run: this tool was called as often as it may be in one turn. Go on with the task.",
    );

    const fn new(text: Cow<'static, str>, error: bool) -> Self {
        Self { text, error }
    }

    const fn refused(text: &'static str) -> Self {
        Self::new(Cow::Borrowed(text), true)
    }

    /// Creates a successful result.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::new(Cow::Owned(text.into()), false)
    }

    /// Creates an error result.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Cow::Owned(text.into()), true)
    }

    /// Text of the result.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the model should see the result as an error.
    pub fn is_error(&self) -> bool {
        self.error
    }
}

/// A hidden call with its result. The upstream view contains it, the agent's transcript does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenPair {
    /// Id of the pair; for an aside, the id in its line.
    pub id: Uuid,
    /// Owner.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// Wire that determines the JSON of `call`.
    pub wire: WireId,
    /// Tool that was called.
    pub tool: String,
    /// Call id assigned by upstream; empty if the wire has none.
    pub call_id: String,
    /// The call as JSON for the upstream view: a content block, an element of `tool_calls`, an item or a
    /// part. Byte for byte as first restored.
    pub call: String,
    /// Result that the model reads.
    pub answer: HiddenResult,
    /// Position in the transcript.
    pub place: InsertionPoint,
    /// Carry-over prompt and reason of an accepted call that waits for the end of the turn.
    pub pending: Option<(String, Option<String>)>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}
