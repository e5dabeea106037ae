//! Rows of exchanges and legs that are not written yet: each is written once, however many notes contributed to it.

use rusqlite::{CachedStatement, Connection, params};
use serde::Serialize;

use super::chunk_bodies::BodyNodes;
use super::headers::StoredHeaders;
use super::row::has_failed;
use crate::state::clock::now_ms;
use crate::state::telemetry::ExchangeEvent;
use baton_core::wire::Operation;

/// An exchange's row.
#[derive(Debug, Default)]
pub(super) struct PendingRow {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) at_ms: u64,
    pub(super) conversation: Option<String>,
    pub(super) principal: Option<String>,
    pub(super) wire: Option<&'static str>,
    pub(super) model: Option<String>,
    pub(super) upstream: String,
    pub(super) route: Option<String>,
    pub(super) operation: Option<&'static str>,
    pub(super) received: BodyNodes,
    pub(super) headers: StoredHeaders,
    pub(super) shown: i64,
    pub(super) shown_cut: bool,
    pub(super) shown_headers: StoredHeaders,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) fired: usize,
    pub(super) saved_tokens: i64,
    pub(super) partial: bool,
    /// The number of its end, counted over all exchanges.
    pub(super) ended: Option<i64>,
    pub(super) event: Option<String>,
    /// A summary of the last answer.
    pub(super) answer: Option<String>,
    pub(super) failed: bool,
}

/// A leg's row.
#[derive(Debug, Default)]
pub(super) struct PendingLeg {
    pub(super) n: u32,
    pub(super) at_ms: u64,
    pub(super) bytes: usize,
    pub(super) sent: BodyNodes,
    pub(super) changes: String,
    pub(super) status: Option<u16>,
    pub(super) headers: StoredHeaders,
    pub(super) response: i64,
    pub(super) response_bytes: usize,
    pub(super) response_cut: bool,
    pub(super) stop: Option<&'static str>,
    pub(super) usage: Option<String>,
    /// Its URL, without the query.
    pub(super) url: String,
    pub(super) sent_headers: StoredHeaders,
    /// Milliseconds from its start to upstream's response head, and to the end of its body.
    pub(super) answered_ms: Option<u64>,
    pub(super) ended_ms: Option<u64>,
    /// Whether it has changes that are not written yet.
    pub(super) changed: bool,
}

/// The statements that write rows.
pub(super) struct RowWriter<'conn> {
    exchange: CachedStatement<'conn>,
    leg: CachedStatement<'conn>,
}

impl<'conn> RowWriter<'conn> {
    pub(super) fn new(conn: &'conn Connection) -> rusqlite::Result<Self> {
        let exchange = conn.prepare_cached(
            "INSERT INTO exchanges (seq, id, at_ms, conversation, principal, wire, model, upstream, route, call,
             received_bytes, head, list, tail, messages, headers, sent_bytes, fired, saved_tokens, partial, shown,
             shown_cut, shown_headers, ended, event, headers_own, shown_headers_own, answer, failed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
             ON CONFLICT (seq) DO UPDATE SET received_bytes = ?11, sent_bytes = ?17, fired = ?18, saved_tokens = ?19,
             partial = ?20, shown = ?21, shown_cut = ?22, shown_headers = ?23, ended = ?24, event = ?25,
             shown_headers_own = ?27, answer = ?28, failed = ?29",
        )?;
        let leg = conn.prepare_cached(
            "INSERT OR REPLACE INTO legs (exchange, n, at_ms, bytes, messages, head, list, tail, changes, status,
             headers, response, response_bytes, response_cut, stop, usage, headers_own, url, sent_headers,
             sent_headers_own, answered_ms, ended_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             ?22)",
        )?;
        Ok(Self { exchange, leg })
    }

    /// Inserts the row of an exchange, or updates it.
    pub(super) fn exchange(&mut self, row: &PendingRow) -> rusqlite::Result<()> {
        self.exchange.execute(params![
            row.seq,
            row.id,
            row.at_ms,
            row.conversation,
            row.principal,
            row.wire,
            row.model,
            row.upstream,
            row.route,
            row.operation,
            row.received_bytes,
            row.received.head,
            row.received.list,
            row.received.tail,
            row.received.messages,
            row.headers.model,
            row.sent_bytes,
            row.fired,
            row.saved_tokens,
            row.partial,
            row.shown,
            row.shown_cut,
            row.shown_headers.model,
            row.ended,
            row.event,
            row.headers.own,
            row.shown_headers.own,
            row.answer,
            row.failed,
        ])?;
        Ok(())
    }

    /// Inserts the row of a leg of the exchange `seq`, or replaces it.
    pub(super) fn leg(&mut self, seq: i64, leg: &PendingLeg) -> rusqlite::Result<()> {
        self.leg.execute(params![
            seq,
            leg.n,
            leg.at_ms,
            leg.bytes,
            leg.sent.messages,
            leg.sent.head,
            leg.sent.list,
            leg.sent.tail,
            leg.changes,
            leg.status,
            leg.headers.model,
            leg.response,
            leg.response_bytes,
            leg.response_cut,
            leg.stop,
            leg.usage,
            leg.headers.own,
            leg.url,
            leg.sent_headers.model,
            leg.sent_headers.own,
            leg.answered_ms,
            leg.ended_ms,
        ])?;
        Ok(())
    }
}

impl PendingRow {
    /// Takes over the event of the exchange's end, which has the number `ended`.
    pub(super) fn end(&mut self, event: &ExchangeEvent, ended: Option<i64>, partial: bool) {
        self.ended = ended;
        self.received_bytes = event.received_bytes;
        self.sent_bytes = event.sent_bytes.iter().sum();
        self.fired = event.fired.len();
        self.partial |= partial;
        self.event = Some(json(&event.facts));
        self.failed = has_failed(event);
    }

    /// Ends the row that is in the file, of an exchange that is no longer in memory; `false` where there is none.
    pub(super) fn write_end(&self, conn: &Connection) -> rusqlite::Result<bool> {
        let found = conn
            .prepare_cached(
                "UPDATE exchanges SET ended = ?2, received_bytes = ?3, sent_bytes = ?4, fired = ?5, partial = 1,
                 event = ?6, failed = ?7 WHERE id = ?1",
            )?
            .execute(params![
                self.id,
                self.ended,
                self.received_bytes,
                self.sent_bytes,
                self.fired,
                self.event,
                self.failed
            ])?;
        Ok(found > 0)
    }
}

/// A value as JSON; empty where it cannot be written as such.
pub(super) fn json(value: &impl Serialize) -> String {
    /// Bytes of an exchange's event, which is the longest: with room from the start nothing is moved while it is written.
    const ROOM: usize = 640;
    let mut out = Vec::with_capacity(ROOM);
    match serde_json::to_writer(&mut out, value) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The kind of request, as stored.
pub(super) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Generate => "generate",
        Operation::Count => "count",
        Operation::Compact => "compact",
    }
}

/// When the exchange began: its id is a UUIDv7 and says so.
pub(super) fn began_ms(event: &ExchangeEvent) -> u64 {
    let from_id = event
        .id
        .parse::<uuid::Uuid>()
        .ok()
        .and_then(|id| id.get_timestamp());
    match from_id.map(|time| time.to_unix()) {
        Some((secs, nanos)) => secs * 1000 + u64::from(nanos) / 1_000_000,
        None => now_ms(),
    }
}
