//! The legs of an exchange, as the API shows them and as the file has them. The names are API.

use rusqlite::{Connection, Row as SqlRow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::diff::MessageState;
use super::headers::StoredHeaders;
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::wire::Usage;

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
#[derive(Debug, Default, Serialize)]
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
    /// Bytes of its request.
    #[serde(skip)]
    pub(super) bytes: u64,
    /// Messages in its request.
    #[serde(skip)]
    pub(super) messages: u64,
    /// The last nodes of its request's three rows.
    #[serde(skip)]
    pub(super) body: [i64; 3],
    #[serde(skip)]
    pub(super) changes: Vec<SizeChange>,
    #[serde(skip)]
    pub(super) sent_headers: StoredHeaders,
    /// The chunk of its answer.
    #[serde(skip)]
    pub(super) answer: i64,
    #[serde(skip)]
    pub(super) headers: StoredHeaders,
}

/// A leg's request.
#[derive(Debug, Default, Serialize)]
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
#[derive(Debug, Default, Serialize)]
pub struct LegResponse {
    /// Upstream's status, where it answered.
    pub status: Option<u16>,
    /// Bytes of its body in the journal's copy.
    pub bytes: u64,
    /// Why it ended: `done`, `calls`, `truncated`, `refused`, `paused`, `error`, `open`.
    pub stop: Option<String>,
    pub usage: Option<Usage>,
    /// Whether the copy lacks its end.
    pub truncated: bool,
    /// Upstream's headers, redacted.
    pub headers: Vec<(String, String)>,
}

impl LegResponse {
    /// The tokens that upstream reported. Zeros alone mean that it reported none.
    pub(super) fn tokens(&self) -> Option<Usage> {
        self.usage.filter(|usage| *usage != Usage::default())
    }
}

/// The legs of an exchange, in order, without what is in their bodies and headers.
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

/// A column of JSON; `None` where it has none, or none that can be read.
pub(super) fn json<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}
