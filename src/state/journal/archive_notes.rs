//! Writes each note into the rows of its exchange.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::params;
use serde::Serialize;

use super::answer_summary::AnswerSummary;
use super::archive::Archive;
use super::body_pieces::BodyPieces;
use super::chunk_store::{FirstSeen, TextKind};
use super::headers::{PackedHeaders, StoredHeaders};
use super::open_exchange::{EndColumns, OpenExchange, RequestColumns, ResponseColumns, ShownColumns};
use super::queue::{CapturedBody, JournalNote, LegNote, ReceivedRequest, RecordedBody, SentLeg};
use super::row::{has_failed, unsent_tokens};
use super::summary;
use crate::clock::now_ms;
use crate::telemetry::ExchangeEvent;
use baton_core::nudge::Windows;
use baton_core::record::{LOCAL, WireId};
use baton_core::text::splice;
use baton_core::wire::{self, Operation};

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
                self.open.insert(id, open);
                Ok(())
            }
            JournalNote::Shown { id, headers, body } => self.shown(id, &headers, body),
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
        let open = OpenExchange::new(seen.exchange, begun.wire, begun.operation, model);
        self.open.insert(begun.id.as_str().into(), open);
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
        match self.open.remove(id) {
            Some(open) => Ok(Some(open)),
            None => OpenExchange::read(&self.conn, id),
        }
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.chunk_store.redactor.text(text).into_owned())
    }

    fn headers(&mut self, headers: &PackedHeaders, seen: FirstSeen) -> rusqlite::Result<StoredHeaders> {
        self.models.keep(&mut self.chunk_store, &self.conn, headers, seen)
    }

    fn leg(&mut self, open: &mut OpenExchange, leg: u32, at_ms: u64, what: LegNote) -> rusqlite::Result<()> {
        match what {
            LegNote::Sent(sent) => self.sent(open, leg, at_ms, *sent)?,
            LegNote::Answered(Some((status, headers))) => {
                let headers = self.headers(&headers, open.seen("response"))?;
                open.leg(leg).head = Some((at_ms, status, headers));
            }
            // Without a response the leg ends here.
            LegNote::Answered(None) => open.leg(leg).ended_at_ms = Some(at_ms),
            LegNote::Received(body) => self.received(open, leg, at_ms, body)?,
            LegNote::Counted(usage, stop) => open.leg(leg).counted = Some((json(&usage), stop)),
        }
        Ok(())
    }

    fn sent(
        &mut self,
        open: &mut OpenExchange,
        leg: u32,
        at_ms: u64,
        leg_sent: SentLeg,
    ) -> rusqlite::Result<()> {
        let seen = open.seen("sent");
        let headers = self.headers(&leg_sent.headers, seen)?;
        let bytes = splice::len(&leg_sent.rope);
        let wire = wire::wire(open.wire);
        // Only bytes that baton wrote are parsed. Slices of the request were located when it arrived.
        let read = |text: &Bytes| wire.located(text, open.operation);
        let RecordedBody { body, stored } = &*leg_sent.request;
        let pieces = BodyPieces::sent(leg_sent.rope, body, read);
        let known = stored.get().map_or(&[][..], Vec::as_slice);
        let (nodes, _) = self.chunk_store.body(&self.conn, &pieces, known, seen)?;
        open.sent_bytes = Some(open.sent_bytes.unwrap_or_default().saturating_add(bytes as u64));
        open.leg(leg).request = Some(RequestColumns {
            at_ms,
            bytes,
            nodes,
            changes: json(&leg_sent.changes),
            url: self.chunk_store.redactor.address(&leg_sent.url),
            headers,
        });
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
        let is_cut = body.truncated || !body.ended;
        let text = splice::flat(body.chunks);
        let (kind, seen) = (TextKind::from_bytes(&text), open.seen("response"));
        let chunk = self.chunk_store.blob(&self.conn, &text, kind, seen)?;
        // The status tells whether to summarize the body as an error.
        let summary = self.summary(&text, open.status(&self.conn, Some(leg))?);
        open.has_summary = summary.is_some();
        open.columns.answer = Some(summary);
        let columns = open.leg(leg);
        columns.ended_at_ms = Some(at_ms);
        columns.response = Some(ResponseColumns {
            chunk,
            bytes: text.len(),
            is_cut,
        });
        Ok(())
    }

    /// Summarizes a response with this status as JSON.
    fn summary(&self, body: &[u8], status: Option<u16>) -> Option<String> {
        let failed = status.is_some_and(|status| status >= 400);
        let redactor = &self.chunk_store.redactor;
        AnswerSummary::from_body(body, failed, |text| redactor.text(text).into_owned())
            .map(|summary| json(&summary))
    }

    fn shown(&mut self, id: Arc<str>, headers: &PackedHeaders, body: CapturedBody) -> rusqlite::Result<()> {
        let Some(mut open) = self.take_open(&id)? else {
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
        let is_cut = body.truncated || coded || !body.ended;
        let chunk = self
            .chunk_store
            .blob(&self.conn, &text, TextKind::from_bytes(&text), seen)?;
        let headers = self.headers(headers, seen)?;
        open.columns.shown = Some(ShownColumns {
            chunk,
            is_cut,
            headers,
        });
        // The summary of a leg's response wins. This one is for responses without a leg's body, such as
        // relayed errors.
        if !open.has_summary
            && let Some(summary) = self.summary(&text, open.status(&self.conn, None)?)
        {
            open.columns.answer = Some(Some(summary));
        }
        self.open.insert(id, open);
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        self.last.1 += 1;
        let partial = partial || self.partial.remove(event.id.as_str()).is_some();
        let open = self.take_open(&event.id)?;
        let saved_tokens = open.as_ref().and_then(|open| saved(open, event));
        let mut open = open.map_or_else(|| self.unbegun(event), Ok)?;
        open.columns.end = Some(EndColumns {
            ended: self.last.1,
            received_bytes: event.received_bytes,
            sent_bytes: event.sent_bytes.iter().sum(),
            fired: event.fired.len(),
            partial,
            event: json(&event.facts),
            failed: has_failed(event),
            saved_tokens,
        });
        open.write(&self.conn)
    }

    /// Inserts a row for an exchange whose beginning was lost.
    fn unbegun(&mut self, event: &ExchangeEvent) -> rusqlite::Result<OpenExchange> {
        self.last.0 += 1;
        self.conn
            .prepare_cached(
                "INSERT INTO exchanges (seq, id, at_ms, conversation, principal, wire, model, upstream, route)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                self.last.0,
                event.id,
                began_ms(event),
                event.conversation,
                event.client.as_deref().unwrap_or(LOCAL),
                event.wire.map(WireId::name),
                self.clean(event.model.as_deref()),
                event.upstream,
                self.chunk_store.redactor.path(&event.route),
            ])?;
        let wire = event.wire.unwrap_or(WireId::Anthropic);
        Ok(OpenExchange::new(self.last.0, wire, Operation::Generate, None))
    }
}

/// Returns the input that was not sent, in tokens.
fn saved(open: &OpenExchange, event: &ExchangeEvent) -> Option<i64> {
    // Other operations, such as counting tokens, are not billed as input.
    if open.operation != Operation::Generate {
        return None;
    }
    let model = open.model.as_deref();
    // Without baton the agent could not have sent more than the model's window.
    let window = model.and_then(|model| Windows::default().widest(model));
    Some(unsent_tokens(event.received_bytes, window, open.sent_bytes))
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
