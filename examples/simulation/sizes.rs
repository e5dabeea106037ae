//! A session as the sizes of its calls.

use serde::{Deserialize, Serialize};

/// A session as the sizes of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionSizes {
    /// Description of the session, for users.
    pub(crate) name: String,
    /// The model of the first call.
    pub(crate) model: String,
    /// Tokens of the system prompt and the tools.
    pub(crate) prefix: u64,
    /// Tokens at which the window or the agent's own compaction ends the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
    /// Calls in order.
    pub(crate) calls: Vec<SessionCall>,
}

/// A call of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionCall {
    /// Milliseconds since the start of the previous call.
    pub(crate) pause_ms: u64,
    /// Tokens added to the history: the previous response, results, a message.
    pub(crate) new: u64,
    /// Tokens of the response.
    pub(crate) output: u64,
    /// The model, if it changes with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Whether the model handed over in this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) handoff: bool,
}
