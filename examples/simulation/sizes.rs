//! A session as the sizes of its calls.

use serde::{Deserialize, Serialize};

/// A session as the sizes of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionSizes {
    /// What it is, for people.
    pub(crate) name: String,
    /// The model that its first call asks.
    pub(crate) model: String,
    /// Tokens of the system prompt and the tools.
    pub(crate) prefix: u64,
    /// Tokens at which the window or the agent's own compaction ends the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    /// Its calls, in order.
    pub(crate) calls: Vec<SessionCall>,
}

/// One call of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionCall {
    /// Milliseconds since the start of the call before it.
    pub(crate) pause_ms: u64,
    /// Tokens that it adds to the history: the answer before it, results, a message.
    pub(crate) new: u64,
    /// Tokens of its answer.
    pub(crate) output: u64,
    /// The model, where it is another one from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Whether the model handed over in this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) handoff: bool,
}
