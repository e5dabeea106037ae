//! Notes become rows. One thread owns this; nothing of it runs on the runtime.
//!
//! What the notes of one transaction say of an exchange is gathered first, and written once at its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::fast::{Beginnings, Key};
use super::headers::{Kept, Models};
use super::note::{Begun, Copied, Note, SentLeg};
use super::packed::PackedHeaders;
use super::pool::{Listed, Pool, Seen, Text, Written};
use super::row::{Event, unsent_tokens};
use super::slip::{LegSlip, Slip, call_name, stop_name};
use super::summary;
use super::tap::MOST_LOST_ENDS;
use crate::record::WireId;
use crate::redact::Redactor;
use crate::telemetry::ExchangeEvent;
use crate::text::splice;
use crate::wire::{self, Call, Stop, Usage, Wire};

/// Exchanges under way that are remembered. More of them than the proxy takes at once means that ends were lost.
const MOST_OPEN: usize = 8192;

/// Conversations of which it is remembered that they have a title.
const MOST_TITLED: usize = 8192;

/// Writes what the notes say.
pub(super) struct Archive {
    pub(super) conn: Connection,
    pub(super) pool: Pool,
    models: Models,
    open: HashMap<Arc<str>, Open>,
    /// Exchanges of which something is not written yet.
    changed: Vec<Arc<str>>,
    /// Whether exchanges under way were forgotten, so that an end may belong to a row that is there.
    forgot: bool,
    titled: HashSet<String>,
    tags: Vec<String>,
    /// The last row and the last end.
    last: (i64, i64),
    /// Exchanges that are over, and whose row does not say so yet.
    unended: Vec<String>,
    /// Exchanges whose beginning was lost: what is written of them later is not whole.
    odd: HashSet<Arc<str>>,
}

/// An exchange under way.
struct Open {
    slip: Slip,
    legs: Vec<LegSlip>,
    wire: &'static dyn Wire,
    call: Call,
    /// The agent's body until the first leg goes out, or the transaction ends: what is sent on mostly is slices of it.
    received: Option<Written>,
    changed: bool,
}

impl Archive {
    pub(super) fn new(
        conn: Connection,
        redactor: Redactor,
        tags: Vec<String>,
        key: Key,
    ) -> rusqlite::Result<Self> {
        // What a killed process left open will never end.
        conn.execute(
            "UPDATE exchanges SET ended = seq, partial = 1 WHERE ended IS NULL",
            [],
        )?;
        Ok(Self {
            conn,
            pool: Pool::new(redactor, key),
            models: Models::default(),
            open: HashMap::new(),
            changed: Vec::new(),
            forgot: false,
            titled: HashSet::new(),
            tags,
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

    /// Ends rows that lost their end, inside a transaction.
    fn end_lost(&mut self) -> rusqlite::Result<()> {
        // They are let go when the transaction is committed.
        for i in 0..self.unended.len() {
            let id = self.unended[i].clone();
            self.last.1 += 1;
            let ended = self.last.1;
            if let Some(open) = self.change(&id) {
                (open.slip.partial, open.slip.ended) = (true, Some(ended));
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

    /// The ends of these will not come.
    ///
    /// They are under way no longer, so that their rows may go where room is needed. Called between transactions, where
    /// all that is known of them is written.
    pub(super) fn lose_ends(&mut self, ids: Vec<String>) {
        for id in ids {
            self.open.remove(id.as_str());
            // Also of those that are not known: their beginning may still wait in the queue.
            self.unend(id);
        }
    }

    /// Ends that are still to be written.
    #[cfg(test)]
    pub(super) fn unended(&self) -> usize {
        self.unended.len()
    }

    /// Has the row be ended with the next transaction. Bounded, since there may be no transaction for long: a row beyond it
    /// looks open until it is the oldest and goes.
    fn unend(&mut self, id: String) {
        if self.unended.len() < MOST_LOST_ENDS {
            self.unended.push(id);
        }
    }

    /// Leaves a note out: there is no room for it, or its transaction has failed already.
    pub(super) fn skip(&mut self, note: &Note) {
        match note {
            Note::End { event, .. } => {
                self.odd.remove(event.id.as_str());
                // Without a row there is nothing to end.
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
                    open.slip.partial = true;
                }
            }
        }
    }

    /// A note of this exchange could not be read, or was left out.
    pub(super) fn is_odd(&mut self, id: Option<Arc<str>>) {
        let Some(id) = id else { return };
        match self.open.get_mut(&id) {
            Some(open) => open.slip.partial = true,
            None => {
                if self.odd.len() >= MOST_OPEN {
                    self.odd.clear();
                }
                self.odd.insert(id);
            }
        }
    }

    /// Exchanges under way.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Takes one note in. Run inside a transaction.
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

    /// Writes all rows of which something came, and ends the transaction.
    pub(super) fn settle(&mut self) -> rusqlite::Result<()> {
        self.end_lost()?;
        for id in self.changed.drain(..) {
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            open.slip.write(&self.conn)?;
            for leg in open.legs.iter_mut().filter(|leg| leg.changed) {
                leg.write(&self.conn, open.slip.seq)?;
                leg.changed = false;
            }
            (open.changed, open.received) = (false, None);
            self.pool.slice.look();
            if open.slip.ended.is_some() {
                self.open.remove(&id);
            }
        }
        self.pool.settle(&self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.unended.clear();
        Ok(())
    }

    /// The transaction was rolled back: nothing that was learnt in it holds, and what was under way is not whole.
    pub(super) fn rolled_back(&mut self) {
        self.pool.forget();
        self.models.forget();
        self.titled.clear();
        self.lose_open();
    }

    /// These rows were collected, or went with their exchanges.
    pub(super) fn collected(&mut self, nodes: &[i64], pieces: &[i64]) {
        self.titled.clear();
        if !(nodes.is_empty() && pieces.is_empty()) {
            self.pool.collected(nodes, pieces);
            self.models.collected(pieces);
        }
    }

    fn lose_open(&mut self) {
        for (id, open) in std::mem::take(&mut self.open) {
            match open.slip.ended {
                Some(_) => self.unend(id.to_string()),
                // Its row may have gone with the transaction.
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
        let seen = Seen {
            exchange: self.last.0,
            side: "received",
        };
        if let Some(conversation) = &begun.conversation {
            self.title(wire, &begun, conversation)?;
        }
        let received = match &begun.transcript {
            Some(transcript) => {
                let listed = Listed {
                    list: transcript.list,
                    turns: &transcript.turns,
                };
                let known = begun.beginnings.as_ref().map_or(&[][..], Beginnings::hashes);
                self.pool
                    .body(&self.conn, &begun.received, Some(listed), known, seen)?
            }
            None => self.unread(wire, begun.call, &begun.received, seen)?,
        };
        let slip = Slip {
            seq: seen.exchange,
            at_ms: begun.at_ms,
            conversation: begun.conversation,
            principal: Some(begun.principal),
            wire: Some(begun.wire.name()),
            model: self.clean(begun.model.as_deref()),
            upstream: begun.upstream,
            route: Some(self.pool.redactor.path(&begun.route).into_owned()),
            call: Some(call_name(begun.call)),
            received: received.body,
            headers: self.headers(&begun.headers, seen)?,
            received_bytes: begun.received.len() as u64,
            id: begun.id,
            ..Slip::default()
        };
        if self.open.len() >= MOST_OPEN {
            self.settle_early()?;
            self.lose_open();
        }
        let id: Arc<str> = slip.id.as_str().into();
        let open = Open {
            slip,
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

    /// Writes what came so far, in the middle of a transaction.
    fn settle_early(&mut self) -> rusqlite::Result<()> {
        for id in &self.changed {
            let Some(open) = self.open.get(id) else { continue };
            open.slip.write(&self.conn)?;
            for leg in open.legs.iter().filter(|leg| leg.changed) {
                leg.write(&self.conn, open.slip.seq)?;
            }
        }
        Ok(())
    }

    /// The exchange under way, to be written at the end of the transaction.
    fn change(&mut self, id: &str) -> Option<&mut Open> {
        let (key, _) = self.open.get_key_value(id)?;
        let key = Arc::clone(key);
        let open = self.open.get_mut(id)?;
        if !std::mem::replace(&mut open.changed, true) {
            self.changed.push(key);
        }
        Some(open)
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.pool.redactor.text(text).into_owned())
    }

    fn title(&mut self, wire: &dyn Wire, begun: &Begun, conversation: &str) -> rusqlite::Result<()> {
        if self.titled.contains(conversation) {
            return Ok(());
        }
        let known = self
            .conn
            .prepare_cached("SELECT 1 FROM titles WHERE conversation = ?1")?
            .exists([conversation])?;
        if !known {
            let Ok(view) = wire.read(&begun.received, begun.call) else {
                return Ok(());
            };
            let title = summary::title(&view, &self.tags);
            let title = summary::cut(&self.pool.redactor.text(&title));
            self.conn
                .prepare_cached("INSERT INTO titles (conversation, title) VALUES (?1, ?2)")?
                .execute([conversation, &title])?;
        }
        if self.titled.len() >= MOST_TITLED {
            self.titled.clear();
        }
        self.titled.insert(conversation.to_owned());
        Ok(())
    }

    /// A body of which nobody has said yet where its messages are.
    fn unread(&mut self, wire: &dyn Wire, call: Call, text: &Bytes, seen: Seen) -> rusqlite::Result<Written> {
        let view = wire.read(text, call).ok();
        let listed = view.as_ref().map(|view| Listed {
            list: view.list,
            turns: &view.turns,
        });
        self.pool.body(&self.conn, text, listed, &[], seen)
    }

    fn headers(&mut self, headers: &PackedHeaders, seen: Seen) -> rusqlite::Result<Kept> {
        self.models.keep(&mut self.pool, &self.conn, headers, seen)
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
            Some(received) => self.pool.spliced(&self.conn, received, &rope, seen)?,
            None => None,
        };
        let sent = match slices {
            Some(body) => body,
            None => self.unread(wire, call, &splice::flat(rope), seen)?.body,
        };
        let changes = json(&changes);
        let url = self.pool.redactor.address(&url);
        let Some(open) = self.change(id) else {
            return Ok(());
        };
        // A later leg's request is hardly ever made of it, and its memory is needed.
        open.received = None;
        open.legs.retain(|other| other.n != leg);
        open.legs.push(LegSlip {
            n: leg,
            at_ms,
            bytes,
            sent,
            changes,
            url: Some(url),
            sent_headers,
            changed: true,
            ..LegSlip::default()
        });
        Ok(())
    }

    /// Where something of an exchange was seen, if it is under way.
    fn seen(&self, id: &str, side: &'static str) -> Option<Seen> {
        let exchange = self.open.get(id)?.slip.seq;
        Some(Seen { exchange, side })
    }

    fn change_leg(&mut self, id: &str, n: u32, change: impl FnOnce(&mut LegSlip)) {
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

    fn received(&mut self, id: &str, leg: u32, at_ms: u64, body: Copied) -> rusqlite::Result<()> {
        let Some(seen) = self.seen(id, "response") else {
            return Ok(());
        };
        let cut = body.truncated || !body.ended;
        let text = splice::flat(body.chunks);
        let piece = self.pool.blob(&self.conn, &text, text_kind(&text), seen)?;
        self.change_leg(id, leg, |leg| {
            (leg.response, leg.response_bytes, leg.response_cut) = (piece, text.len(), cut);
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

    fn shown(&mut self, id: &str, headers: &PackedHeaders, body: Copied) -> rusqlite::Result<()> {
        let Some(seen) = self.seen(id, "shown") else {
            return Ok(());
        };
        let coded = headers
            .get("content-encoding")
            .is_some_and(|coding| coding != b"identity");
        // What cannot be read cannot be redacted, and so is not kept. Only errors that are relayed come so.
        let text = if coded {
            Bytes::new()
        } else {
            splice::flat(body.chunks)
        };
        let cut = body.truncated || coded || !body.ended;
        let piece = self.pool.blob(&self.conn, &text, text_kind(&text), seen)?;
        let headers = self.headers(headers, seen)?;
        if let Some(Open { slip, .. }) = self.change(id) {
            (slip.shown, slip.shown_cut, slip.shown_headers) = (piece, cut, headers);
        }
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        self.last.1 += 1;
        let partial = partial || self.odd.remove(event.id.as_str());
        let ended = Some(self.last.1);
        let late = |slip: &mut Slip| {
            slip.ended = ended;
            slip.received_bytes = event.received_bytes;
            slip.sent_bytes = event.sent_bytes.iter().sum();
            slip.fired = event.fired.len();
            slip.partial |= partial;
            slip.event = Some(json(&Event::of(event)));
        };
        if let Some(Open { slip, legs, call, .. }) = self.change(&event.id) {
            late(slip);
            let sent = legs.iter().map(|leg| (leg.bytes as u64, leg.status));
            slip.saved_tokens = unsent_tokens(*call, event.received_bytes, sent);
            return Ok(());
        }
        let mut slip = Slip {
            id: event.id.clone(),
            at_ms: began_ms(event),
            conversation: event.conversation.clone(),
            wire: event.wire.map(WireId::name),
            model: self.clean(event.model.as_deref()),
            upstream: event.upstream.clone(),
            route: Some(self.pool.redactor.path(&event.route).into_owned()),
            ..Slip::default()
        };
        late(&mut slip);
        if self.forgot && self.end_forgotten(&slip)? {
            return Ok(());
        }
        self.last.0 += 1;
        slip.seq = self.last.0;
        slip.write(&self.conn)
    }

    /// Ends a row that is there, of an exchange that was forgotten here; `false` where there is none.
    fn end_forgotten(&self, slip: &Slip) -> rusqlite::Result<bool> {
        let found = self
            .conn
            .prepare_cached(
                "UPDATE exchanges SET ended = ?2, received_bytes = ?3, sent_bytes = ?4, fired = ?5, partial = 1,
                 event = ?6 WHERE id = ?1",
            )?
            .execute(params![
                slip.id,
                slip.ended,
                slip.received_bytes,
                slip.sent_bytes,
                slip.fired,
                slip.event
            ])?;
        Ok(found > 0)
    }

    /// Whether an exchange is still under way here.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// When the exchange began: its id is a UUIDv7 and says so.
fn began_ms(event: &ExchangeEvent) -> u64 {
    let from_id = event
        .id
        .parse::<uuid::Uuid>()
        .ok()
        .and_then(|id| id.get_timestamp());
    match from_id.map(|time| time.to_unix()) {
        Some((secs, nanos)) => secs * 1000 + u64::from(nanos) / 1_000_000,
        None => super::tap::now_ms(),
    }
}

fn text_kind(text: &[u8]) -> Text {
    match text.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{' | b'[') => Text::Json,
        Some(b'd' | b'e' | b':' | b'i' | b'r') if memchr::memmem::find(text, b"data:").is_some() => {
            Text::Stream
        }
        _ => Text::Raw,
    }
}
