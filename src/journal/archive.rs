//! Turns notes into rows of the file. The journal's thread owns it; none of it runs on the async runtime.
//!
//! All notes of one transaction are merged into pending rows first, and each row is written once, at the transaction's end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::chunk_store::{ChunkStore, MessageSpans, Origin, TextKind, WrittenBody};
use super::headers::{Models, StoredHeaders};
use super::keyed_hash::{Beginnings, HashKey};
use super::note::{Begun, CapturedBody, Note, SentLeg};
use super::packed::PackedHeaders;
use super::pending_row::{PendingLeg, PendingRow, began_ms, call_name, stop_name};
use super::queue::MOST_LOST_ENDS;
use super::row::unsent_tokens;
use super::titles::Titles;
use crate::record::WireId;
use crate::redact::Redactor;
use crate::telemetry::ExchangeEvent;
use crate::text::splice;
use crate::wire::{self, Call, Stop, Usage, Wire};

/// Open exchanges that are kept in memory. The proxy never has so many at once: more of them mean that ends were lost.
const MOST_OPEN: usize = 8192;

/// Writes notes to the file.
pub(super) struct Archive {
    pub(super) conn: Connection,
    pub(super) chunk_store: ChunkStore,
    models: Models,
    open: HashMap<Arc<str>, PendingExchange>,
    /// Exchanges with changes that are not written yet.
    changed: Vec<Arc<str>>,
    /// Whether open exchanges were dropped from memory: an end may then belong to a row that is in the file already.
    forgot: bool,
    titles: Titles,
    /// Numbers of the newest row and of the latest end.
    last: (i64, i64),
    /// Exchanges that have ended and whose row is still marked as open.
    unended: Vec<String>,
    /// Exchanges whose first note was lost: their rows are marked as partial.
    odd: HashSet<Arc<str>>,
}

/// An exchange that has not ended.
struct PendingExchange {
    row: PendingRow,
    legs: Vec<PendingLeg>,
    wire: &'static dyn Wire,
    call: Call,
    /// The agent's body, kept until the first leg goes out or the transaction ends: that leg's body consists mostly of slices
    /// of it.
    received: Option<WrittenBody>,
    changed: bool,
}

impl Archive {
    pub(super) fn new(
        conn: Connection,
        redactor: Redactor,
        tags: Vec<String>,
        key: HashKey,
    ) -> rusqlite::Result<Self> {
        // Exchanges that a killed process left open never get an end.
        conn.execute(
            "UPDATE exchanges SET ended = seq, partial = 1 WHERE ended IS NULL",
            [],
        )?;
        Ok(Self {
            conn,
            chunk_store: ChunkStore::new(redactor, key),
            models: Models::default(),
            open: HashMap::new(),
            changed: Vec::new(),
            forgot: false,
            titles: Titles::new(tags),
            last: (0, 0),
            unended: Vec::new(),
            odd: HashSet::new(),
        })
    }

    /// Begins a transaction.
    pub(super) fn begin_writing(&mut self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.last = self
            .conn
            .prepare_cached(
                "SELECT (SELECT COALESCE(MAX(seq), 0) FROM exchanges), (SELECT COALESCE(MAX(ended), 0) FROM exchanges)",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(())
    }

    /// Ends the rows whose end was lost. Call it inside a transaction.
    fn end_lost(&mut self) -> rusqlite::Result<()> {
        // The list is cleared when the transaction is committed.
        for i in 0..self.unended.len() {
            let id = self.unended[i].clone();
            self.last.1 += 1;
            let ended = self.last.1;
            if let Some(open) = self.change(&id) {
                (open.row.partial, open.row.ended) = (true, Some(ended));
                continue;
            }
            self.conn
                .prepare_cached(
                    "UPDATE exchanges SET ended = ?2, partial = 1 WHERE id = ?1 AND ended IS NULL",
                )?
                .execute(params![id, self.last.1])?;
        }
        Ok(())
    }

    /// No end will come for these exchanges.
    ///
    /// They no longer count as open, so that retention may delete their rows. Call it between transactions, when all that is
    /// known of them has been written.
    pub(super) fn lose_ends(&mut self, ids: Vec<String>) {
        for id in ids {
            self.open.remove(id.as_str());
            // Unknown ones as well: their first note may still be in the queue.
            self.unend(id);
        }
    }

    /// How many ends are still to be written.
    #[cfg(test)]
    pub(super) fn unended(&self) -> usize {
        self.unended.len()
    }

    /// Ends the row in the next transaction. The list is bounded, since the next transaction may be far off; a row beyond the
    /// bound stays marked as open until retention deletes it.
    fn unend(&mut self, id: String) {
        if self.unended.len() < MOST_LOST_ENDS {
            self.unended.push(id);
        }
    }

    /// Skips a note: there is no room for it, or its transaction has failed already.
    pub(super) fn skip(&mut self, note: &Note) {
        match note {
            Note::End { event, .. } => {
                self.odd.remove(event.id.as_str());
                // An exchange without a row needs no end.
                if self.open.remove(event.id.as_str()).is_some() || self.forgot {
                    self.unend(event.id.clone());
                }
            }
            Note::Begin(begun) => self.is_odd(Some(begun.id.as_str().into())),
            Note::Flush(_) => {}
            Note::Sent { id, .. }
            | Note::Answered { id, .. }
            | Note::Received { id, .. }
            | Note::Counted { id, .. }
            | Note::Shown { id, .. } => {
                if let Some(open) = self.open.get_mut(id) {
                    open.row.partial = true;
                }
            }
        }
    }

    /// Marks the exchange as partial: one of its notes panicked or was skipped.
    pub(super) fn is_odd(&mut self, id: Option<Arc<str>>) {
        let Some(id) = id else { return };
        match self.open.get_mut(&id) {
            Some(open) => open.row.partial = true,
            None => {
                if self.odd.len() >= MOST_OPEN {
                    self.odd.clear();
                }
                self.odd.insert(id);
            }
        }
    }

    /// How many exchanges are open.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Applies one note. Call it inside a transaction.
    pub(super) fn write(&mut self, note: Note) -> rusqlite::Result<()> {
        match note {
            Note::Begin(begun) => self.begin(*begun),
            Note::Sent { id, leg, at_ms, sent } => self.sent(&id, leg, at_ms, *sent),
            Note::Answered {
                id,
                leg,
                at_ms,
                answer,
            } => self.answered(&id, leg, at_ms, answer),
            Note::Received { id, leg, at_ms, body } => self.received(&id, leg, at_ms, body),
            Note::Counted { id, leg, usage, stop } => {
                self.counted(&id, leg, usage, stop);
                Ok(())
            }
            Note::Shown { id, headers, body } => self.shown(&id, &headers, body),
            Note::End { event, partial } => self.end(&event, partial),
            Note::Flush(_) => Ok(()),
        }
    }

    /// Writes all changed rows and commits the transaction.
    pub(super) fn settle(&mut self) -> rusqlite::Result<()> {
        self.end_lost()?;
        for id in self.changed.drain(..) {
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            open.row.write(&self.conn)?;
            for leg in open.legs.iter_mut().filter(|leg| leg.changed) {
                leg.write(&self.conn, open.row.seq)?;
                leg.changed = false;
            }
            (open.changed, open.received) = (false, None);
            self.chunk_store.slice.look();
            if open.row.ended.is_some() {
                self.open.remove(&id);
            }
        }
        self.chunk_store.settle(&self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.unended.clear();
        Ok(())
    }

    /// The transaction was rolled back: caches may name rows that are not there, and open exchanges are partial.
    pub(super) fn rolled_back(&mut self) {
        self.chunk_store.forget();
        self.models.forget();
        self.titles.forget();
        self.lose_open();
    }

    /// These rows were deleted.
    pub(super) fn collected(&mut self, nodes: &[i64], chunks: &[i64]) {
        self.titles.forget();
        if !(nodes.is_empty() && chunks.is_empty()) {
            self.chunk_store.collected(nodes, chunks);
            self.models.collected(chunks);
        }
    }

    fn lose_open(&mut self) {
        for (id, open) in std::mem::take(&mut self.open) {
            match open.row.ended {
                Some(_) => self.unend(id.to_string()),
                // Its row may have been rolled back.
                None => self.is_odd(Some(id)),
            }
        }
        self.changed.clear();
        self.forgot = true;
    }

    fn begin(&mut self, begun: Begun) -> rusqlite::Result<()> {
        let wire = wire::wire(begun.wire);
        #[cfg(test)]
        assert_ne!(begun.model.as_deref(), Some("odd"), "an odd body");
        self.last.0 += 1;
        let seen = Origin {
            exchange: self.last.0,
            side: "received",
        };
        if let Some(conversation) = &begun.conversation {
            self.titles
                .add(&self.conn, &self.chunk_store.redactor, &begun, conversation)?;
        }
        let received = match &begun.transcript {
            Some(transcript) => {
                let listed = MessageSpans {
                    list: transcript.list,
                    turns: &transcript.turns,
                };
                let known = begun.beginnings.as_ref().map_or(&[][..], Beginnings::hashes);
                self.chunk_store
                    .body(&self.conn, &begun.received, Some(listed), known, seen)?
            }
            None => self.unread(wire, begun.call, &begun.received, seen)?,
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
            call: Some(call_name(begun.call)),
            received: received.body,
            headers: self.headers(&begun.headers, seen)?,
            received_bytes: begun.received.len() as u64,
            id: begun.id,
            ..PendingRow::default()
        };
        if self.open.len() >= MOST_OPEN {
            self.settle_early()?;
            self.lose_open();
        }
        let id: Arc<str> = row.id.as_str().into();
        let open = PendingExchange {
            row,
            legs: Vec::new(),
            wire,
            call: begun.call,
            received: Some(received),
            changed: true,
        };
        self.changed.push(Arc::clone(&id));
        self.open.insert(id, open);
        Ok(())
    }

    /// Writes the changed rows without ending the transaction.
    fn settle_early(&mut self) -> rusqlite::Result<()> {
        for id in &self.changed {
            let Some(open) = self.open.get(id) else { continue };
            open.row.write(&self.conn)?;
            for leg in open.legs.iter().filter(|leg| leg.changed) {
                leg.write(&self.conn, open.row.seq)?;
            }
        }
        Ok(())
    }

    /// The open exchange of this id, marked as changed.
    fn change(&mut self, id: &str) -> Option<&mut PendingExchange> {
        let (key, _) = self.open.get_key_value(id)?;
        let key = Arc::clone(key);
        let open = self.open.get_mut(id)?;
        if !std::mem::replace(&mut open.changed, true) {
            self.changed.push(key);
        }
        Some(open)
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.chunk_store.redactor.text(text).into_owned())
    }

    /// Writes a body whose messages are not located yet.
    fn unread(
        &mut self,
        wire: &dyn Wire,
        call: Call,
        text: &Bytes,
        seen: Origin,
    ) -> rusqlite::Result<WrittenBody> {
        let view = wire.read(text, call).ok();
        let listed = view.as_ref().map(|view| MessageSpans {
            list: view.list,
            turns: &view.turns,
        });
        self.chunk_store.body(&self.conn, text, listed, &[], seen)
    }

    fn headers(&mut self, headers: &PackedHeaders, seen: Origin) -> rusqlite::Result<StoredHeaders> {
        self.models.keep(&mut self.chunk_store, &self.conn, headers, seen)
    }

    fn sent(&mut self, id: &str, leg: u32, at_ms: u64, leg_sent: SentLeg) -> rusqlite::Result<()> {
        let SentLeg {
            url,
            headers,
            rope,
            changes,
        } = leg_sent;
        let Some(seen) = self.seen(id, "sent") else {
            return Ok(());
        };
        let sent_headers = self.headers(&headers, seen)?;
        let Some(open) = self.open.get(id) else {
            return Ok(());
        };
        let (wire, call) = (open.wire, open.call);
        let bytes = splice::len(&rope);
        let slices = match &open.received {
            Some(received) => self.chunk_store.spliced(&self.conn, received, &rope, seen)?,
            None => None,
        };
        let sent = match slices {
            Some(body) => body,
            None => self.unread(wire, call, &splice::flat(rope), seen)?.body,
        };
        let changes = json(&changes);
        let url = self.chunk_store.redactor.address(&url);
        let Some(open) = self.change(id) else {
            return Ok(());
        };
        // Later legs hardly ever reuse it, and its memory is needed.
        open.received = None;
        open.legs.retain(|other| other.n != leg);
        open.legs.push(PendingLeg {
            n: leg,
            at_ms,
            bytes,
            sent,
            changes,
            url: Some(url),
            sent_headers,
            changed: true,
            ..PendingLeg::default()
        });
        Ok(())
    }

    /// The origin of new chunks of this exchange, if it is open.
    fn seen(&self, id: &str, side: &'static str) -> Option<Origin> {
        let exchange = self.open.get(id)?.row.seq;
        Some(Origin { exchange, side })
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
        self.change_leg(id, leg, |leg| {
            (leg.response, leg.response_bytes, leg.response_cut) = (chunk, text.len(), cut);
            leg.ended_ms = Some(at_ms.saturating_sub(leg.at_ms));
        });
        Ok(())
    }

    fn counted(&mut self, id: &str, leg: u32, usage: Usage, stop: Stop) {
        let usage = serde_json::json!({
            "input": usage.input, "cache_read": usage.cache_read, "cache_write": usage.cache_write,
            "output": usage.output, "reasoning": usage.reasoning,
        });
        self.change_leg(id, leg, |leg| {
            (leg.usage, leg.stop) = (Some(usage.to_string()), Some(stop_name(stop)));
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
        if let Some(PendingExchange { row, .. }) = self.change(id) {
            (row.shown, row.shown_cut, row.shown_headers) = (chunk, cut, headers);
        }
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        self.last.1 += 1;
        let partial = partial || self.odd.remove(event.id.as_str());
        let ended = Some(self.last.1);
        if let Some(PendingExchange { row, legs, call, .. }) = self.change(&event.id) {
            row.end(event, ended, partial);
            let sent = legs.iter().map(|leg| (leg.bytes as u64, leg.status));
            row.saved_tokens = unsent_tokens(*call, event.received_bytes, sent);
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
        row.write(&self.conn)
    }

    /// Whether this exchange is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
