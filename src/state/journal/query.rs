//! Reads the journal, with or without a running proxy. Never writes.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::chunk_store::unpack;
use super::row::{CHAIN, COLUMNS, ExchangeRow, StoredRow, json, stored_row, with_legs};
use super::schema::{self, JournalResult};
use crate::database::{all, first};
use crate::telemetry::ExchangeFacts;

/// Returns the number of rows for a limit. 0 means the maximum.
pub(super) fn rows_of(limit: usize) -> usize {
    const MAX_ROWS: usize = 10_000;
    match limit {
        0 => MAX_ROWS,
        limit => limit.min(MAX_ROWS),
    }
}

/// Bytes of the agents' requests that reached upstream.
///
/// Like the input that was not sent, this excludes requests that baton answered itself.
const RECEIVED: &str = "SUM(iif(sent_bytes > 0, received_bytes, 0))";

/// The journal, opened for reading.
pub struct JournalReader {
    pub(super) conn: Connection,
}

/// Selects the exchanges to list.
#[derive(Debug, Clone, Default)]
pub struct ExchangeFilter {
    /// Conversation to list. `None` lists all.
    pub conversation: Option<String>,
    /// Lists only exchanges that began before this one.
    pub before: Option<String>,
    /// Lists only exchanges that failed.
    pub failed: bool,
    /// Maximum number of rows. 0 means the upper bound.
    pub limit: usize,
}

impl ExchangeFilter {
    /// Selects the newest exchanges of a conversation, at most this number of them.
    pub fn newest(conversation: Option<&str>, limit: usize) -> Self {
        Self {
            conversation: conversation.map(str::to_owned),
            limit,
            ..Self::default()
        }
    }
}

/// Summary of a conversation.
#[derive(Debug, Clone, Serialize)]
pub struct ConversationSummary {
    pub key: String,
    /// First line of the first text from the user.
    pub title: String,
    pub wire: Option<String>,
    /// Client whose conversation it is. `None` without clients.
    pub client: Option<String>,
    /// Model of the newest request.
    pub model: Option<String>,
    /// Number of exchanges in the journal.
    pub exchanges: u64,
    /// Number of handoffs that fired in them.
    pub handoffs: u64,
    /// Number of failed exchanges.
    pub failures: u64,
    /// When the first exchange began.
    pub first_ms: u64,
    /// When the last exchange began.
    pub last_ms: u64,
    /// Bytes of the agent's requests that reached upstream. Requests that baton answered itself do not count.
    pub received_bytes: u64,
    /// Bytes of the requests to upstream.
    pub sent_bytes: u64,
    /// *Estimated input not sent*, net, in tokens. See
    /// [`ExchangeRow::unsent_tokens`](super::row::ExchangeRow::unsent_tokens).
    pub unsent_tokens: i64,
}

/// Totals over the journal.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct JournalTotals {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Number of conversations.
    pub conversations: u64,
    /// Bytes of the file that are in use.
    pub bytes: u64,
    /// Number of handoffs that fired.
    pub handoffs: u64,
    /// Bytes of the agents' requests that reached upstream.
    pub received_bytes: u64,
    /// Bytes of the requests to upstream.
    pub sent_bytes: u64,
    /// *Estimated input not sent*, net, in tokens.
    pub unsent_tokens: i64,
    /// Number of failed exchanges.
    pub failures: u64,
}

/// Selects one of an exchange's bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySide {
    /// The agent's request.
    Received,
    /// Request of this leg.
    Sent(u32),
    /// Response of this leg, as upstream sent it.
    Response(u32),
    /// The response to the agent.
    Shown,
}

impl JournalReader {
    /// Opens the journal of a state directory. Returns `None` if nothing was ever written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or has another version.
    pub fn open(dir: &Path) -> JournalResult<Option<Self>> {
        Ok(schema::open_reader(dir)?.map(|conn| Self { conn }))
    }

    /// Lists exchanges, newest first. An id has the time of its clock, which may have been corrected since.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn list(&self, filter: &ExchangeFilter) -> JournalResult<Vec<ExchangeRow>> {
        let sql = format!(
            "SELECT {COLUMNS} WHERE (?1 IS NULL OR e.conversation = ?1) AND (?2 IS NULL OR e.seq < (SELECT seq FROM exchanges WHERE id = ?2))
             AND (NOT ?4 OR e.failed) ORDER BY e.seq DESC LIMIT ?3"
        );
        let (conversation, before) = (&filter.conversation, &filter.before);
        let mut ask = self.conn.prepare_cached(&sql)?;
        let values = params![conversation, before, rows_of(filter.limit), filter.failed];
        let rows = ask.query_map(values, stored_row)?;
        // Most exchanges of a list share their head and tail, which are then measured only once.
        let mut sizes = HashMap::new();
        rows.map(|row| with_legs(&self.conn, row?, &mut sizes)).collect()
    }

    /// Returns the context tokens of a conversation's last response in the agent loop, and the model.
    ///
    /// Returns `None` if upstream did not report usage recently.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn context_tokens(&self, conversation: &str) -> JournalResult<Option<(u64, Option<String>)>> {
        /// Number of exchanges examined.
        const NEWEST: usize = 20;
        let rows = self.list(&ExchangeFilter::newest(Some(conversation), NEWEST))?;
        // Side requests are not offered baton's tool, and their context is not the conversation's.
        let of = |tooled: bool| {
            let mut rows = rows.iter().filter(move |row| row.event.tooled == tooled);
            rows.find_map(|row| Some((row.event.context_tokens()?, row.model.clone())))
        };
        Ok(of(true).or_else(|| of(false)))
    }

    /// Returns the exchanges that ended after the `last`-th end, in order, each with the number of its end.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn ended_after(&self, last: i64, limit: usize) -> JournalResult<Vec<(i64, ExchangeRow)>> {
        let sql = format!("SELECT {COLUMNS} WHERE e.ended > ?1 ORDER BY e.ended LIMIT ?2");
        let mut ask = self.conn.prepare_cached(&sql)?;
        // Column 10 is `ended`.
        let rows = ask.query_map(params![last, limit], |row| Ok((row.get(10)?, stored_row(row)?)))?;
        rows.map(|row| {
            let (ended, row) = row?;
            Ok((ended, with_legs(&self.conn, row, &mut HashMap::new())?))
        })
        .collect()
    }

    /// Returns the number of the last end.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn last_end(&self) -> JournalResult<i64> {
        let sql = "SELECT COALESCE(MAX(ended), 0) FROM exchanges";
        Ok(self.conn.query_row(sql, [], |row| row.get(0))?)
    }

    /// Returns the summary of one exchange.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn row(&self, id: &str) -> JournalResult<Option<ExchangeRow>> {
        let row = |row| with_legs(&self.conn, row, &mut HashMap::new());
        self.stored(id)?.map(row).transpose()
    }

    pub(super) fn stored(&self, id: &str) -> JournalResult<Option<StoredRow>> {
        let sql = format!("SELECT {COLUMNS} WHERE e.id = ?1");
        Ok(first(&self.conn, &sql, [id], stored_row)?)
    }

    /// Returns the exchange of a conversation in which a handoff fired.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn fired_in(&self, conversation: &str, handoff: &str) -> JournalResult<Option<String>> {
        // An event that is not valid JSON must not fail the whole query.
        let sql = "SELECT e.id FROM exchanges e, json_each(CASE WHEN json_valid(e.event) THEN e.event ELSE '{}' END, '$.fired') f
             WHERE e.conversation = ?1 AND e.fired > 0 AND f.value = ?2 LIMIT 1";
        Ok(first(&self.conn, sql, [conversation, handoff], |row| row.get(0))?)
    }

    /// Returns the conversations of a `baton run`, the most recently used first.
    ///
    /// A run's id is older than those of its exchanges, which bounds the search.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn conversations_of_run(&self, run: &str) -> JournalResult<Vec<String>> {
        let sql = "SELECT conversation FROM exchanges WHERE id > ?1 AND conversation IS NOT NULL AND json_valid(event)
             AND json_extract(event, '$.run') = ?1 GROUP BY conversation ORDER BY MAX(id) DESC";
        Ok(all(&self.conn, sql, [run], |row| row.get(0))?)
    }

    /// Returns the facts of the last exchange of a run.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn last_of_run(&self, run: &str) -> JournalResult<Option<ExchangeFacts>> {
        let sql = "SELECT event FROM exchanges
             WHERE id > ?1 AND json_valid(event) AND json_extract(event, '$.run') = ?1 ORDER BY id DESC LIMIT 1";
        Ok(first(&self.conn, sql, [run], |row| json(row, 0))?.flatten())
    }

    /// Whether an exchange with a later id is still open.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn has_open_after(&self, id: &str) -> JournalResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM exchanges WHERE id > ?1 AND ended IS NULL)";
        Ok(self.conn.query_row(sql, [id], |row| row.get(0))?)
    }

    /// Returns when a leg's request was sent, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn leg_sent_ms(&self, id: &str, leg: u32) -> JournalResult<Option<u64>> {
        let sql =
            "SELECT l.at_ms FROM legs l JOIN exchanges e ON e.seq = l.exchange WHERE e.id = ?1 AND l.n = ?2";
        Ok(first(&self.conn, sql, params![id, leg], |row| row.get(0))?)
    }

    /// Returns up to two ids with this prefix, so that the caller can detect an ambiguous one.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn ids(&self, beginning: &str) -> JournalResult<Vec<String>> {
        // Not `LIKE`, because a user's input may contain its wildcards.
        let sql = "SELECT id FROM exchanges WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 2";
        Ok(all(&self.conn, sql, [beginning], |row| row.get(0))?)
    }

    /// Returns conversations, the most recently used first. `key` selects a single one.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn conversations(&self, key: Option<&str>, limit: usize) -> JournalResult<Vec<ConversationSummary>> {
        let sql = format!(
            "SELECT e.conversation, COALESCE(t.title, ''), MAX(e.wire), COUNT(*), SUM(e.fired), MIN(e.at_ms),
             MAX(e.at_ms), {RECEIVED}, SUM(e.sent_bytes), SUM(e.saved_tokens), SUM(e.failed),
             (SELECT model FROM exchanges n WHERE n.conversation = e.conversation AND n.model IS NOT NULL
              ORDER BY n.seq DESC LIMIT 1), NULLIF(MAX(e.principal), 'local')
             FROM exchanges e LEFT JOIN titles t ON t.conversation = e.conversation
             WHERE e.conversation IS NOT NULL AND (?1 IS NULL OR e.conversation = ?1)
             GROUP BY e.conversation ORDER BY MAX(e.seq) DESC LIMIT ?2",
        );
        let found = all(&self.conn, &sql, params![key, rows_of(limit)], |row| {
            Ok(ConversationSummary {
                key: row.get(0)?,
                title: row.get(1)?,
                wire: row.get(2)?,
                exchanges: row.get(3)?,
                handoffs: row.get(4)?,
                first_ms: row.get(5)?,
                last_ms: row.get(6)?,
                received_bytes: row.get(7)?,
                sent_bytes: row.get(8)?,
                unsent_tokens: row.get(9)?,
                failures: row.get(10)?,
                model: row.get(11)?,
                client: row.get(12)?,
            })
        });
        Ok(found?)
    }

    /// Returns the totals over the journal.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn totals(&self) -> JournalResult<JournalTotals> {
        let totals = self.conn.query_row(
            &format!(
                "SELECT COUNT(*), COUNT(DISTINCT conversation), COALESCE(SUM(fired), 0), COALESCE({RECEIVED}, 0),
                 COALESCE(SUM(sent_bytes), 0), COALESCE(SUM(saved_tokens), 0), COALESCE(SUM(failed), 0) FROM exchanges"
            ),
            [],
            |row| {
                Ok(JournalTotals {
                    exchanges: row.get(0)?,
                    conversations: row.get(1)?,
                    bytes: 0,
                    handoffs: row.get(2)?,
                    received_bytes: row.get(3)?,
                    sent_bytes: row.get(4)?,
                    unsent_tokens: row.get(5)?,
                    failures: row.get(6)?,
                })
            },
        )?;
        let bytes = super::retention::used(&self.conn)?;
        Ok(JournalTotals { bytes, ..totals })
    }

    /// Appends the text of a chain of chunks to `out`.
    pub(super) fn join(&self, node: i64, out: &mut Vec<u8>) -> JournalResult<()> {
        let sql = format!(
            "{CHAIN} SELECT c.gap, p.body, p.packed, p.size FROM chain c JOIN pieces p ON p.id = c.piece
             ORDER BY depth DESC"
        );
        let mut ask = self.conn.prepare_cached(&sql)?;
        let mut rows = ask.query([node])?;
        while let Some(row) = rows.next()? {
            // The deepest node is the first one of the text, hence the descending order.
            let gap: String = row.get(0)?;
            out.extend_from_slice(gap.as_bytes());
            out.extend_from_slice(&unpack(row.get(1)?, row.get(2)?, row.get(3)?));
        }
        Ok(())
    }

    pub(super) fn text(&self, chunk: i64) -> JournalResult<Vec<u8>> {
        let sql = "SELECT body, packed, size FROM pieces WHERE id = ?1";
        let unpacked = |row: &Row<'_>| Ok(unpack(row.get(0)?, row.get(1)?, row.get(2)?));
        // A missing chunk reads as empty: retention may have deleted it since its row was read.
        Ok(first(&self.conn, sql, [chunk], unpacked)?.unwrap_or_default())
    }
}
