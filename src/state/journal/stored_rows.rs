//! Reads rows of exchanges: their columns, and what their legs say.

use std::collections::HashMap;

use rusqlite::{Connection, Row as SqlRow};
use serde::de::DeserializeOwned;

use super::row::{ExchangeRow, LegChange, reported};
use super::schema::JournalError;
use crate::state::telemetry::{ExchangeFacts, ExchangeOutcome, UsageTokens};
use baton_core::rewrite::SizeChange;

/// Legs of one exchange that are listed: more than any has, so that a broken file costs no memory.
const MOST_LEGS: usize = 10_000;

/// The columns of a row, with the agent's last message where it is a person's text; a harness's begins with a tag.
pub(super) const COLUMNS: &str = "e.seq, e.id, e.conversation, e.at_ms, e.wire, e.upstream, e.route, e.model, e.messages, e.partial,
     e.ended, e.event, e.received_bytes, e.saved_tokens, e.answer, p.line, e.head, e.tail FROM exchanges e
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
    let StoredRow { seq, fixed, mut row } = stored;
    for node in fixed {
        let size = match sizes.get(&node) {
            Some(size) => *size,
            None => size_of(conn, node)?,
        };
        sizes.insert(node, size);
        row.fixed_bytes += size;
    }
    let mut ask = conn.prepare_cached(
        "SELECT n, messages, changes, bytes, status, usage FROM legs WHERE exchange = ?1 ORDER BY n",
    )?;
    let mut legs = ask.query([seq])?;
    let (mut bytes, mut tokens) = (Vec::new(), Vec::new());
    while let Some(leg) = legs.next()? {
        let n = leg.get(0)?;
        place(&mut row.sent_messages, n, leg.get(1)?);
        place(&mut row.statuses, n, leg.get(4)?);
        place(
            &mut tokens,
            n,
            reported(leg.get::<_, Option<String>>(5)?.as_deref()),
        );
        place(&mut bytes, n, leg.get(3)?);
        let changes: Vec<SizeChange> = json(leg, 2)?.unwrap_or_default();
        row.changes
            .extend(changes.into_iter().map(|change| LegChange::of(n, change)));
    }
    if row.open {
        row.event.sent_bytes = bytes;
        row.event.tokens = tokens;
    }
    row.legs = row.event.sent_bytes.len();
    row.tokens_sum = UsageTokens::sum(row.event.tokens.iter().flatten().copied());
    Ok(row)
}

/// A column of JSON; `None` where it has none, or none that can be read.
pub(super) fn json<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
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

/// A row as it is stored, without its legs.
pub(super) struct StoredRow {
    seq: i64,
    /// The nodes of what is before the messages, and after them.
    fixed: [i64; 2],
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
        fixed: [row.get(16)?, row.get(17)?],
        row: short,
    })
}
