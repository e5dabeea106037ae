//! Pieces and chains: what is there already is found, what is new is redacted, packed and written once.

use bytes::Bytes;
use quick_cache::unsync::Cache;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::gist::{Gist, gist};
use super::pieces::Cuts;
use super::redact::Redactor;
use crate::json::Span;
use crate::wire::{Role, View, Wire};

/// Bytes of a piece's hash: 128 bits of SHA-256, so that two pieces never meet by chance.
const HASH: usize = 16;

/// Pieces and nodes remembered in memory, each some 50 bytes: a dozen long conversations.
const REMEMBERED: usize = 64 * 1024;

/// Under this size nothing is won by packing.
const PACKED_FROM: usize = 96;

/// zstd's own default: a tenth of the time of what would save another few percent.
const LEVEL: i32 = 3;

type Hash = [u8; HASH];

/// The last node of each of a body's three rows; 0 is an empty row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) head: i64,
    pub(super) list: i64,
    pub(super) tail: i64,
    pub(super) messages: i64,
}

/// Where a piece was first seen, for the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) exchange: i64,
    pub(super) side: &'static str,
}

/// What kind of text a piece is, as far as redaction cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// JSON, or a part of it.
    Json,
    /// Server-sent events with JSON in them.
    Stream,
    /// Anything else.
    Raw,
}

/// Finds and writes pieces.
pub(super) struct Pool {
    pub(super) redactor: Redactor,
    /// Piece by the hash of what came, before anything was taken out of it.
    known: Cache<Hash, i64>,
    next: Cache<(i64, i64), i64>,
}

impl Pool {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            known: Cache::new(REMEMBERED),
            next: Cache::new(REMEMBERED),
        }
    }

    /// Something was collected, or a transaction was lost: what is remembered may be gone.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.next.clear();
    }

    /// Writes a request body, and points to it once.
    pub(super) fn body(
        &mut self,
        conn: &Connection,
        wire: &dyn Wire,
        view: Result<&View, &Bytes>,
        seen: Seen,
    ) -> rusqlite::Result<Body> {
        let (text, cuts) = match view {
            Ok(view) => (&view.body, Cuts::of(view)),
            Err(text) => (text, Cuts::whole(text.len())),
        };
        let head = self.row(conn, text, &cuts.head, seen)?;
        let tail = self.row(conn, text, &cuts.tail, seen)?;
        let mut list = 0;
        for (i, (gap, span)) in cuts.list.iter().enumerate() {
            let role = view.map_or(Role::Other, |v| v.turns[i].role);
            let message = text.slice(span.start..span.end);
            let piece = self.piece(conn, &message, Text::Json, seen, |clean| {
                Some(gist(wire, clean, role))
            })?;
            let gap = String::from_utf8_lossy(gap.of(text));
            list = self.node(conn, list, piece, &gap)?;
        }
        for node in [head, list, tail] {
            self.point_node(conn, node)?;
        }
        let messages = i64::try_from(cuts.list.len()).unwrap_or(i64::MAX);
        Ok(Body {
            head,
            list,
            tail,
            messages,
        })
    }

    fn row(&mut self, conn: &Connection, text: &Bytes, spans: &[Span], seen: Seen) -> rusqlite::Result<i64> {
        let mut last = 0;
        for span in spans {
            let piece = self.piece(conn, &text.slice(span.start..span.end), Text::Json, seen, |_| {
                None
            })?;
            last = self.node(conn, last, piece, "")?;
        }
        Ok(last)
    }

    /// Writes a text that nothing else is a part of, and points to it once; 0 where it is empty.
    pub(super) fn blob(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        kind: Text,
        seen: Seen,
    ) -> rusqlite::Result<i64> {
        if text.is_empty() {
            return Ok(0);
        }
        let piece = self.piece(conn, text, kind, seen, |_| None)?;
        self.point_piece(conn, piece)?;
        Ok(piece)
    }

    fn piece(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        kind: Text,
        seen: Seen,
        short: impl FnOnce(&Bytes) -> Option<Gist>,
    ) -> rusqlite::Result<i64> {
        let raw = hash(text);
        if let Some(id) = self.known.get(&raw) {
            return Ok(*id);
        }
        let clean: Bytes = match kind {
            Text::Json => self.redactor.json(text),
            Text::Stream => self.redactor.stream(text),
            Text::Raw => self.redactor.raw(text),
        }
        .into_owned()
        .into();
        let id = self.write(conn, &clean, seen, short)?;
        self.known.insert(raw, id);
        Ok(id)
    }

    fn write(
        &self,
        conn: &Connection,
        clean: &Bytes,
        seen: Seen,
        short: impl FnOnce(&Bytes) -> Option<Gist>,
    ) -> rusqlite::Result<i64> {
        let hash = hash(clean);
        let mut find = conn.prepare_cached("SELECT id FROM pieces WHERE hash = ?1")?;
        if let Some(id) = find.query_row([&hash], |row| row.get(0)).optional()? {
            return Ok(id);
        }
        let packed = (clean.len() >= PACKED_FROM)
            .then(|| zstd::bulk::compress(clean, LEVEL).ok())
            .flatten()
            .filter(|packed| packed.len() < clean.len());
        let short = short(clean);
        let short = short.as_ref();
        conn.prepare_cached(
            "INSERT INTO pieces (hash, refs, size, packed, exchange, side, role, kind, line, body)
             VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            hash,
            clean.len(),
            packed.is_some(),
            seen.exchange,
            seen.side,
            short.map(|s| s.role),
            short.map(|s| s.kind),
            short.map(|s| s.line.as_str()),
            packed.as_deref().unwrap_or(clean),
        ])?;
        Ok(conn.last_insert_rowid())
    }

    fn node(&mut self, conn: &Connection, parent: i64, piece: i64, gap: &str) -> rusqlite::Result<i64> {
        // Agents put the same gap between all messages, so the cache need not know of it.
        let usual = gap.is_empty() == (parent == 0) && gap.len() <= 1;
        if usual && let Some(id) = self.next.get(&(parent, piece)) {
            return Ok(*id);
        }
        let mut find =
            conn.prepare_cached("SELECT id FROM nodes WHERE parent = ?1 AND piece = ?2 AND gap = ?3")?;
        let found = find
            .query_row(params![parent, piece, gap], |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                conn.prepare_cached("INSERT INTO nodes (parent, piece, gap, refs) VALUES (?1, ?2, ?3, 0)")?
                    .execute(params![parent, piece, gap])?;
                let id = conn.last_insert_rowid();
                self.point_piece(conn, piece)?;
                self.point_node(conn, parent)?;
                id
            }
        };
        if usual {
            self.next.insert((parent, piece), id);
        }
        Ok(id)
    }

    fn point_node(&self, conn: &Connection, node: i64) -> rusqlite::Result<()> {
        if node != 0 {
            conn.prepare_cached("UPDATE nodes SET refs = refs + 1 WHERE id = ?1")?
                .execute([node])?;
        }
        Ok(())
    }

    fn point_piece(&self, conn: &Connection, piece: i64) -> rusqlite::Result<()> {
        conn.prepare_cached("UPDATE pieces SET refs = refs + 1 WHERE id = ?1")?
            .execute([piece])?;
        Ok(())
    }
}

fn hash(text: &[u8]) -> Hash {
    let mut short = [0; HASH];
    short.copy_from_slice(&Sha256::digest(text)[..HASH]);
    short
}

/// The text of a stored piece.
pub(super) fn unpack(body: Vec<u8>, packed: bool, size: usize) -> Vec<u8> {
    match packed {
        true => zstd::bulk::decompress(&body, size).unwrap_or_default(),
        false => body,
    }
}
