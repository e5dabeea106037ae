//! A recorded session as the sizes of its calls, with observations on each.

use serde::{Deserialize, Serialize};

/// A session as the sizes of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSizes {
    /// Description of the session, for users.
    pub name: String,
    /// The model of the first call.
    pub model: String,
    /// Tokens of the system prompt and the tools.
    pub prefix: u64,
    /// Tokens at which the window or the agent's own compaction ends the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Calls in order.
    pub calls: Vec<SessionCall>,
    /// How the session was cached, if known.
    #[serde(skip)]
    pub caching: Caching,
    /// Number of leading calls that another session has paid for.
    #[serde(skip)]
    pub copied: usize,
    /// Tokens of the tool's definition, which is in every request if handoffs are offered.
    #[serde(skip)]
    pub tool: u64,
}

/// How a recorded session was cached, if that differs from the provider's rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caching {
    /// Whether the input was stored for the long lifetime.
    pub long: bool,
    /// Whether nothing was cached.
    pub none: bool,
    /// A longer lifetime that was observed.
    pub lifetime_ms: Option<u64>,
}

/// A call of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCall {
    /// Milliseconds since the start of the previous call.
    pub pause_ms: u64,
    /// Tokens added to the history: the previous response, results, a message.
    pub new: u64,
    /// Tokens of the response.
    pub output: u64,
    /// The model, if it changes with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the model handed over in this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handoff: bool,
    /// Additional observations.
    #[serde(skip)]
    pub seen: SeenCall,
}

/// Observations of a call in a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenCall {
    /// Tokens of results, included in `new`.
    pub results: u64,
    /// Tokens that the agent removed from the history before the call.
    pub dropped: u64,
    /// The agent's compaction before the call: tokens of the history before it, and after it without the prefix.
    pub compaction: Option<(u64, u64)>,
    /// Tokens of the history that remained in the provider's cache, if it had lost some.
    pub kept: Option<u64>,
    /// How the previous task ended.
    pub task_end: Option<TaskEnd>,
    /// Tokens that are read again if the history is cut here.
    pub read_again: Option<u64>,
}

named! {
    /// Evidence of the end of a task, followed by a new user message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TaskEnd {
        Todos = "its to-do list was finished",
        Plan = "a plan was accepted",
        Pause = "a pause followed",
    }
}
