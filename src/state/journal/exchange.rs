//! One exchange in full, as the API shows it: the messages on both sides, with the state of each and the
//! reason.
//!
//! Field names are part of the API.

use serde::Serialize;

use super::leg::{LegDetail, MessageSummary};
use super::row::ExchangeRow;

/// An exchange in full, without bodies. Those are requested one by one.
#[derive(Debug, Serialize)]
pub struct ExchangeDetail {
    /// Summary of the exchange.
    pub exchange: ExchangeRow,
    /// Headers of both directions, redacted.
    pub headers: Headers,
    /// The agent's request.
    pub received: MessageList,
    /// The legs, in order.
    pub legs: Vec<LegDetail>,
    /// The response to the agent.
    pub shown: BodySize,
    /// Each edit as a plain sentence.
    pub notes: Vec<String>,
}

/// Headers as pairs of name and value.
#[derive(Debug, Default, Serialize)]
pub struct Headers {
    /// Headers of the agent's request.
    pub received: Vec<(String, String)>,
    /// Headers of the response to the agent.
    pub response: Vec<(String, String)>,
}

/// The messages of a request.
#[derive(Debug, Default, Serialize)]
pub struct MessageList {
    /// The messages, in order.
    pub messages: Vec<MessageSummary>,
    /// The system prompt and the tools, if the request keeps them next to the messages.
    pub envelope: Vec<MessageSummary>,
}

/// Size of a body in the journal.
#[derive(Debug, Serialize)]
pub struct BodySize {
    /// Bytes of the journal's copy.
    pub bytes: u64,
    /// Whether the copy lacks the end of the body.
    pub truncated: bool,
}
