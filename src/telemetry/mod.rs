//! What an exchange came to: one event, logged and counted in one place.

use std::time::Duration;

use crate::wire::WireId;

/// Tokens of one leg or of a whole exchange, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens that no cache served (Anthropic's sense; OpenAI's total less the cached ones).
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The response reached its end.
    Complete,
    /// The agent left.
    Cancelled,
    /// Upstream broke off.
    Truncated,
    /// Upstream answered with an error status, relayed.
    UpstreamError,
    /// An error of our own was answered.
    Refused,
}

/// One agent request with its legs and its response: what the log line and the metrics are made of.
#[derive(Debug, Clone)]
pub struct ExchangeEvent {
    /// Id, as in `x-baton-exchange`.
    pub id: String,
    /// The wire; `None` for what is relayed as it is.
    pub wire: Option<WireId>,
    /// Name of the upstream.
    pub upstream: String,
    /// Method and path, without the query.
    pub route: String,
    /// Model as requested.
    pub model: Option<String>,
    /// Conversation key.
    pub conversation: Option<String>,
    /// The handoff the request was pinned to.
    pub pinned: Option<String>,
    /// Handoffs that fired in it.
    pub fired: Vec<String>,
    /// Whether the tool was offered.
    pub tooled: bool,
    /// Whether the response was a stream.
    pub streamed: bool,
    /// Status sent to the agent.
    pub status: u16,
    /// Request bytes received from the agent (decoded).
    pub received_bytes: u64,
    /// Request bytes sent upstream, by leg.
    pub sent_bytes: Vec<u64>,
    /// Response bytes sent to the agent.
    pub response_bytes: u64,
    /// Usage by leg.
    pub tokens: Vec<Tokens>,
    /// Retries of later legs.
    pub retries: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// From the request's last byte to the first response byte from upstream.
    pub first_byte: Option<Duration>,
    /// From the request's first byte to the response's last.
    pub total: Duration,
    /// Time spent in our own code before the first leg was sent.
    pub added: Duration,
}
