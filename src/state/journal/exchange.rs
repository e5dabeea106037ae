//! One exchange in full, as the API shows it: its messages on both sides, the fate of each, and the reason. The names
//! are API.

use serde::Serialize;

use super::leg::{LegDetail, MessageSummary};
use super::row::ExchangeRow;

/// An exchange in full, bodies left out: those are requested one by one.
#[derive(Debug, Serialize)]
pub struct ExchangeDetail {
    /// In short.
    pub exchange: ExchangeRow,
    /// Headers of both directions, redacted.
    pub headers: Headers,
    /// The agent's request.
    pub received: MessageList,
    /// The legs, in order.
    pub legs: Vec<LegDetail>,
    /// The response to the agent.
    pub shown: BodySize,
    /// Each edit in a plain sentence.
    pub notes: Vec<String>,
}

/// Headers as name and value.
#[derive(Debug, Default, Serialize)]
pub struct Headers {
    /// The agent's.
    pub received: Vec<(String, String)>,
    /// Headers of the response to the agent.
    pub response: Vec<(String, String)>,
}

/// The messages of a request.
#[derive(Debug, Default, Serialize)]
pub struct MessageList {
    /// In order.
    pub messages: Vec<MessageSummary>,
    /// The system prompt and the tools, where they are next to the messages.
    pub envelope: Vec<MessageSummary>,
}

/// A body's size.
#[derive(Debug, Serialize)]
pub struct BodySize {
    /// Bytes of the journal's copy.
    pub bytes: u64,
    /// Whether the copy lacks its end.
    pub truncated: bool,
}
