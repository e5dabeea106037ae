//! One exchange in full, as the API shows it: its messages on both sides, the fate of each, and the reason. The names
//! are API.

use serde::Serialize;
use serde_json::Value;

use super::diff::MessageState;
use super::row::ExchangeRow;
use baton_core::rewrite::ChangeReason;

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

/// A summary of a message.
#[derive(Debug, Clone, Serialize)]
pub struct MessageSummary {
    /// Its place, from 0.
    pub i: usize,
    /// `system`, `user`, `assistant`, `tool`, `tools`, `other`.
    pub role: String,
    /// `text`, `tool_use`, `tool_result`, `thinking`, `tools`, `mixed`, `other`.
    pub kind: String,
    pub bytes: u64,
    /// How it begins.
    pub first_line: String,
    /// The message's fate; for the agent's messages in the first leg.
    pub state: MessageState,
    pub why: Option<ChangeReason>,
    #[serde(skip)]
    pub(super) chunk: i64,
}

/// A leg: an upstream request and its response.
#[derive(Debug, Serialize)]
pub struct LegDetail {
    /// Its number, from 0.
    pub n: u32,
    /// When it went out.
    pub at_ms: u64,
    /// Milliseconds until upstream's head was there; none without an answer.
    pub answered_ms: Option<u64>,
    /// Milliseconds until the end of upstream's body, or until there was no answer.
    pub ended_ms: Option<u64>,
    pub sent: LegRequest,
    /// The fate of each of the agent's messages in this leg.
    pub received_states: Vec<MessageState>,
    pub received_whys: Vec<Option<ChangeReason>>,
    pub response: LegResponse,
}

/// A leg's request.
#[derive(Debug, Serialize)]
pub struct LegRequest {
    /// The URL, without its query.
    pub url: String,
    /// Its headers, redacted.
    pub headers: Vec<(String, String)>,
    pub messages: Vec<MessageSummary>,
    /// The system prompt and the tools, where they are next to the messages.
    pub envelope: Vec<MessageSummary>,
    /// The differences outside of the messages.
    pub envelope_changes: Vec<EnvelopeChange>,
}

/// A difference outside of the messages.
#[derive(Debug, Serialize)]
pub struct EnvelopeChange {
    /// The member of the request.
    pub key: String,
    /// The kind of change, in words.
    pub what: String,
}

/// A leg's response.
#[derive(Debug, Serialize)]
pub struct LegResponse {
    /// Upstream's status, where it answered.
    pub status: Option<u16>,
    /// Bytes of its body in the journal's copy.
    pub bytes: u64,
    /// Why it ended: `done`, `calls`, `truncated`, `refused`, `paused`, `error`, `open`.
    pub stop: Option<String>,
    pub usage: Option<Value>,
    /// Whether the copy lacks its end.
    pub truncated: bool,
    /// Upstream's headers, redacted.
    pub headers: Vec<(String, String)>,
}

/// A body's size.
#[derive(Debug, Serialize)]
pub struct BodySize {
    /// Bytes of the journal's copy.
    pub bytes: u64,
    /// Whether the copy lacks its end.
    pub truncated: bool,
}
