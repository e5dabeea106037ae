//! Notes become rows. One thread owns this; nothing of it runs on the runtime.

use std::collections::HashMap;

use bytes::Bytes;
use http::HeaderMap;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use super::gist;
use super::note::{Begun, Copied, Note};
use super::pool::{Body, Pool, Seen, Text};
use super::redact::Redactor;
use super::row::Event;
use crate::limits::BYTES_PER_TOKEN;
use crate::splice;
use crate::telemetry::ExchangeEvent;
use crate::wire::{self, Call, Stop, Usage, View, Wire, WireId};

/// Exchanges under way that are remembered. More of them than the proxy takes at once means that ends were lost.
const MOST_OPEN: usize = 8192;

/// Writes what the notes say.
pub(super) struct Archive {
    pub(super) conn: Connection,
    pub(super) pool: Pool,
    open: HashMap<String, Open>,
    tags: Vec<String>,
}

/// An exchange under way.
struct Open {
    seq: i64,
    wire: &'static dyn Wire,
    call: Call,
}

impl Archive {
    pub(super) fn new(conn: Connection, redactor: Redactor, tags: Vec<String>) -> rusqlite::Result<Self> {
        // What a killed process left open will never end.
        conn.execute(
            "UPDATE exchanges SET ended = seq, partial = 1 WHERE ended IS NULL",
            [],
        )?;
        Ok(Self {
            conn,
            pool: Pool::new(redactor),
            open: HashMap::new(),
            tags,
        })
    }

    /// Writes one note. Run inside a transaction.
    pub(super) fn write(&mut self, note: Note) -> rusqlite::Result<()> {
        match note {
            Note::Begin(begun) => self.begin(*begun),
            Note::Sent {
                id,
                leg,
                at_ms,
                rope,
                changes,
            } => self.sent(&id, leg, at_ms, rope, &changes),
            Note::Answered {
                id,
                leg,
                status,
                headers,
            } => self.answered(&id, leg, status, &headers),
            Note::Received { id, leg, body } => self.received(&id, leg, body),
            Note::Counted { id, leg, usage, stop } => self.counted(&id, leg, usage, stop),
            Note::Shown { id, headers, body } => self.shown(&id, &headers, body),
            Note::End { event, partial } => self.end(&event, partial),
            Note::Flush(_) => Ok(()),
        }
    }

    /// The transaction was rolled back: nothing that was learnt in it holds.
    pub(super) fn rolled_back(&mut self) {
        self.pool.forget();
    }

    fn begin(&mut self, begun: Begun) -> rusqlite::Result<()> {
        let Some(wire) = wire::wire(begun.wire) else {
            return Ok(());
        };
        self.conn
            .prepare_cached(
                "INSERT OR IGNORE INTO exchanges (id, at_ms, conversation, principal, wire, model, upstream, route, call,
                 received_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                begun.id,
                begun.at_ms,
                begun.conversation,
                begun.principal,
                begun.wire.name(),
                self.clean(begun.model.as_deref()),
                begun.upstream,
                self.clean(Some(&begun.route)),
                call_name(begun.call),
                begun.received.len(),
            ])?;
        let seq = self.conn.last_insert_rowid();
        let seen = Seen {
            exchange: seq,
            side: "received",
        };
        let view = wire.read(&begun.received, begun.call).ok();
        if let (Some(view), Some(conversation)) = (&view, &begun.conversation) {
            self.title(wire, view, conversation)?;
        }
        let body = self.body(wire, view.as_ref(), &begun.received, seen)?;
        let headers = self.headers(&begun.headers, seen)?;
        self.conn
            .prepare_cached(
                "UPDATE exchanges SET head = ?2, list = ?3, tail = ?4, messages = ?5, headers = ?6 WHERE seq = ?1",
            )?
            .execute(params![seq, body.head, body.list, body.tail, body.messages, headers])?;
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        let call = begun.call;
        self.open.insert(begun.id, Open { seq, wire, call });
        Ok(())
    }

    fn clean(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.pool.redactor.text(text).into_owned())
    }

    fn title(&self, wire: &dyn Wire, view: &View, conversation: &str) -> rusqlite::Result<()> {
        let mut known = self
            .conn
            .prepare_cached("SELECT 1 FROM titles WHERE conversation = ?1")?;
        if known.exists([conversation])? {
            return Ok(());
        }
        let title = gist::title(wire, view, &self.tags);
        let title = gist::cut(&self.pool.redactor.text(&title));
        self.conn
            .prepare_cached("INSERT INTO titles (conversation, title) VALUES (?1, ?2)")?
            .execute([conversation, &title])?;
        Ok(())
    }

    fn body(
        &mut self,
        wire: &dyn Wire,
        view: Option<&View>,
        text: &Bytes,
        seen: Seen,
    ) -> rusqlite::Result<Body> {
        self.pool.body(&self.conn, wire, view.ok_or(text), seen)
    }

    fn headers(&mut self, headers: &HeaderMap, seen: Seen) -> rusqlite::Result<i64> {
        let shown = self.pool.redactor.headers(headers);
        let text = serde_json::to_vec(&shown).unwrap_or_default();
        self.pool.blob(&self.conn, &text.into(), Text::Json, seen)
    }

    fn sent(
        &mut self,
        id: &str,
        leg: u32,
        at_ms: u64,
        rope: Vec<Bytes>,
        changes: &[crate::handoff::plan::Change],
    ) -> rusqlite::Result<()> {
        let Some(open) = self.open.get(id) else {
            return Ok(());
        };
        let (seq, wire, call) = (open.seq, open.wire, open.call);
        let text = splice::flat(rope);
        let view = wire.read(&text, call).ok();
        let seen = Seen {
            exchange: seq,
            side: "sent",
        };
        let body = self.body(wire, view.as_ref(), &text, seen)?;
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO legs (exchange, n, at_ms, bytes, messages, head, list, tail, changes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                seq,
                leg,
                at_ms,
                text.len(),
                body.messages,
                body.head,
                body.list,
                body.tail,
                json(&changes),
            ])?;
        Ok(())
    }

    fn answered(&mut self, id: &str, leg: u32, status: u16, headers: &HeaderMap) -> rusqlite::Result<()> {
        let Some(seq) = self.seq(id) else { return Ok(()) };
        let seen = Seen {
            exchange: seq,
            side: "response",
        };
        let headers = self.headers(headers, seen)?;
        self.conn
            .prepare_cached("UPDATE legs SET status = ?3, headers = ?4 WHERE exchange = ?1 AND n = ?2")?
            .execute(params![seq, leg, status, headers])?;
        Ok(())
    }

    fn received(&mut self, id: &str, leg: u32, body: Copied) -> rusqlite::Result<()> {
        let Some(seq) = self.seq(id) else { return Ok(()) };
        let seen = Seen {
            exchange: seq,
            side: "response",
        };
        let cut = body.truncated || !body.ended;
        let text = splice::flat(body.chunks);
        let piece = self.pool.blob(&self.conn, &text, text_kind(&text), seen)?;
        self.conn
            .prepare_cached(
                "UPDATE legs SET response = ?3, response_bytes = ?4, response_cut = ?5 WHERE exchange = ?1 AND n = ?2",
            )?
            .execute(params![seq, leg, piece, text.len(), cut])?;
        Ok(())
    }

    fn counted(&mut self, id: &str, leg: u32, usage: Usage, stop: Stop) -> rusqlite::Result<()> {
        let Some(seq) = self.seq(id) else { return Ok(()) };
        let usage = serde_json::json!({
            "input": usage.input, "cache_read": usage.cache_read, "cache_write": usage.cache_write,
            "output": usage.output, "reasoning": usage.reasoning,
        });
        self.conn
            .prepare_cached("UPDATE legs SET usage = ?3, stop = ?4 WHERE exchange = ?1 AND n = ?2")?
            .execute(params![seq, leg, usage.to_string(), stop_name(stop)])?;
        Ok(())
    }

    fn shown(&mut self, id: &str, headers: &HeaderMap, body: Copied) -> rusqlite::Result<()> {
        let Some(seq) = self.seq(id) else { return Ok(()) };
        let seen = Seen {
            exchange: seq,
            side: "shown",
        };
        let coded = headers
            .get(http::header::CONTENT_ENCODING)
            .is_some_and(|coding| coding.as_bytes() != b"identity");
        // What cannot be read cannot be redacted, and so is not kept. Only errors that are relayed come so.
        let text = if coded {
            Bytes::new()
        } else {
            splice::flat(body.chunks)
        };
        let cut = body.truncated || coded || !body.ended;
        let piece = self.pool.blob(&self.conn, &text, text_kind(&text), seen)?;
        let headers = self.headers(headers, seen)?;
        self.conn
            .prepare_cached(
                "UPDATE exchanges SET shown = ?2, shown_cut = ?3, shown_headers = ?4 WHERE seq = ?1",
            )?
            .execute(params![seq, piece, cut, headers])?;
        Ok(())
    }

    fn end(&mut self, event: &ExchangeEvent, partial: bool) -> rusqlite::Result<()> {
        let begun = self.open.remove(&event.id);
        let at_ms = began_ms(event);
        self.conn
            .prepare_cached(
                "INSERT OR IGNORE INTO exchanges (id, at_ms, conversation, wire, model, upstream, route)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                event.id,
                at_ms,
                event.conversation,
                event.wire.map(WireId::name),
                self.clean(event.model.as_deref()),
                event.upstream,
                self.clean(Some(&event.route)),
            ])?;
        let sent: u64 = event.sent_bytes.iter().sum();
        let first = event.sent_bytes.first().copied().unwrap_or(event.received_bytes);
        let saved = match begun {
            Some(_) => event.received_bytes.saturating_sub(first) / BYTES_PER_TOKEN,
            None => 0,
        };
        self.conn
            .prepare_cached(
                "UPDATE exchanges SET ended = (SELECT COALESCE(MAX(ended), 0) + 1 FROM exchanges), received_bytes = ?2,
                 sent_bytes = ?3, fired = ?4, saved_tokens = ?5, partial = ?6, event = ?7 WHERE id = ?1",
            )?
            .execute(params![
                event.id,
                event.received_bytes,
                sent,
                event.fired.len(),
                saved,
                partial,
                json(&Event::of(event)),
            ])?;
        Ok(())
    }

    fn seq(&self, id: &str) -> Option<i64> {
        self.open.get(id).map(|open| open.seq)
    }

    /// Whether an exchange is still under way here.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// The conversation of an exchange, for who watches live.
    pub(super) fn conversation(&self, id: &str) -> Option<(Option<String>, u64)> {
        let mut find = self
            .conn
            .prepare_cached("SELECT conversation, at_ms FROM exchanges WHERE id = ?1")
            .ok()?;
        find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .ok()?
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

fn call_name(call: Call) -> &'static str {
    match call {
        Call::Generate => "generate",
        Call::Count => "count",
        Call::Compact => "compact",
    }
}

fn stop_name(stop: Stop) -> &'static str {
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
