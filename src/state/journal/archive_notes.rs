//! Writes each note into the rows of its exchange.

use std::sync::Arc;

use bytes::Bytes;

use super::answer_summary::AnswerSummary;
use super::archive::{Archive, MOST_OPEN, PendingExchange};
use super::chunk_bodies::BodyNodes;
use super::chunk_store::{FirstSeen, TextKind};
use super::headers::StoredHeaders;
use super::note::{BodyLayout, CapturedBody, JournalNote, ReceivedRequest, SentLeg};
use super::packed::PackedHeaders;
use super::pending_row::{PendingLeg, PendingRow, RowWriter, began_ms, json, operation_name};
use super::row::unsent_tokens;
use crate::state::telemetry::ExchangeEvent;
use baton_core::nudge::Windows;
use baton_core::record::WireId;
use baton_core::text::splice;
use baton_core::wire::{self, Operation, StopReason, Usage, Wire};

impl Archive {
    /// Applies one note. Call it inside a transaction.
    pub(super) fn write(&mut self, note: JournalNote) -> rusqlite::Result<()> {
        match note {
            JournalNote::Begin(begun) => self.begin(*begun),
            JournalNote::Sent { id, leg, at_ms, sent } => self.sent(&id, leg, at_ms, *sent),
            JournalNote::Answered {
                id,
                leg,
                at_ms,
                answer,
            } => self.answered(&id, leg, at_ms, answer),
            JournalNote::Received { id, leg, at_ms, body } => self.received(&id, leg, at_ms, body),
            JournalNote::Counted { id, leg, usage, stop } => {
                self.counted(&id, leg, usage, stop);
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
        let wire = wire::wire(begun.wire);
        self.last.0 += 1;
        let seen = FirstSeen {
            exchange: self.last.0,
            side: "received",
        };
        if let Some(conversation) = &begun.conversation {
            self.titles
                .add(&self.conn, &self.chunk_store.redactor, &begun, conversation)?;
        }
        let received = match &begun.transcript {
            layout @ Some(_) => self
                .chunk_store
                .body(&self.conn, &begun.received, layout.as_ref(), seen)?,
            None => self.unread(wire, begun.operation, &begun.received, seen)?,
        };
        let row = PendingRow {
            seq: seen.exchange,
            at_ms: begun.at_ms,
            conversation: begun.conversation,
            principal: Some(begun.principal),
            wire: Some(begun.wire.name()),
            model: self.clean(begun.model.as_deref()),
            upstream: begun.upstream,
            route: Some(self.chunk_store.redactor.path(&begun.route).into_owned()),
            operation: Some(operation_name(begun.operation)),
            received,
            headers: self.headers(&begun.headers, seen)?,
            received_bytes: begun.received.len() as u64,
            id: begun.id,
            ..PendingRow::default()
        };
        if self.open.len() >= MOST_OPEN {
            self.write_changed()?;
            self.lose_open();
        }
        let id: Arc<str> = row.id.as_str().into();
        let open = PendingExchange {
            id: Arc::clone(&id),
            row,
            legs: Vec::new(),
            wire,
            operation: begun.operation,
            changed: true,
        };
        self.changed.push(Arc::clone(&id));
        self.open.insert(id, open);
        Ok(())
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.chunk_store.redactor.text(text).into_owned())
    }

    /// Writes a body whose messages are not located yet.
    fn unread(
        &mut self,
        wire: &dyn Wire,
        operation: Operation,
        text: &Bytes,
        seen: FirstSeen,
    ) -> rusqlite::Result<BodyNodes> {
        let layout = wire.read(text, operation).ok().map(|view| BodyLayout {
            list: view.list,
            turns: view.turns,
        });
        self.chunk_store.body(&self.conn, text, layout.as_ref(), seen)
    }

    fn headers(&mut self, headers: &PackedHeaders, seen: FirstSeen) -> rusqlite::Result<StoredHeaders> {
        self.models.keep(&mut self.chunk_store, &self.conn, headers, seen)
    }

    fn sent(&mut self, id: &str, leg: u32, at_ms: u64, leg_sent: SentLeg) -> rusqlite::Result<()> {
        let SentLeg {
            url,
            headers,
            rope,
            changes,
        } = leg_sent;
        let Some(open) = self.change(id) else {
            return Ok(());
        };
        let seen = FirstSeen {
            exchange: open.row.seq,
            side: "sent",
        };
        let (wire, operation) = (open.wire, open.operation);
        let sent_headers = self.headers(&headers, seen)?;
        let bytes = splice::len(&rope);
        let sent = self.unread(wire, operation, &splice::flat(rope), seen)?;
        let changes = json(&changes);
        let url = self.chunk_store.redactor.address(&url);
        let Some(open) = self.open.get_mut(id) else {
            return Ok(());
        };
        open.legs.retain(|other| other.n != leg);
        open.legs.push(PendingLeg {
            n: leg,
            at_ms,
            bytes,
            sent,
            changes,
            url,
            sent_headers,
            changed: true,
            ..PendingLeg::default()
        });
        Ok(())
    }

    /// The origin of new chunks of this exchange, if it is open.
    fn seen(&self, id: &str, side: &'static str) -> Option<FirstSeen> {
        let exchange = self.open.get(id)?.row.seq;
        Some(FirstSeen { exchange, side })
    }

    fn change_leg(&mut self, id: &str, n: u32, change: impl FnOnce(&mut PendingLeg)) {
        let open = self.change(id);
        if let Some(leg) = open.and_then(|open| open.legs.iter_mut().find(|leg| leg.n == n)) {
            change(leg);
            leg.changed = true;
        }
    }

    fn answered(
        &mut self,
        id: &str,
        leg: u32,
        at_ms: u64,
        answer: Option<(u16, PackedHeaders)>,
    ) -> rusqlite::Result<()> {
        let Some(seen) = self.seen(id, "response") else {
            return Ok(());
        };
        let Some((status, headers)) = answer else {
            self.change_leg(id, leg, |leg| {
                leg.ended_ms = Some(at_ms.saturating_sub(leg.at_ms))
            });
            return Ok(());
        };
        let headers = self.headers(&headers, seen)?;
        self.change_leg(id, leg, |leg| {
            (leg.status, leg.headers) = (Some(status), headers);
            leg.answered_ms = Some(at_ms.saturating_sub(leg.at_ms));
        });
        Ok(())
    }

    fn received(&mut self, id: &str, leg: u32, at_ms: u64, body: CapturedBody) -> rusqlite::Result<()> {
        let Some(seen) = self.seen(id, "response") else {
            return Ok(());
        };
        let cut = body.truncated || !body.ended;
        let text = splice::flat(body.chunks);
        let chunk = self
            .chunk_store
            .blob(&self.conn, &text, TextKind::of(&text), seen)?;
        self.summarise(id, &text);
        self.change_leg(id, leg, |leg| {
            (leg.response, leg.response_bytes, leg.response_cut) = (chunk, text.len(), cut);
            leg.ended_ms = Some(at_ms.saturating_sub(leg.at_ms));
        });
        Ok(())
    }

    /// Puts the summary of an answer into the exchange's row, in place of the one before.
    fn summarise(&mut self, id: &str, body: &[u8]) {
        let redactor = &self.chunk_store.redactor;
        let Some(open) = self.open.get_mut(id) else { return };
        let status = open.legs.last().and_then(|leg| leg.status);
        let failed = status.is_some_and(|status| status >= 400);
        let summary = AnswerSummary::of(body, failed, |text| redactor.text(text).into_owned());
        open.row.answer = summary.map(|summary| json(&summary));
    }

    fn counted(&mut self, id: &str, leg: u32, usage: Usage, stop: StopReason) {
        let usage = json(&usage);
        self.change_leg(id, leg, |leg| {
            (leg.usage, leg.stop) = (Some(usage), Some(stop.name()));
        });
    }

    fn shown(&mut self, id: &str, headers: &PackedHeaders, body: CapturedBody) -> rusqlite::Result<()> {
        let Some(seen) = self.seen(id, "shown") else {
            return Ok(());
        };
        let coded = headers
            .get("content-encoding")
            .is_some_and(|coding| coding != b"identity");
        // A compressed body cannot be redacted, so it is not stored. Only relayed errors come compressed.
        let text = if coded {
            Bytes::new()
        } else {
            splice::flat(body.chunks)
        };
        let cut = body.truncated || coded || !body.ended;
        let chunk = self
            .chunk_store
            .blob(&self.conn, &text, TextKind::of(&text), seen)?;
        let headers = self.headers(headers, seen)?;
        if self.open.get(id).is_some_and(|open| open.row.answer.is_none()) {
            self.summarise(id, &text);
        }
        if let Some(PendingExchange { row, .. }) = self.change(id) {
            (row.shown, row.shown_cut, row.shown_headers) = (chunk, cut, headers);
        }
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        self.last.1 += 1;
        let partial = partial || self.odd.remove(event.id.as_str());
        let ended = Some(self.last.1);
        if let Some(PendingExchange {
            row, legs, operation, ..
        }) = self.change(&event.id)
        {
            row.end(event, ended, partial);
            if *operation == Operation::Generate {
                let window = row
                    .model
                    .as_deref()
                    .and_then(|model| Windows::default().widest(model));
                let sent = legs.iter().map(|leg| leg.bytes as u64);
                row.saved_tokens = unsent_tokens(event.received_bytes, window, sent);
            }
            return Ok(());
        }
        let mut row = PendingRow {
            id: event.id.clone(),
            at_ms: began_ms(event),
            conversation: event.conversation.clone(),
            wire: event.wire.map(WireId::name),
            model: self.clean(event.model.as_deref()),
            upstream: event.upstream.clone(),
            route: Some(self.chunk_store.redactor.path(&event.route).into_owned()),
            ..PendingRow::default()
        };
        row.end(event, ended, partial);
        if self.forgot && row.write_end(&self.conn)? {
            return Ok(());
        }
        self.last.0 += 1;
        row.seq = self.last.0;
        RowWriter::new(&self.conn)?.exchange(&row)
    }
}
