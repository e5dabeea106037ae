//! A recorded session as the sizes of its calls, and what was seen of each.

use serde::{Deserialize, Serialize};

/// A session as the sizes of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSizes {
    /// What it is, for people.
    pub name: String,
    /// The model that its first call asks.
    pub model: String,
    /// Tokens of the system prompt and the tools.
    pub prefix: u64,
    /// Tokens at which the window or the agent's own compaction ends the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Its calls, in order.
    pub calls: Vec<SessionCall>,
    /// What is known of how it was cached.
    #[serde(skip)]
    pub caching: Caching,
    /// Calls at its beginning that another session has paid.
    #[serde(skip)]
    pub copied: usize,
    /// Tokens of the tool in every request where handoffs are offered.
    #[serde(skip)]
    pub tool: u64,
}

/// How a recorded session was cached, where that differs from the provider's rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caching {
    /// Whether its input was stored for the long lifetime.
    pub long: bool,
    /// Whether nothing was cached.
    pub none: bool,
    /// A longer lifetime that was seen.
    pub lifetime_ms: Option<u64>,
}

/// One call of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCall {
    /// Milliseconds since the start of the call before it.
    pub pause_ms: u64,
    /// Tokens that it adds to the history: the answer before it, results, a message.
    pub new: u64,
    /// Tokens of its answer.
    pub output: u64,
    /// The model, where it is another one from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the model handed over in this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handoff: bool,
    /// What was seen of it besides.
    #[serde(skip)]
    pub seen: SeenCall,
}

/// What a recording shows of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenCall {
    /// Of the new tokens, those of results.
    pub results: u64,
    /// Tokens that the agent took out of the history before it.
    pub dropped: u64,
    /// The agent's compaction before it: tokens of the history before, and of all but the prefix after it.
    pub compaction: Option<(u64, u64)>,
    /// Of the history, the tokens that the provider's cache still had, where it had lost some.
    pub kept: Option<u64>,
    /// How the task before it ended.
    pub task_end: Option<TaskEnd>,
    /// Tokens that are read again where the history is cut here.
    pub read_again: Option<u64>,
}

named! {
    /// How a task is seen to end: the user said something new behind it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TaskEnd {
        Todos = "its to-do list was finished",
        Plan = "a plan was accepted",
        Pause = "a pause followed",
    }
}
