//! Summary of an exchange for lists, the API and `--json`. Field names are part of the API.

use std::collections::HashMap;

use rusqlite::{Connection, Row as SqlRow};
use serde::Serialize;

use super::answer_summary::AnswerSummary;
use super::headers::StoredHeaders;
use super::leg::{json, legs};
use super::schema::JournalError;
use crate::telemetry::{ExchangeFacts, ExchangeOutcome};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::rewrite::SizeChange;
use baton_core::wire::Usage;

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
    // A request larger than the window would have been refused, so the excess could not have been sent.
    let sendable =
        tokens(received).min(window.map_or(i64::MAX, |window| i64::try_from(window).unwrap_or(i64::MAX)));
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
) -> Result<ExchangeRow, JournalError> {
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
pub(super) fn size_of(conn: &Connection, node: i64) -> Result<u64, JournalError> {
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
