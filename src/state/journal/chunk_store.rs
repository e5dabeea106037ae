//! Stores chunks of bodies, each once. Known chunks are found by hash; new ones are redacted, compressed and written.

use bytes::Bytes;
use quick_cache::unsync::Cache;
use rusqlite::{Connection, OptionalExtension, params};

use super::keyed_hash::{HashKey, KeyedHash};
use super::known_beginnings::KnownBeginnings;
use super::known_cuts::KnownCuts;
use super::packing::{Packer, content_hash};
use super::references::{CountedRow, References};
use super::summary::MessageText;
use super::time_slice::TimeSlice;
use baton_core::redact::Redactor;
use baton_core::text::cost;

/// Entries of each cache (chunks, nodes, rows), some 50 bytes each: enough for thousands of conversations.
const REMEMBERED: usize = 64 * 1024;

/// Bytes that a chunk takes besides its text, about: its row, its index entry, its node.
const ENTRY: usize = 300;

/// The place where a chunk was first seen, for the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstSeen {
    pub(super) exchange: i64,
    pub(super) side: &'static str,
}

/// The kind of a chunk's text, which decides how it is redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// JSON, or a part of it.
    Json,
    /// Server-sent events with JSON in them.
    Stream,
    /// Anything else.
    Raw,
}

impl TextKind {
    /// The kind of a response, judged by its first bytes.
    pub(super) fn of(text: &[u8]) -> Self {
        match text.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{' | b'[') => Self::Json,
            Some(b'd' | b'e' | b':' | b'i' | b'r') if memchr::memmem::find(text, b"data:").is_some() => {
                Self::Stream
            }
            _ => Self::Raw,
        }
    }
}

/// Finds and writes chunks.
pub(super) struct ChunkStore {
    pub(super) redactor: Redactor,
    pub(super) key: HashKey,
    /// Chunk by the hash of its text before redaction.
    known: Cache<KeyedHash, i64>,
    /// Node by its parent and its chunk.
    next: Cache<(i64, i64), i64>,
    /// The last node of a chain by the hash of the chain's text.
    pub(super) rows: Cache<KeyedHash, i64>,
    /// By the hash of a beginning, which is a number of whole blocks.
    pub(super) beginnings: KnownBeginnings,
    /// By how they were assembled.
    pub(super) cuts: KnownCuts,
    pub(super) references: References,
    packer: Packer,
    /// Bytes written since [`Self::take_fresh`].
    fresh: usize,
    pub(super) slice: TimeSlice,
}

impl ChunkStore {
    pub(super) fn new(redactor: Redactor, key: HashKey) -> Self {
        Self {
            redactor,
            key,
            known: Cache::new(REMEMBERED),
            next: Cache::new(REMEMBERED),
            rows: Cache::new(REMEMBERED),
            beginnings: KnownBeginnings::new(),
            cuts: KnownCuts::new(),
            references: References::default(),
            packer: Packer::new(),
            fresh: 0,
            slice: TimeSlice::new(),
        }
    }

    /// Bytes of text that were written since the last call.
    pub(super) fn take_fresh(&mut self) -> usize {
        std::mem::take(&mut self.fresh)
    }

    /// A text's hash in this process.
    pub(super) fn fast(&self, text: &[u8]) -> KeyedHash {
        cost::add(text.len());
        self.key.hash(text)
    }

    /// Adds a reference to a chunk.
    pub(super) fn point_to(&mut self, chunk: i64) {
        self.references.add(CountedRow::Chunk(chunk));
    }

    /// A transaction was rolled back: cached rows may not exist.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.next.clear();
        self.rows.clear();
        self.beginnings.clear();
        self.cuts.clear();
        self.references.clear();
    }

    /// Forgets deleted rows; their ids may be used again for other rows.
    pub(super) fn collected(&mut self, nodes: &[i64], chunks: &[i64]) {
        let (mut nodes, mut chunks) = (nodes.to_vec(), chunks.to_vec());
        nodes.sort_unstable();
        chunks.sort_unstable();
        let there = |all: &[i64], id: &i64| all.binary_search(id).is_err();
        self.known.retain(|_, chunk| there(&chunks, chunk));
        self.next.retain(|(parent, chunk), id| {
            there(&nodes, parent) && there(&nodes, id) && there(&chunks, chunk)
        });
        self.rows.retain(|_, id| there(&nodes, id));
        self.beginnings.retain(|node| there(&nodes, &node));
        self.cuts.retain(|node| there(&nodes, &node));
    }

    /// Writes the reference counts. Call it at the end of a transaction.
    pub(super) fn settle(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.references.write(conn)
    }

    /// Stores a text as one chunk and adds one reference to it; 0 where it is empty.
    pub(super) fn blob(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        kind: TextKind,
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        if text.is_empty() {
            return Ok(0);
        }
        let chunk = self.chunk(conn, text, kind, seen, |_| None)?;
        self.references.add(CountedRow::Chunk(chunk));
        Ok(chunk)
    }

    pub(super) fn chunk(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        kind: TextKind,
        seen: FirstSeen,
        short: impl FnOnce(&Bytes) -> Option<MessageText>,
    ) -> rusqlite::Result<i64> {
        let raw = self.fast(text);
        if let Some(id) = self.known.get(&raw) {
            return Ok(*id);
        }
        let clean = match kind {
            TextKind::Json => {
                let slice = &mut self.slice;
                self.redactor.json_in_steps(text, &mut |bytes| slice.step(bytes))
            }
            TextKind::Stream => self.redactor.stream(text),
            TextKind::Raw => self.redactor.raw(text),
        };
        let clean = match clean {
            std::borrow::Cow::Borrowed(_) => text.clone(),
            std::borrow::Cow::Owned(clean) => clean.into(),
        };
        let id = self.write(conn, &clean, seen, short)?;
        self.known.insert(raw, id);
        Ok(id)
    }

    fn write(
        &mut self,
        conn: &Connection,
        clean: &Bytes,
        seen: FirstSeen,
        short: impl FnOnce(&Bytes) -> Option<MessageText>,
    ) -> rusqlite::Result<i64> {
        let hash = content_hash(clean, &mut self.slice);
        let mut find = conn.prepare_cached("SELECT id FROM pieces WHERE hash = ?1")?;
        if let Some(id) = find.query_row([&hash], |row| row.get(0)).optional()? {
            return Ok(id);
        }
        let packed = self
            .packer
            .pack(clean)
            .filter(|packed| packed.len() < clean.len());
        let short = short(clean);
        let short = short.as_ref();
        conn.prepare_cached(
            "INSERT INTO pieces (hash, refs, size, packed, exchange, side, role, kind, line, body)
             VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
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
        let id = conn.last_insert_rowid();
        self.fresh += ENTRY + packed.as_deref().map_or(clean.len(), <[u8]>::len);
        self.references.made(CountedRow::Chunk(id));
        Ok(id)
    }

    pub(super) fn node(
        &mut self,
        conn: &Connection,
        parent: i64,
        chunk: i64,
        gap: &str,
    ) -> rusqlite::Result<i64> {
        // Agents put the same separator between all messages, so the cache leaves it out of its key.
        let usual = gap.is_empty() == (parent == 0) && gap.len() <= 1;
        if usual && let Some(id) = self.next.get(&(parent, chunk)) {
            return Ok(*id);
        }
        let made = conn
            .prepare_cached("INSERT OR IGNORE INTO nodes (parent, piece, gap, refs) VALUES (?1, ?2, ?3, 1)")?
            .execute(params![parent, chunk, gap])?;
        let id = if made == 1 {
            let id = conn.last_insert_rowid();
            self.references.made(CountedRow::Node(id));
            self.references.add(CountedRow::Chunk(chunk));
            self.references.add(CountedRow::Node(parent));
            id
        } else {
            conn.prepare_cached("SELECT id FROM nodes WHERE parent = ?1 AND piece = ?2 AND gap = ?3")?
                .query_row(params![parent, chunk, gap], |row| row.get(0))?
        };
        if usual {
            self.next.insert((parent, chunk), id);
        }
        Ok(id)
    }
}
