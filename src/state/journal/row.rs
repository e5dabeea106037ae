//! Summary of an exchange for lists, the API and `--json`. Field names are part of the API.

use std::collections::HashMap;

use rusqlite::{Connection, Row as SqlRow};
use serde::Serialize;

use super::answer_summary::AnswerSummary;
use super::diff::MessageState;
use super::headers::StoredHeaders;
use super::schema::JournalResult;
use crate::database::all;
use crate::telemetry::{ExchangeFacts, ExchangeOutcome};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::wire::Usage;
use serde::de::DeserializeOwned;

/// An exchange as lists, the API and `--json` show it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExchangeRow {
    /// Id of the exchange, as in `x-baton-exchange`.
    pub id: String,
    /// Key of its conversation.
    pub conversation: Option<String>,
    /// When the exchange began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Wire of the request. `None` for a relayed request.
    pub wire: Option<String>,
    /// Name of the upstream.
    pub upstream: Option<String>,
    /// Method and path.
    pub route: Option<String>,
    /// Requested model.
    pub model: Option<String>,
    /// Fields of the logged event.
    #[serde(flatten)]
    pub event: ExchangeFacts,
    /// Number of upstream requests, including retries.
    pub legs: usize,
    /// Summary of the last response. `None` if nothing was stored.
    pub answer: Option<AnswerSummary>,
    /// First line of the user's text, if the agent's request ends with one.
    pub user_line: Option<String>,
    /// Bytes of the agent's request outside of its messages, mostly the system prompt and the tools.
    pub fixed_bytes: u64,
    /// Number of messages in the agent's request.
    pub received_messages: u64,
    /// Number of messages in each leg's request.
    pub sent_messages: Vec<u64>,
    /// Status of each leg. `None` if upstream did not respond.
    pub statuses: Vec<Option<u16>>,
    /// Tokens of all legs together. `None` if upstream did not report usage.
    pub tokens_sum: Option<Usage>,
    /// *Estimated input not sent*, net, at four bytes per token.
    ///
    /// These are the tokens of the agent's request minus those of everything sent for it. Negative if more
    /// was sent.
    pub unsent_tokens: i64,
    /// Changes by leg and reason.
    pub changes: Vec<LegChange>,
    /// Whether part of the exchange is missing, because the journal's queue was full or the process ended
    /// first.
    pub partial: bool,
    /// Whether the exchange is still open.
    pub open: bool,
}

/// The changes for one reason in one leg's request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LegChange {
    /// Number of the leg, from 0.
    pub leg: u32,
    #[serde(flatten)]
    pub change: SizeChange,
}

impl ExchangeRow {
    /// Whether the exchange failed.
    pub fn failed(&self) -> bool {
        !self.open && has_failed(&self.event)
    }
}

/// Estimates the input that was not sent, net, in tokens.
///
/// This is the agent's request, limited to `window` tokens, minus everything sent upstream for it. Negative
/// if more was sent than received, and zero if nothing was sent.
pub(super) fn unsent_tokens(received: u64, window: Option<u64>, sent: Option<u64>) -> i64 {
    let tokens = |bytes: u64| i64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
    let Some(sent) = sent else { return 0 };
    let window = window.map_or(i64::MAX, |window| i64::try_from(window).unwrap_or(i64::MAX));
    // A request larger than the window would have been refused, so the excess could not have been sent. A sent
    // request proves a larger window.
    let sendable = tokens(received).min(window.max(tokens(sent)));
    sendable.saturating_sub(tokens(sent))
}

/// Whether an exchange with this status and outcome failed.
pub(super) fn has_failed(facts: &ExchangeFacts) -> bool {
    facts.status >= 400 || facts.outcome.has_failed()
}

/// Maximum number of legs listed for one exchange. No exchange has as many, so a broken file costs no memory.
const MAX_LEGS: usize = 10_000;

/// Columns of a row, with the first line of the agent's last message if the user wrote it. Text that begins with
/// a tag is the harness's.
pub(super) const COLUMNS: &str = "e.seq, e.id, e.conversation, e.at_ms, e.wire, e.upstream, e.route, e.model, e.messages, e.partial,
     e.ended, e.event, e.received_bytes, e.saved_tokens, e.answer, p.line, e.head, e.list, e.tail, e.headers, e.headers_own,
     e.shown, e.shown_cut, e.shown_headers, e.shown_headers_own FROM exchanges e
     LEFT JOIN nodes n ON n.id = e.list LEFT JOIN pieces p ON p.id = n.piece AND p.role = 'user' AND p.kind = 'text' AND p.line NOT LIKE '<%'";

/// The chain of nodes that ends with node `?1`, each with its distance from that end.
///
/// A parent is older than its children. The condition ends the chain in a damaged file whose nodes form a circle.
pub(super) const CHAIN: &str = "WITH RECURSIVE chain (id, parent, piece, gap, depth) AS (
        SELECT id, parent, piece, gap, 0 FROM nodes WHERE id = ?1
        UNION ALL SELECT n.id, n.parent, n.piece, n.gap, depth + 1 FROM nodes n JOIN chain c ON n.id = c.parent AND n.id < c.id
     )";

/// Completes a row with its legs and the size of its fixed part. `sizes` caches the sizes of nodes.
pub(super) fn with_legs(
    conn: &Connection,
    stored: StoredRow,
    sizes: &mut HashMap<i64, u64>,
) -> JournalResult<ExchangeRow> {
    let StoredRow {
        seq, body, mut row, ..
    } = stored;
    // Head and tail: everything except the messages.
    for node in [body[0], body[2]] {
        let size = match sizes.get(&node) {
            Some(size) => *size,
            None => size_of(conn, node)?,
        };
        sizes.insert(node, size);
        row.fixed_bytes += size;
    }
    let (mut bytes, mut tokens) = (Vec::new(), Vec::new());
    for leg in legs(conn, seq)? {
        let n = leg.n;
        place(&mut row.sent_messages, n, leg.messages);
        place(&mut row.statuses, n, leg.response.status);
        place(&mut tokens, n, leg.response.tokens());
        place(&mut bytes, n, leg.bytes);
        let changes = leg.changes.into_iter();
        row.changes
            .extend(changes.map(|change| LegChange { leg: n, change }));
    }
    // An open exchange has no event yet, so these come from its legs.
    if row.open {
        row.event.sent_bytes = bytes;
        row.event.tokens = tokens;
    }
    // Counted in the event, because rows of legs may be missing.
    row.legs = row.event.sent_bytes.len();
    row.tokens_sum = Usage::sum(row.event.tokens.iter().flatten().copied());
    Ok(row)
}

/// Returns the bytes of a chain of chunks.
pub(super) fn size_of(conn: &Connection, node: i64) -> JournalResult<u64> {
    let sql = format!(
        "{CHAIN} SELECT COALESCE(SUM(p.size + LENGTH(c.gap)), 0) FROM chain c JOIN pieces p ON p.id = c.piece"
    );
    let mut ask = conn.prepare_cached(&sql)?;
    Ok(ask.query_row([node], |row| row.get(0))?)
}

/// Stores a value of the `n`-th leg at its index. Legs whose rows were dropped leave a default value.
fn place<T: Default>(list: &mut Vec<T>, n: u32, value: T) {
    let n = n as usize;
    if n >= MAX_LEGS {
        return;
    }
    if list.len() <= n {
        list.resize_with(n + 1, T::default);
    }
    list[n] = value;
}

/// An exchange as stored, without its legs.
pub(super) struct StoredRow {
    pub(super) seq: i64,
    /// Last nodes of the request's three chains.
    pub(super) body: [i64; 3],
    pub(super) headers: StoredHeaders,
    /// Chunk of the response shown to the agent.
    pub(super) shown: i64,
    pub(super) shown_cut: bool,
    pub(super) shown_headers: StoredHeaders,
    row: ExchangeRow,
}

pub(super) fn stored_row(row: &SqlRow<'_>) -> rusqlite::Result<StoredRow> {
    let received_bytes = row.get(12)?;
    // The exchange is open, or its event is unreadable.
    let event = json(row, 11)?.unwrap_or_else(|| ExchangeFacts {
        received_bytes,
        outcome: ExchangeOutcome::Open,
        ..ExchangeFacts::default()
    });
    let short = ExchangeRow {
        id: row.get(1)?,
        conversation: row.get(2)?,
        at_ms: row.get(3)?,
        wire: row.get(4)?,
        upstream: row.get(5)?,
        route: row.get(6)?,
        model: row.get(7)?,
        received_messages: row.get(8)?,
        unsent_tokens: row.get(13)?,
        answer: json(row, 14)?,
        user_line: row.get(15)?,
        partial: row.get(9)?,
        open: row.get::<_, Option<i64>>(10)?.is_none(),
        event,
        ..ExchangeRow::default()
    };
    Ok(StoredRow {
        seq: row.get(0)?,
        body: [row.get(16)?, row.get(17)?, row.get(18)?],
        headers: StoredHeaders::in_row(row, 19)?,
        shown: row.get(21)?,
        shown_cut: row.get(22)?,
        shown_headers: StoredHeaders::in_row(row, 23)?,
        row: short,
    })
}

/// An exchange in full, without bodies. Those are requested one by one. Field names are part of the API.
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
    let sql = "SELECT n, at_ms, answered_ms, ended_ms, url, status, response_bytes, stop, usage, response_cut, bytes, messages,
         head, list, tail, changes, sent_headers, sent_headers_own, response, headers, headers_own
         FROM legs WHERE exchange = ?1 ORDER BY n";
    all(conn, sql, [seq], |row| {
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
    })
}

/// Parses a column of JSON. Returns `None` if it is empty or invalid.
pub(super) fn json<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

#[cfg(test)]
mod tests {
    use super::unsent_tokens;

    #[test]
    fn the_excess_over_the_window_counts_only_if_it_was_not_sent() {
        let window = Some(1_000);
        for (received, sent, unsent) in [
            (2_000, 400, 400),
            (8_000, 400, 900),
            // The provider got all of it, with a little from baton.
            (8_000, 8_040, -10),
            (8_000, 8_000, 0),
        ] {
            assert_eq!(
                unsent_tokens(received, window, Some(sent)),
                unsent,
                "{received} {sent}"
            );
        }
        assert_eq!(unsent_tokens(8_000, window, None), 0);
    }
}
