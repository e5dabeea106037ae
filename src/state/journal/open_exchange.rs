//! An exchange that has not ended, with the columns that its notes set.
//!
//! The columns are collected and written once, at the end of the exchange or of the transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::chunk_bodies::BodyNodes;
use super::chunk_store::FirstSeen;
use super::headers::StoredHeaders;
use baton_core::record::WireId;
use baton_core::wire::{Operation, StopReason};

pub(super) struct OpenExchange {
    pub(super) seq: i64,
    pub(super) wire: WireId,
    pub(super) operation: Operation,
    pub(super) model: Option<String>,
    pub(super) has_summary: bool,
    /// Sum of the request bytes of all legs. `None` if there are no legs.
    pub(super) sent_bytes: Option<u64>,
    pub(super) columns: ExchangeColumns,
    legs: Vec<LegColumns>,
}

/// Columns of an exchange's row that are not written yet. `None` keeps the stored value.
#[derive(Default)]
pub(super) struct ExchangeColumns {
    /// Summary of the response. An inner `None` removes the stored one.
    pub(super) answer: Option<Option<String>>,
    pub(super) shown: Option<ShownColumns>,
    pub(super) end: Option<EndColumns>,
}

/// Columns of the response to the agent.
pub(super) struct ShownColumns {
    pub(super) chunk: i64,
    pub(super) is_cut: bool,
    pub(super) headers: StoredHeaders,
}

/// Columns that the end of an exchange sets.
pub(super) struct EndColumns {
    pub(super) ended: i64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) fired: usize,
    pub(super) partial: bool,
    pub(super) event: String,
    pub(super) failed: bool,
    pub(super) saved_tokens: Option<i64>,
}

/// Columns of a leg's row that are not written yet. `None` keeps the stored value.
#[derive(Default)]
pub(super) struct LegColumns {
    n: u32,
    /// `None` if the row exists.
    pub(super) request: Option<RequestColumns>,
    /// Time and content of the response head.
    pub(super) head: Option<(u64, u16, StoredHeaders)>,
    pub(super) ended_at_ms: Option<u64>,
    pub(super) response: Option<ResponseColumns>,
    pub(super) counted: Option<(String, StopReason)>,
}

pub(super) struct RequestColumns {
    pub(super) at_ms: u64,
    pub(super) bytes: usize,
    pub(super) nodes: BodyNodes,
    pub(super) changes: String,
    pub(super) url: String,
    pub(super) headers: StoredHeaders,
}

#[derive(Clone, Copy)]
pub(super) struct ResponseColumns {
    pub(super) chunk: i64,
    pub(super) bytes: usize,
    pub(super) is_cut: bool,
}

impl OpenExchange {
    pub(super) fn new(seq: i64, wire: WireId, operation: Operation, model: Option<String>) -> Self {
        Self {
            seq,
            wire,
            operation,
            model,
            has_summary: false,
            sent_bytes: None,
            columns: ExchangeColumns::default(),
            legs: Vec::new(),
        }
    }

    /// Reads the exchange from its row. `None` if it has none, or has ended.
    pub(super) fn read(conn: &Connection, id: &str) -> rusqlite::Result<Option<Self>> {
        let mut ask = conn.prepare_cached(
            "SELECT seq, wire, call, model, answer IS NOT NULL, (SELECT SUM(bytes) FROM legs WHERE exchange = seq)
            FROM exchanges WHERE id = ?1 AND ended IS NULL",
        )?;
        let found = ask.query_row([id], |row| {
            let (wire, operation): (String, String) = (row.get(1)?, row.get(2)?);
            let wire = WireId::named(&wire).unwrap_or(WireId::Anthropic);
            let operation = Operation::named(&operation).unwrap_or(Operation::Generate);
            Ok(Self {
                has_summary: row.get(4)?,
                sent_bytes: row.get(5)?,
                ..Self::new(row.get(0)?, wire, operation, row.get(3)?)
            })
        });
        found.optional()
    }

    /// Returns the origin for new chunks of this exchange.
    pub(super) fn seen(&self, side: &'static str) -> FirstSeen {
        let exchange = self.seq;
        FirstSeen { exchange, side }
    }

    /// The columns of a leg.
    pub(super) fn leg(&mut self, n: u32) -> &mut LegColumns {
        let known = self.legs.iter().position(|leg| leg.n == n);
        let at = known.unwrap_or_else(|| {
            let leg = LegColumns {
                n,
                ..LegColumns::default()
            };
            self.legs.push(leg);
            self.legs.len() - 1
        });
        &mut self.legs[at]
    }

    /// Returns the status of a leg's response, or of the last leg that has one.
    pub(super) fn status(&self, conn: &Connection, n: Option<u32>) -> rusqlite::Result<Option<u16>> {
        let mut legs = self.legs.iter().rev();
        let leg = legs.find(|leg| n.is_none_or(|n| leg.n == n));
        if let Some(leg) = leg.filter(|leg| leg.head.is_some() || leg.request.is_some()) {
            return Ok(leg.head.as_ref().map(|(_, status, _)| *status));
        }
        let mut ask = conn.prepare_cached(
            "SELECT status FROM legs WHERE exchange = ?1 AND n = COALESCE(?2, n) ORDER BY n DESC LIMIT 1",
        )?;
        let status = ask.query_row(params![self.seq, n], |row| row.get(0)).optional()?;
        Ok(status.flatten())
    }

    /// Writes the collected columns.
    pub(super) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        for leg in self.legs.drain(..) {
            leg.write(conn, self.seq)?;
        }
        let ExchangeColumns { answer, shown, end } = std::mem::take(&mut self.columns);
        if answer.is_none() && shown.is_none() && end.is_none() {
            return Ok(());
        }
        let (shown, end) = (shown.as_ref(), end.as_ref());
        conn.prepare_cached(
            "UPDATE exchanges SET answer = IIF(?2, ?3, answer), shown = COALESCE(?4, shown),
            shown_cut = COALESCE(?5, shown_cut), shown_headers = COALESCE(?6, shown_headers),
            shown_headers_own = IIF(?6 IS NULL, shown_headers_own, ?7), ended = COALESCE(?8, ended),
            received_bytes = COALESCE(?9, received_bytes), sent_bytes = COALESCE(?10, sent_bytes),
            fired = COALESCE(?11, fired), partial = MAX(partial, COALESCE(?12, 0)), event = COALESCE(?13, event),
            failed = COALESCE(?14, failed), saved_tokens = COALESCE(?15, saved_tokens) WHERE seq = ?1",
        )?
        .execute(params![
            self.seq,
            answer.is_some(),
            answer.flatten(),
            shown.map(|s| s.chunk),
            shown.map(|s| s.is_cut),
            shown.map(|s| s.headers.model),
            shown.and_then(|s| s.headers.own.as_deref()),
            end.map(|e| e.ended),
            end.map(|e| e.received_bytes),
            end.map(|e| e.sent_bytes),
            end.map(|e| e.fired),
            end.map(|e| e.partial),
            end.map(|e| e.event.as_str()),
            end.map(|e| e.failed),
            end.and_then(|e| e.saved_tokens),
        ])?;
        Ok(())
    }
}

impl LegColumns {
    /// Writes a leg. Durations are clamped, because the clock may have been set back.
    fn write(&self, conn: &Connection, exchange: i64) -> rusqlite::Result<()> {
        let head = self.head.as_ref();
        let late = params![
            exchange,
            self.n,
            head.map(|(at_ms, ..)| at_ms),
            head.map(|(_, status, _)| status),
            head.map(|(.., headers)| headers.model),
            head.and_then(|(.., headers)| headers.own.as_deref()),
            self.ended_at_ms,
            self.response.map(|r| r.chunk),
            self.response.map(|r| r.bytes),
            self.response.map(|r| r.is_cut),
            self.counted.as_ref().map(|(usage, _)| usage),
            self.counted.as_ref().map(|(_, stop)| stop.name()),
        ];
        let Some(request) = &self.request else {
            conn.prepare_cached(
                "UPDATE legs SET answered_ms = COALESCE(MAX(?3 - at_ms, 0), answered_ms), status = COALESCE(?4, status),
                headers = COALESCE(?5, headers), headers_own = IIF(?5 IS NULL, headers_own, ?6),
                ended_ms = COALESCE(MAX(?7 - at_ms, 0), ended_ms), response = COALESCE(?8, response),
                response_bytes = COALESCE(?9, response_bytes), response_cut = COALESCE(?10, response_cut),
                usage = COALESCE(?11, usage), stop = COALESCE(?12, stop) WHERE exchange = ?1 AND n = ?2",
            )?
            .execute(late)?;
            return Ok(());
        };
        let RequestColumns {
            at_ms,
            bytes,
            nodes,
            changes,
            url,
            headers,
        } = request;
        let sent = params![
            at_ms,
            bytes,
            nodes.messages,
            nodes.head,
            nodes.list,
            nodes.tail,
            changes,
            url,
            headers.model,
            headers.own,
        ];
        conn.prepare_cached(
            "INSERT OR REPLACE INTO legs (exchange, n, answered_ms, status, headers, headers_own, ended_ms, response,
            response_bytes, response_cut, usage, stop, at_ms, bytes, messages, head, list, tail, changes, url,
            sent_headers, sent_headers_own)
            VALUES (?1, ?2, MAX(?3 - ?13, 0), ?4, COALESCE(?5, 0), ?6, MAX(?7 - ?13, 0), COALESCE(?8, 0),
            COALESCE(?9, 0), COALESCE(?10, 0), ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)",
        )?
        .execute([late, sent].concat().as_slice())?;
        Ok(())
    }
}
