//! The legs of an exchange, in the form of the API and of the file. Field names are part of the API.

use rusqlite::{Connection, Row as SqlRow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::diff::MessageState;
use super::headers::StoredHeaders;
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::wire::Usage;

/// Summary of a message, and its state on its side of the comparison.
#[derive(Debug, Clone, Serialize)]
pub struct MessageSummary {
    /// Index of the message, from 0.
    pub i: usize,
    /// `system`, `user`, `assistant`, `tool`, `tools`, `other`.
    pub role: String,
    /// `text`, `tool_use`, `tool_result`, `thinking`, `tools`, `mixed`, `other`.
    pub kind: String,
    pub bytes: u64,
    /// First line of the message.
    pub first_line: String,
    /// State of the message. For the agent's messages, their state in the first leg.
    pub state: MessageState,
    pub why: Option<ChangeReason>,
    #[serde(skip)]
    pub(super) chunk: i64,
}

/// A leg: an upstream request and its response.
#[derive(Debug, Default, Serialize)]
pub struct LegDetail {
    /// Number of the leg, from 0.
    pub n: u32,
    /// When the request was sent, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Milliseconds until the response head arrived. `None` without a response.
    pub answered_ms: Option<u64>,
    /// Milliseconds until the response body ended, or until the leg failed without a response.
    pub ended_ms: Option<u64>,
    pub sent: LegRequest,
    /// State of each of the agent's messages in this leg.
    pub received_states: Vec<MessageState>,
    pub received_whys: Vec<Option<ChangeReason>>,
    pub response: LegResponse,
    /// Bytes of the request.
    #[serde(skip)]
    pub(super) bytes: u64,
    /// Number of messages in the request.
    #[serde(skip)]
    pub(super) messages: u64,
    /// Last nodes of the request's three chains.
    #[serde(skip)]
    pub(super) body: [i64; 3],
    #[serde(skip)]
    pub(super) changes: Vec<SizeChange>,
    #[serde(skip)]
    pub(super) sent_headers: StoredHeaders,
    /// Chunk of the response.
    #[serde(skip)]
    pub(super) answer: i64,
    #[serde(skip)]
    pub(super) headers: StoredHeaders,
}

/// Request of a leg, as sent upstream.
#[derive(Debug, Default, Serialize)]
pub struct LegRequest {
    /// URL without its query.
    pub url: String,
    /// Headers, redacted.
    pub headers: Vec<(String, String)>,
    pub messages: Vec<MessageSummary>,
    /// The system prompt and the tools, if the request keeps them next to the messages.
    pub envelope: Vec<MessageSummary>,
    /// Differences outside of the messages.
    pub envelope_changes: Vec<EnvelopeChange>,
}

/// A difference outside of the messages.
#[derive(Debug, Serialize)]
pub struct EnvelopeChange {
    /// Member of the request.
    pub key: String,
    /// Description of the change.
    pub what: String,
}

/// Response of a leg, as received from upstream.
#[derive(Debug, Default, Serialize)]
pub struct LegResponse {
    /// Status from upstream, if it responded.
    pub status: Option<u16>,
    /// Bytes of the body in the journal's copy.
    pub bytes: u64,
    /// Stop reason: `done`, `calls`, `truncated`, `refused`, `paused`, `error`, `open`.
    pub stop: Option<String>,
    pub usage: Option<Usage>,
    /// Whether the copy lacks the end of the body.
    pub truncated: bool,
    /// Headers from upstream, redacted.
    pub headers: Vec<(String, String)>,
}

impl LegResponse {
    /// Returns the tokens that upstream reported. All zeros count as not reported.
    pub(super) fn tokens(&self) -> Option<Usage> {
        self.usage.filter(|usage| *usage != Usage::default())
    }
}

/// Returns the legs of an exchange in order, without the contents of their bodies and headers.
pub(super) fn legs(conn: &Connection, seq: i64) -> rusqlite::Result<Vec<LegDetail>> {
    let mut ask = conn.prepare_cached(
        "SELECT n, at_ms, answered_ms, ended_ms, url, status, response_bytes, stop, usage, response_cut, bytes, messages,
         head, list, tail, changes, sent_headers, sent_headers_own, response, headers, headers_own
         FROM legs WHERE exchange = ?1 ORDER BY n",
    )?;
    let legs = ask.query_map([seq], |row| {
        Ok(LegDetail {
            n: row.get(0)?,
            at_ms: row.get(1)?,
            answered_ms: row.get(2)?,
            ended_ms: row.get(3)?,
            sent: LegRequest {
                url: row.get(4)?,
                ..LegRequest::default()
            },
            response: LegResponse {
                status: row.get(5)?,
                bytes: row.get(6)?,
                stop: row.get(7)?,
                usage: json(row, 8)?,
                truncated: row.get(9)?,
                // Read only for the detail view.
                headers: Vec::new(),
            },
            bytes: row.get(10)?,
            messages: row.get(11)?,
            body: [row.get(12)?, row.get(13)?, row.get(14)?],
            changes: json(row, 15)?.unwrap_or_default(),
            sent_headers: StoredHeaders::in_row(row, 16)?,
            answer: row.get(18)?,
            headers: StoredHeaders::in_row(row, 19)?,
            ..LegDetail::default()
        })
    })?;
    legs.collect()
}

/// Parses a column of JSON. Returns `None` if it is empty or invalid.
pub(super) fn json<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}
