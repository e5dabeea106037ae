//! Writes each note into the rows of its exchange.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::answer_summary::AnswerSummary;
use super::archive::{Archive, OpenExchange};
use super::body_pieces::BodyPieces;
use super::chunk_store::{FirstSeen, TextKind};
use super::headers::{PackedHeaders, StoredHeaders};
use super::note::{CapturedBody, JournalNote, LegNote, ReceivedRequest, RecordedBody, SentLeg};
use super::row::{has_failed, unsent_tokens};
use super::summary;
use crate::clock::now_ms;
use crate::telemetry::ExchangeEvent;
use baton_core::nudge::Windows;
use baton_core::record::WireId;
use baton_core::text::splice;
use baton_core::wire::{self, Operation, StopReason, Usage};

/// Maximum number of conversations whose title may be replaced. The better title comes within seconds.
const MAX_SIDE_TITLES: usize = 1024;

impl Archive {
    /// Applies one note. The caller has begun a transaction.
    pub(super) fn write(&mut self, note: JournalNote) -> rusqlite::Result<()> {
        let is_end = matches!(note, JournalNote::End { .. });
        self.touched.extend(note.exchange().map(|id| (id, is_end)));
        match note {
            JournalNote::Begin(begun) => self.begin(*begun),
            // Without its beginning an exchange has no row that a leg could refer to.
            JournalNote::Leg { id, leg, at_ms, what } => {
                let Some(mut open) = self.take_open(&id)? else {
                    return Ok(());
                };
                self.leg(&mut open, leg, at_ms, what)?;
                self.current = Some((id, open));
                Ok(())
            }
            JournalNote::Shown { id, headers, body } => self.shown(&id, &headers, body),
            JournalNote::End { event, partial } => self.end(&event, partial),
            JournalNote::Flush(_) => Ok(()),
            JournalNote::Redact(redactor) => {
                self.chunk_store.redactor = *redactor;
                Ok(())
            }
        }
    }

    fn begin(&mut self, begun: ReceivedRequest) -> rusqlite::Result<()> {
        self.last.0 += 1;
        let seen = FirstSeen {
            exchange: self.last.0,
            side: "received",
        };
        if let Some(conversation) = &begun.conversation {
            self.title(&begun, conversation)?;
        }
        let pieces = BodyPieces::from_body(&begun.received.body);
        let (received, stored) = self.chunk_store.body(&self.conn, &pieces, &[], seen)?;
        let headers = self.headers(&begun.headers, seen)?;
        let model = self.clean(begun.model.as_deref());
        self.conn
            .prepare_cached(
                "INSERT INTO exchanges (seq, id, at_ms, conversation, principal, wire, model, upstream, route, call,
                received_bytes, head, list, tail, messages, headers, headers_own)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            )?
            .execute(params![
                seen.exchange,
                begun.id,
                begun.at_ms,
                begun.conversation,
                begun.principal,
                begun.wire.name(),
                model,
                begun.upstream,
                self.chunk_store.redactor.path(&begun.route),
                begun.operation.name(),
                begun.received.body.text.len(),
                received.head,
                received.list,
                received.tail,
                received.messages,
                headers.model,
                headers.own,
            ])?;
        let _ = begun.received.stored.set(stored);
        self.current = Some((
            begun.id.as_str().into(),
            OpenExchange {
                seq: seen.exchange,
                wire: begun.wire,
                operation: begun.operation,
                model,
                has_summary: false,
            },
        ));
        Ok(())
    }

    /// Writes the title of a conversation that has none, taken from this request.
    ///
    /// The first request with tools replaces a title from a side call: Claude Code first sends a request that
    /// asks for a title.
    fn title(&mut self, begun: &ReceivedRequest, conversation: &str) -> rusqlite::Result<()> {
        let mut ask = self
            .conn
            .prepare_cached("SELECT 1 FROM titles WHERE conversation = ?1")?;
        if ask.exists([conversation])? && !self.side_titles.contains(conversation) {
            return Ok(());
        }
        let Ok(view) = wire::wire(begun.wire).read(&begun.received.body.text, begun.operation) else {
            return Ok(());
        };
        let title = summary::title(&view, &self.tags);
        // A later request may have one.
        if title.is_empty() {
            return Ok(());
        }
        if view.tools.is_some_and(|tools| tools.client) {
            self.side_titles.remove(conversation);
        } else {
            if self.side_titles.len() >= MAX_SIDE_TITLES {
                self.side_titles.clear();
            }
            // The title of the first side call stays until a request with tools comes.
            if !self.side_titles.insert(conversation.to_owned()) {
                return Ok(());
            }
        }
        // Redacted before it is shortened: half a credential would not be recognized.
        let title = self.chunk_store.redactor.text(&title).into_owned();
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO titles (conversation, title) VALUES (?1, ?2)")?
            .execute(params![conversation, summary::cut(&title)])?;
        Ok(())
    }

    /// Returns the exchange if it has begun and not ended. The caller may put it back.
    fn take_open(&mut self, id: &str) -> rusqlite::Result<Option<OpenExchange>> {
        if let Some((_, open)) = self.current.take_if(|(current, _)| **current == *id) {
            return Ok(Some(open));
        }
        let mut ask = self.conn.prepare_cached(
            "SELECT seq, wire, call, model, answer IS NOT NULL FROM exchanges WHERE id = ?1 AND ended IS NULL",
        )?;
        let found = ask.query_row([id], |row| {
            let (wire, operation): (String, String) = (row.get(1)?, row.get(2)?);
            Ok(OpenExchange {
                seq: row.get(0)?,
                wire: WireId::named(&wire).unwrap_or(WireId::Anthropic),
                operation: Operation::named(&operation).unwrap_or(Operation::Generate),
                model: row.get(3)?,
                has_summary: row.get(4)?,
            })
        });
        found.optional()
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.chunk_store.redactor.text(text).into_owned())
    }

    fn headers(&mut self, headers: &PackedHeaders, seen: FirstSeen) -> rusqlite::Result<StoredHeaders> {
        self.models.keep(&mut self.chunk_store, &self.conn, headers, seen)
    }

    fn leg(&mut self, open: &mut OpenExchange, leg: u32, at_ms: u64, what: LegNote) -> rusqlite::Result<()> {
        match what {
            LegNote::Sent(sent) => self.sent(open, leg, at_ms, *sent),
            LegNote::Answered(answer) => self.answered(open, leg, at_ms, answer),
            LegNote::Received(body) => self.received(open, leg, at_ms, body),
            LegNote::Counted(usage, stop) => self.counted(open, leg, usage, stop),
        }
    }

    fn sent(&mut self, open: &OpenExchange, leg: u32, at_ms: u64, leg_sent: SentLeg) -> rusqlite::Result<()> {
        let seen = open.seen("sent");
        let headers = self.headers(&leg_sent.headers, seen)?;
        let bytes = splice::len(&leg_sent.rope);
        let wire = wire::wire(open.wire);
        // Only bytes that baton wrote are parsed. Slices of the request were located when it arrived.
        let read = |text: &Bytes| wire.located(text, open.operation);
        let RecordedBody { body, stored } = &*leg_sent.request;
        let pieces = BodyPieces::sent(leg_sent.rope, body, read);
        let known = stored.get().map_or(&[][..], Vec::as_slice);
        let (sent, _) = self.chunk_store.body(&self.conn, &pieces, known, seen)?;
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO legs (exchange, n, at_ms, bytes, messages, head, list, tail, changes, url,
                sent_headers, sent_headers_own) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                open.seq,
                leg,
                at_ms,
                bytes,
                sent.messages,
                sent.head,
                sent.list,
                sent.tail,
                json(&leg_sent.changes),
                self.chunk_store.redactor.address(&leg_sent.url),
                headers.model,
                headers.own,
            ])?;
        Ok(())
    }

    fn answered(
        &mut self,
        open: &OpenExchange,
        leg: u32,
        at_ms: u64,
        answer: Option<(u16, PackedHeaders)>,
    ) -> rusqlite::Result<()> {
        // Without a response the leg ends here. Durations are clamped, because the clock may have been set
        // back.
        let Some((status, headers)) = answer else {
            self.conn
                .prepare_cached(
                    "UPDATE legs SET ended_ms = MAX(?3 - at_ms, 0) WHERE exchange = ?1 AND n = ?2",
                )?
                .execute(params![open.seq, leg, at_ms])?;
            return Ok(());
        };
        let headers = self.headers(&headers, open.seen("response"))?;
        self.conn
            .prepare_cached(
                "UPDATE legs SET answered_ms = MAX(?3 - at_ms, 0), status = ?4, headers = ?5, headers_own = ?6
                WHERE exchange = ?1 AND n = ?2",
            )?
            .execute(params![open.seq, leg, at_ms, status, headers.model, headers.own])?;
        Ok(())
    }

    fn received(
        &mut self,
        open: &mut OpenExchange,
        leg: u32,
        at_ms: u64,
        body: CapturedBody,
    ) -> rusqlite::Result<()> {
        // A body that was not seen to its end is incomplete, even if it fits the bound.
        let cut = body.truncated || !body.ended;
        let text = splice::flat(body.chunks);
        let seen = open.seen("response");
        let chunk = self
            .chunk_store
            .blob(&self.conn, &text, TextKind::from_bytes(&text), seen)?;
        // The status tells whether to summarize the body as an error.
        let status: Option<Option<u16>> = self
            .conn
            .prepare_cached(
                "UPDATE legs SET ended_ms = MAX(?3 - at_ms, 0), response = ?4, response_bytes = ?5, response_cut = ?6
                WHERE exchange = ?1 AND n = ?2 RETURNING status",
            )?
            .query_row(params![open.seq, leg, at_ms, chunk, text.len(), cut], |row| {
                row.get(0)
            })
            .optional()?;
        let summary = self.summary(&text, status.flatten());
        self.conn
            .prepare_cached("UPDATE exchanges SET answer = ?2 WHERE seq = ?1")?
            .execute(params![open.seq, summary])?;
        open.has_summary = summary.is_some();
        Ok(())
    }

    /// Summarizes a response with this status as JSON.
    fn summary(&self, body: &[u8], status: Option<u16>) -> Option<String> {
        let failed = status.is_some_and(|status| status >= 400);
        let redactor = &self.chunk_store.redactor;
        AnswerSummary::from_body(body, failed, |text| redactor.text(text).into_owned())
            .map(|summary| json(&summary))
    }

    /// Returns the status of the exchange's last leg.
    fn last_status(&self, seq: i64) -> rusqlite::Result<Option<u16>> {
        let mut ask = self
            .conn
            .prepare_cached("SELECT status FROM legs WHERE exchange = ?1 ORDER BY n DESC LIMIT 1")?;
        let status = ask.query_row([seq], |row| row.get(0)).optional()?;
        Ok(status.flatten())
    }

    fn counted(&self, open: &OpenExchange, leg: u32, usage: Usage, stop: StopReason) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("UPDATE legs SET usage = ?3, stop = ?4 WHERE exchange = ?1 AND n = ?2")?
            .execute(params![open.seq, leg, json(&usage), stop.name()])?;
        Ok(())
    }

    fn shown(&mut self, id: &str, headers: &PackedHeaders, body: CapturedBody) -> rusqlite::Result<()> {
        let Some(open) = self.take_open(id)? else {
            return Ok(());
        };
        let seen = open.seen("shown");
        let coded = headers
            .get("content-encoding")
            .is_some_and(|coding| coding != b"identity");
        // A compressed body cannot be redacted, so it is not stored. Only relayed errors are compressed.
        let text = if coded {
            Bytes::new()
        } else {
            splice::flat(body.chunks)
        };
        let cut = body.truncated || coded || !body.ended;
        let chunk = self
            .chunk_store
            .blob(&self.conn, &text, TextKind::from_bytes(&text), seen)?;
        let headers = self.headers(headers, seen)?;
        // The summary of a leg's response wins. This one is for responses without a leg's body, such as
        // relayed errors.
        let summary = match open.has_summary {
            true => None,
            false => self.summary(&text, self.last_status(open.seq)?),
        };
        self.conn
            .prepare_cached(
                "UPDATE exchanges SET shown = ?2, shown_cut = ?3, shown_headers = ?4, shown_headers_own = ?5,
                answer = COALESCE(?6, answer) WHERE seq = ?1",
            )?
            .execute(params![open.seq, chunk, cut, headers.model, headers.own, summary])?;
        self.current = Some((id.into(), open));
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        self.last.1 += 1;
        let partial = partial || self.partial.remove(event.id.as_str()).is_some();
        let (seq, saved) = match self.take_open(&event.id)? {
            Some(open) => (open.seq, self.saved(&open, event)?),
            None => (self.unbegun(event)?, None),
        };
        self.conn
            .prepare_cached(
                "UPDATE exchanges SET ended = ?2, received_bytes = ?3, sent_bytes = ?4, fired = ?5,
                partial = partial OR ?6, event = ?7, failed = ?8, saved_tokens = COALESCE(?9, saved_tokens)
                WHERE seq = ?1",
            )?
            .execute(params![
                seq,
                self.last.1,
                event.received_bytes,
                event.sent_bytes.iter().sum::<u64>(),
                event.fired.len(),
                partial,
                json(&event.facts),
                has_failed(event),
                saved,
            ])?;
        Ok(())
    }

    /// Returns the input that was not sent, in tokens.
    fn saved(&self, open: &OpenExchange, event: &ExchangeEvent) -> rusqlite::Result<Option<i64>> {
        // Other operations, such as counting tokens, are not billed as input.
        if open.operation != Operation::Generate {
            return Ok(None);
        }
        let mut ask = self
            .conn
            .prepare_cached("SELECT bytes FROM legs WHERE exchange = ?1")?;
        let sent = ask.query_map([open.seq], |row| row.get(0))?;
        let sent: Vec<u64> = sent.collect::<Result<_, _>>()?;
        let model = open.model.as_deref();
        // Without baton the agent could not have sent more than the model's window.
        let window = model.and_then(|model| Windows::default().widest(model));
        Ok(Some(unsent_tokens(
            event.received_bytes,
            window,
            sent.into_iter(),
        )))
    }

    /// Inserts a row for an exchange whose beginning was lost.
    fn unbegun(&mut self, event: &ExchangeEvent) -> rusqlite::Result<i64> {
        self.last.0 += 1;
        self.conn
            .prepare_cached(
                "INSERT INTO exchanges (seq, id, at_ms, conversation, wire, model, upstream, route)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.last.0,
                event.id,
                began_ms(event),
                event.conversation,
                event.wire.map(WireId::name),
                self.clean(event.model.as_deref()),
                event.upstream,
                self.chunk_store.redactor.path(&event.route),
            ])?;
        Ok(self.last.0)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns when the exchange began, according to its version 7 UUID.
fn began_ms(event: &ExchangeEvent) -> u64 {
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
