//! What is known of an exchange and its legs until it is written: each has one row, however many notes came.

use rusqlite::{Connection, params};

use super::headers::Kept;
use super::pool::Body;
use crate::wire::{Call, Stop};

/// An exchange's row.
#[derive(Debug, Default)]
pub(super) struct Slip {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) at_ms: u64,
    pub(super) conversation: Option<String>,
    pub(super) principal: Option<String>,
    pub(super) wire: Option<&'static str>,
    pub(super) model: Option<String>,
    pub(super) upstream: String,
    pub(super) route: Option<String>,
    pub(super) call: Option<&'static str>,
    pub(super) received: Body,
    pub(super) headers: Kept,
    pub(super) shown: i64,
    pub(super) shown_cut: bool,
    pub(super) shown_headers: Kept,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) fired: usize,
    pub(super) saved_tokens: u64,
    pub(super) partial: bool,
    /// The how-manieth end it was.
    pub(super) ended: Option<i64>,
    pub(super) event: Option<String>,
}

/// A leg's row.
#[derive(Debug, Default)]
pub(super) struct LegSlip {
    pub(super) n: u32,
    pub(super) at_ms: u64,
    pub(super) bytes: usize,
    pub(super) sent: Body,
    pub(super) changes: String,
    pub(super) status: Option<u16>,
    pub(super) headers: Kept,
    pub(super) response: i64,
    pub(super) response_bytes: usize,
    pub(super) response_cut: bool,
    pub(super) stop: Option<&'static str>,
    pub(super) usage: Option<String>,
    /// Where it went, without a query.
    pub(super) url: Option<String>,
    pub(super) sent_headers: Kept,
    /// Milliseconds from its start to upstream's head, and to the end of its body.
    pub(super) answered_ms: Option<u64>,
    pub(super) ended_ms: Option<u64>,
    /// Whether something is not written yet.
    pub(super) changed: bool,
}

impl Slip {
    /// Writes the row, or what came since it was written.
    pub(super) fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.prepare_cached(
            "INSERT INTO exchanges (seq, id, at_ms, conversation, principal, wire, model, upstream, route, call,
             received_bytes, head, list, tail, messages, headers, sent_bytes, fired, saved_tokens, partial, shown,
             shown_cut, shown_headers, ended, event, headers_own, shown_headers_own)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             ?22, ?23, ?24, ?25, ?26, ?27)
             ON CONFLICT (seq) DO UPDATE SET received_bytes = ?11, sent_bytes = ?17, fired = ?18, saved_tokens = ?19,
             partial = ?20, shown = ?21, shown_cut = ?22, shown_headers = ?23, ended = ?24, event = ?25,
             shown_headers_own = ?27",
        )?
        .execute(params![
            self.seq,
            self.id,
            self.at_ms,
            self.conversation,
            self.principal,
            self.wire,
            self.model,
            self.upstream,
            self.route,
            self.call,
            self.received_bytes,
            self.received.head,
            self.received.list,
            self.received.tail,
            self.received.messages,
            self.headers.model,
            self.sent_bytes,
            self.fired,
            self.saved_tokens,
            self.partial,
            self.shown,
            self.shown_cut,
            self.shown_headers.model,
            self.ended,
            self.event,
            self.headers.own,
            self.shown_headers.own,
        ])?;
        Ok(())
    }
}

impl LegSlip {
    /// Writes the row of the exchange `seq`.
    pub(super) fn write(&self, conn: &Connection, seq: i64) -> rusqlite::Result<()> {
        conn.prepare_cached(
            "INSERT OR REPLACE INTO legs (exchange, n, at_ms, bytes, messages, head, list, tail, changes, status,
             headers, response, response_bytes, response_cut, stop, usage, headers_own, url, sent_headers,
             sent_headers_own, answered_ms, ended_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             ?22)",
        )?
        .execute(params![
            seq,
            self.n,
            self.at_ms,
            self.bytes,
            self.sent.messages,
            self.sent.head,
            self.sent.list,
            self.sent.tail,
            self.changes,
            self.status,
            self.headers.model,
            self.response,
            self.response_bytes,
            self.response_cut,
            self.stop,
            self.usage,
            self.headers.own,
            self.url,
            self.sent_headers.model,
            self.sent_headers.own,
            self.answered_ms,
            self.ended_ms,
        ])?;
        Ok(())
    }
}

/// What is asked, as it stands in the row.
pub(super) fn call_name(call: Call) -> &'static str {
    match call {
        Call::Generate => "generate",
        Call::Count => "count",
        Call::Compact => "compact",
    }
}

/// How a leg stopped, as it stands in the row.
pub(super) fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::Open => "open",
        Stop::Done => "done",
        Stop::Calls => "calls",
        Stop::Truncated => "truncated",
        Stop::Refused => "refused",
        Stop::Paused => "paused",
        Stop::Error => "error",
    }
}
