//! A summary of an exchange, as lists, the API and `--json` show it. The names are API.

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

/// The row of an exchange.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExchangeRow {
    /// Its id, as in `x-baton-exchange`.
    pub id: String,
    /// Key of its conversation.
    pub conversation: Option<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Its wire; none for what was relayed as it is.
    pub wire: Option<String>,
    /// Name of the upstream.
    pub upstream: Option<String>,
    /// Method and path.
    pub route: Option<String>,
    /// Model as requested.
    pub model: Option<String>,
    /// What its event says.
    #[serde(flatten)]
    pub event: ExchangeFacts,
    /// Upstream requests, retries among them.
    pub legs: usize,
    /// A summary of the last answer; none where nothing was kept.
    pub answer: Option<AnswerSummary>,
    /// The first line of the user's text, where the agent's request ends with one.
    pub user_line: Option<String>,
    /// Bytes of the agent's request besides its messages: the system prompt and the tools, where they are there.
    pub fixed_bytes: u64,
    /// Messages in the agent's request.
    pub received_messages: u64,
    /// Messages in each leg's request.
    pub sent_messages: Vec<u64>,
    /// Upstream's status for each leg; none where it gave no answer.
    pub statuses: Vec<Option<u16>>,
    /// The tokens of all legs together; none where upstream reported none.
    pub tokens_sum: Option<Usage>,
    /// *Estimated input not sent*, net: tokens of the agent's request less those of everything sent for it, four bytes to the
    /// token. Negative where more was sent.
    pub unsent_tokens: i64,
    /// The changes, by leg and reason.
    pub changes: Vec<LegChange>,
    /// Whether a copy was dropped because the journal's queue was full, or the process ended before the exchange.
    pub partial: bool,
    /// Whether it is still under way.
    pub open: bool,
}

/// The changes of one reason in one leg's request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LegChange {
    /// The leg, from 0.
    pub leg: u32,
    /// What was changed in it.
    #[serde(flatten)]
    pub change: SizeChange,
}

impl ExchangeRow {
    /// Whether it has failed.
    pub fn failed(&self) -> bool {
        !self.open && has_failed(&self.event)
    }
}

/// Estimated input that was not sent, net: the agent's request, as far as a window of `window` tokens takes it, less all that
/// was sent upstream for it. Negative where more was sent than received; zero where nothing was.
pub(super) fn unsent_tokens(received: u64, window: Option<u64>, legs: impl Iterator<Item = u64>) -> i64 {
    let tokens = |bytes: u64| i64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
    let (sent, count) = legs.fold((0_u64, 0), |(sum, count), bytes| {
        (sum.saturating_add(bytes), count + 1)
    });
    if count == 0 {
        return 0;
    }
    let sendable =
        tokens(received).min(window.map_or(i64::MAX, |window| i64::try_from(window).unwrap_or(i64::MAX)));
    sendable.saturating_sub(tokens(sent))
}

/// Whether an exchange with this status and outcome has failed.
pub(super) fn has_failed(facts: &ExchangeFacts) -> bool {
    facts.status >= 400 || facts.outcome.has_failed()
}

/// Legs of one exchange that are listed: more than any has, so that a broken file costs no memory.
const MOST_LEGS: usize = 10_000;

/// The columns of a row, with the agent's last message where it is a user's text; a harness's begins with a tag.
pub(super) const COLUMNS: &str = "e.seq, e.id, e.conversation, e.at_ms, e.wire, e.upstream, e.route, e.model, e.messages, e.partial,
     e.ended, e.event, e.received_bytes, e.saved_tokens, e.answer, p.line, e.head, e.list, e.tail, e.headers, e.headers_own,
     e.shown, e.shown_cut, e.shown_headers, e.shown_headers_own FROM exchanges e
     LEFT JOIN nodes n ON n.id = e.list LEFT JOIN pieces p ON p.id = n.piece AND p.role = 'user' AND p.kind = 'text' AND p.line NOT LIKE '<%'";

/// The chain of nodes that ends with the node `?1`, each with its distance from that end.
pub(super) const CHAIN: &str = "WITH RECURSIVE chain (id, parent, piece, gap, depth) AS (
        SELECT id, parent, piece, gap, 0 FROM nodes WHERE id = ?1
        UNION ALL SELECT n.id, n.parent, n.piece, n.gap, depth + 1 FROM nodes n JOIN chain c ON n.id = c.parent
     )";

/// The row with what its legs say, and with the size of its fixed part; `sizes` has those of nodes that were measured
/// already.
pub(super) fn with_legs(
    conn: &Connection,
    stored: StoredRow,
    sizes: &mut HashMap<i64, u64>,
) -> Result<ExchangeRow, JournalError> {
    let StoredRow {
        seq, body, mut row, ..
    } = stored;
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
    if row.open {
        row.event.sent_bytes = bytes;
        row.event.tokens = tokens;
    }
    row.legs = row.event.sent_bytes.len();
    row.tokens_sum = Usage::sum(row.event.tokens.iter().flatten().copied());
    Ok(row)
}

/// Bytes of a row of chunks.
pub(super) fn size_of(conn: &Connection, node: i64) -> Result<u64, JournalError> {
    let sql = format!(
        "{CHAIN} SELECT COALESCE(SUM(p.size + LENGTH(c.gap)), 0) FROM chain c JOIN pieces p ON p.id = c.piece"
    );
    let mut ask = conn.prepare_cached(&sql)?;
    Ok(ask.query_row([node], |row| row.get(0))?)
}

/// Puts what is known of the `n`-th leg at its place. Legs whose rows were dropped leave theirs empty.
fn place<T: Default>(list: &mut Vec<T>, n: u32, value: T) {
    let n = n as usize;
    if n >= MOST_LEGS {
        return;
    }
    if list.len() <= n {
        list.resize_with(n + 1, T::default);
    }
    list[n] = value;
}

/// An exchange as it is stored, without its legs.
pub(super) struct StoredRow {
    pub(super) seq: i64,
    /// The last nodes of its request's three rows.
    pub(super) body: [i64; 3],
    pub(super) headers: StoredHeaders,
    /// The chunk of what the agent was shown.
    pub(super) shown: i64,
    pub(super) shown_cut: bool,
    pub(super) shown_headers: StoredHeaders,
    row: ExchangeRow,
}

pub(super) fn stored_row(row: &SqlRow<'_>) -> rusqlite::Result<StoredRow> {
    let received_bytes = row.get(12)?;
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
