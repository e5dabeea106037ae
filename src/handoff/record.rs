//! What is remembered: handoffs, hidden pairs and conversations, as the store keeps them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::wire::{WireId, sibling_key};

/// A handoff's id, and an aside's: a UUIDv7, so that ids sort by time.
pub type HandoffId = Uuid;

/// Whose conversations these are: a configured client's name, or [`LOCAL`].
pub type Principal = String;

/// The principal where no clients are configured.
pub const LOCAL: &str = "local";

/// Who began a handoff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The model, by calling the tool.
    #[default]
    Model,
}

impl Origin {
    /// Every origin.
    pub const ALL: [Self; 1] = [Self::Model];

    /// The name used in records, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
        }
    }

    /// The origin of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.name() == name)
    }
}

/// A handoff that fired: written before its sentinel's first byte is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Its id, as the sentinel carries it.
    pub id: HandoffId,
    /// Who may resume it.
    pub principal: Principal,
    /// Key of the conversation in which it fired.
    pub conversation: String,
    /// The wire it fired on. On another wire `head` is built anew.
    pub wire: WireId,
    /// The carry-over prompt, normalised.
    pub prompt: String,
    /// Why the model handed off, where it said so.
    pub reason: Option<String>,
    /// What stands between the leading system messages and the work after the cut: preamble and
    /// carry-over prompt as JSON message elements of `wire`, separated by commas, byte for byte as sent.
    pub head: String,
    /// The handoff that was active when this one fired.
    pub parent: Option<HandoffId>,
    /// Model that made the call, as the request named it.
    pub model: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Size in bytes of the agent's request in which it fired.
    pub history_bytes: u64,
    /// Who began it.
    #[serde(default)]
    pub origin: Origin,
    /// Put away by a person: still resumable by its sentinel, no longer listed as open.
    pub archived: bool,
}

/// The first line of a carry-over prompt that tells one from another: not a heading, which all of them begin with, unless
/// there is nothing else. Without marks of Markdown.
pub fn telling_line(prompt: &str) -> &str {
    let shown = |line: &&str| line.chars().any(char::is_alphanumeric);
    let mut lines = prompt.lines().map(str::trim).filter(shown);
    let is_heading = |line: &str| {
        line.starts_with('#') || line.ends_with(':') || line.starts_with("**") && line.ends_with("**")
    };
    let first = lines.next().unwrap_or_default();
    let telling = match is_heading(first) {
        true => lines.find(|line| !is_heading(line)).unwrap_or(first),
        false => first,
    };
    telling
        .trim_start_matches(['#', '>', '-', '*', ' '])
        .trim_end_matches('*')
}

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

/// Where a handoff stands in the agent's transcript: what finds it there when its sentinel is not. An agent may cut off
/// the answer that showed the sentinel, and leave all of it out of its next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    /// The handoff.
    pub handoff: HandoffId,
    /// Who may see it.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// How many elements the transcript had behind its leading system messages.
    pub turns: usize,
    /// Digest of those elements, in hexadecimal.
    pub digest: String,
    /// Fingerprints of the texts since the cut before, for transcripts that come back as one text.
    #[serde(default)]
    pub texts: Vec<u32>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// What is remembered of a conversation beside its transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Hash of principal, wire and the agent's session id (or the opening), in hexadecimal.
    pub key: String,
    /// Owner.
    pub principal: Principal,
    /// Whether its requests carry the tool; `None` while undecided.
    pub tooled: Option<bool>,
    /// The handoff of the newest pinned request.
    pub active: Option<HandoffId>,
    /// Hidden pairs made since the last cut: looked for in each request.
    pub pairs: Vec<Uuid>,
    /// Handoffs whose answer the agent may have cut off and left out, oldest first: looked for by their cut points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_off: Vec<HandoffId>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn a_handoff_is_named_by_what_it_says() {
        for (prompt, line) in [
            (
                "# Goal\n\nTake linkshort off its file.\n",
                "Take linkshort off its file.",
            ),
            ("**Goal**\n- Port the tests", "Port the tests"),
            ("Goal:\nMend it", "Mend it"),
            ("Goal: mend it\nmore", "Goal: mend it"),
            ("---\n## Only a heading", "Only a heading"),
            ("", ""),
        ] {
            assert_eq!(telling_line(prompt), line, "{prompt}");
        }
    }
}
