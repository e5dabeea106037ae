//! Stores each distinct chunk of a body once.
//!
//! Known chunks are found by hash. New ones are redacted, compressed and written.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use quick_cache::unsync::Cache;
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use super::references::{CountedRow, References};
use super::summary::MessageText;
use crate::database::{first, run};
use crate::keyed_hash::{self, KeyedHash};
use baton_core::redact::Redactor;
use baton_core::text::json;

/// Upper bound for the bytes of an entry in each of the two caches, including the unused room of a growing
/// table.
const CACHE_ENTRY_BYTES: usize = 128;

/// Approximate bytes of a chunk in addition to its text: its row, its index entry, its node.
const CHUNK_OVERHEAD_BYTES: usize = 300;

/// Where a chunk was first seen, for the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstSeen {
    pub(super) exchange: i64,
    pub(super) side: &'static str,
}

/// A piece of a stored chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredPiece {
    /// Hash of the gap before the chunk and of the chunk's text, before redaction.
    pub(super) hash: KeyedHash,
    pub(super) chunk: i64,
    /// Node of the chain up to here.
    pub(super) node: i64,
}

/// Framing of a chunk, which decides how it is redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// JSON, or a part of a JSON document.
    Json,
    /// Pieces of JSON: server-sent events, lines, or an array whose elements arrive one by one.
    Stream,
    /// Anything else, such as an HTML page, or pieces of JSON in an unknown framing.
    Unknown,
}

/// UTF-8 byte order mark, which may precede a body.
const BOM: &[u8] = b"\xEF\xBB\xBF";

impl TextKind {
    /// Returns the framing of a response.
    ///
    /// One complete object is a response in one piece. All other JSON counts as pieces, including an object
    /// that breaks off, because it may be the first of several. A stream of a single complete object is
    /// harmless: no second piece exists in which a credential could continue. Other content is searched in
    /// both ways.
    pub(super) fn from_bytes(text: &[u8]) -> Self {
        let text = text.strip_prefix(BOM).unwrap_or(text);
        match text.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{') if json::whole(text).is_ok() => Self::Json,
            Some(b'{' | b'[') => Self::Stream,
            Some(b'd' | b'e' | b':' | b'i' | b'r') if memchr::memmem::find(text, b"data:").is_some() => {
                Self::Stream
            }
            _ => Self::Unknown,
        }
    }
}

/// Finds and writes chunks.
pub(super) struct ChunkStore {
    pub(super) redactor: Redactor,
    /// Chunk ids by the hash of the text before redaction.
    chunks: Cache<KeyedHash, i64>,
    /// Messages by the node before them and their hash, and whole regions by their hash.
    pub(super) pieces: Cache<(i64, KeyedHash), StoredPiece>,
    pub(super) references: References,
    packer: Packer,
    /// Bytes written since [`Self::take_fresh`].
    fresh: usize,
}

impl ChunkStore {
    pub(super) fn new(redactor: Redactor, cache_bytes: usize) -> Self {
        // Both caches share the bytes.
        let entries = cache_bytes / 2 / CACHE_ENTRY_BYTES;
        Self {
            redactor,
            chunks: Cache::new(entries),
            pieces: Cache::new(entries),
            references: References::default(),
            packer: Packer::new(),
            fresh: 0,
        }
    }

    /// Returns the bytes written since the last call.
    pub(super) fn take_fresh(&mut self) -> usize {
        std::mem::take(&mut self.fresh)
    }

    /// Adds a reference to a chunk.
    pub(super) fn point_to(&mut self, chunk: i64) {
        self.references.add(CountedRow::Chunk(chunk));
    }

    /// Clears the caches after a rollback, because cached rows may not exist.
    pub(super) fn forget(&mut self) {
        self.chunks.clear();
        self.pieces.clear();
        self.references.clear();
    }

    /// Removes deleted rows from the caches. SQLite may reuse their ids.
    pub(super) fn collected(&mut self, nodes: &[i64], chunks: &[i64]) {
        if !chunks.is_empty() {
            let chunks: HashSet<_> = chunks.iter().collect();
            self.chunks.retain(|_, id| !chunks.contains(id));
        }
        if !nodes.is_empty() {
            let nodes: HashSet<_> = nodes.iter().collect();
            self.pieces.retain(|_, piece| !nodes.contains(&piece.node));
        }
    }

    /// Writes the reference counts. Called at the end of a transaction.
    pub(super) fn settle(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.references.write(conn)
    }

    /// Stores a body as one chunk and adds one reference to it. Returns 0 if the body is empty.
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
        // Looked up before redaction, which is the expensive part, so a repeated message costs one hash.
        let raw = keyed_hash::hash(text);
        if let Some(id) = self.chunks.get(&raw) {
            return Ok(*id);
        }
        let clean = match kind {
            TextKind::Json => self.redactor.json(text),
            TextKind::Stream => self.redactor.stream(text),
            // Searched in both ways, because a credential may be plain text or split over pieces.
            TextKind::Unknown => match self.redactor.stream(text) {
                Cow::Borrowed(text) => self.redactor.raw(text),
                Cow::Owned(clean) => Cow::Owned(self.redactor.raw(&clean).into_owned()),
            },
        };
        let clean = match clean {
            Cow::Borrowed(_) => text.clone(),
            Cow::Owned(clean) => clean.into(),
        };
        let id = self.write(conn, &clean, seen, short)?;
        self.chunks.insert(raw, id);
        Ok(id)
    }

    fn write(
        &mut self,
        conn: &Connection,
        clean: &Bytes,
        seen: FirstSeen,
        short: impl FnOnce(&Bytes) -> Option<MessageText>,
    ) -> rusqlite::Result<i64> {
        // The cache does not outlive the process, and two chunks may be equal once redacted.
        let hash = content_hash(clean);
        let sql = "SELECT id FROM pieces WHERE hash = ?1";
        if let Some(id) = first(conn, sql, [&hash], |row| row.get(0))? {
            return Ok(id);
        }
        let packed = self.packer.pack(clean);
        let packed = packed.filter(|packed| packed.len() < clean.len());
        let short = short(clean);
        let short = short.as_ref();
        let sql = "INSERT INTO pieces (hash, refs, size, packed, exchange, side, role, kind, line, body)
             VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let values = params![
            hash,
            clean.len(),
            packed.is_some(),
            seen.exchange,
            seen.side,
            short.map(|s| s.role),
            short.map(|s| s.kind),
            short.map(|s| s.line.as_str()),
            packed.as_deref().unwrap_or(clean),
        ];
        run(conn, sql, values)?;
        let id = conn.last_insert_rowid();
        self.fresh += CHUNK_OVERHEAD_BYTES + packed.as_deref().map_or(clean.len(), <[u8]>::len);
        self.references.made(CountedRow::Chunk(id));
        Ok(id)
    }

    /// Appends a piece to the chain that ends with the node `parent`. `hash` is that of the gap before the
    /// chunk and of the chunk's text. `chunk` stores the chunk.
    pub(super) fn append(
        &mut self,
        conn: &Connection,
        parent: i64,
        (hash, gap): (KeyedHash, &[u8]),
        chunk: impl FnOnce(&mut Self) -> rusqlite::Result<i64>,
    ) -> rusqlite::Result<StoredPiece> {
        let key = (parent, hash);
        if let Some(known) = self.pieces.get(&key) {
            return Ok(*known);
        }
        let chunk = chunk(self)?;
        let node = self.node(conn, parent, chunk, &String::from_utf8_lossy(gap))?;
        let piece = StoredPiece { hash, chunk, node };
        self.pieces.insert(key, piece);
        Ok(piece)
    }

    pub(super) fn node(
        &mut self,
        conn: &Connection,
        parent: i64,
        chunk: i64,
        gap: &str,
    ) -> rusqlite::Result<i64> {
        // The node may exist even if it is not cached.
        let sql = "INSERT OR IGNORE INTO nodes (parent, piece, gap, refs) VALUES (?1, ?2, ?3, 1)";
        let made = run(conn, sql, params![parent, chunk, gap])?;
        if made == 0 {
            let sql = "SELECT id FROM nodes WHERE parent = ?1 AND piece = ?2 AND gap = ?3";
            let mut ask = conn.prepare_cached(sql)?;
            return ask.query_row(params![parent, chunk, gap], |row| row.get(0));
        }
        let id = conn.last_insert_rowid();
        self.references.made(CountedRow::Node(id));
        // A node keeps its chunk and its parent alive.
        self.references.add(CountedRow::Chunk(chunk));
        self.references.add(CountedRow::Node(parent));
        Ok(id)
    }
}

/// Bytes of a chunk's hash: 128 bits of SHA-256, enough that two chunks never collide by chance.
const HASH_BYTES: usize = 16;

/// Minimum size for compression. Smaller chunks gain nothing.
const MIN_PACKED_BYTES: usize = 96;

/// zstd's default level. Higher ones take ten times as long for another few percent.
const LEVEL: i32 = 3;

pub(super) type ChunkHash = [u8; HASH_BYTES];

/// Compresses chunks, reusing one compression context.
pub(super) struct Packer(Option<zstd::bulk::Compressor<'static>>);

impl Packer {
    pub(super) fn new() -> Self {
        Self(zstd::bulk::Compressor::new(LEVEL).ok())
    }

    /// Compresses a chunk. Returns `None` if it is too short to try, or if compression fails.
    pub(super) fn pack(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let packer = self.0.as_mut().filter(|_| text.len() >= MIN_PACKED_BYTES)?;
        packer.compress(text).ok()
    }
}

/// Returns the hash that identifies equal chunks in the file.
pub(super) fn content_hash(text: &[u8]) -> ChunkHash {
    let mut short = [0; HASH_BYTES];
    short.copy_from_slice(&Sha256::digest(text)[..HASH_BYTES]);
    short
}

/// Returns the text of a stored chunk.
pub(super) fn unpack(body: Vec<u8>, packed: bool, size: usize) -> Vec<u8> {
    match packed {
        true => zstd::bulk::decompress(&body, size).unwrap_or_default(),
        false => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::schema;

    const SEEN: FirstSeen = FirstSeen {
        exchange: 1,
        side: "received",
    };

    struct Fixture {
        store: ChunkStore,
        conn: Connection,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self {
                store: ChunkStore::new(Redactor::new(&[]), 1 << 20),
                conn: schema::make(dir.path()).unwrap(),
                _dir: dir,
            }
        }

        fn chunk(&mut self, text: &str) -> i64 {
            let text = Bytes::copy_from_slice(text.as_bytes());
            self.store
                .chunk(&self.conn, &text, TextKind::Unknown, SEEN, |_| None)
                .unwrap()
        }

        fn node(&mut self, parent: i64, chunk: i64) -> i64 {
            let hash = keyed_hash::hash(&chunk.to_le_bytes());
            let piece = self.store.append(&self.conn, parent, (hash, b""), |_| Ok(chunk));
            piece.unwrap().node
        }

        fn exists(&self, table: &str, id: i64) -> bool {
            let count = format!("SELECT COUNT(*) FROM {table} WHERE id = ?1");
            self.conn
                .query_row(&count, [id], |row| row.get::<_, i64>(0))
                .unwrap()
                == 1
        }

        /// Deletes rows like retention does.
        fn delete(&mut self, nodes: &[i64], chunks: &[i64]) {
            for (table, ids) in [("nodes", nodes), ("pieces", chunks)] {
                for id in ids {
                    self.conn
                        .execute(&format!("DELETE FROM {table} WHERE id = ?1"), [id])
                        .unwrap();
                }
            }
            self.store.collected(nodes, chunks);
        }
    }

    #[test]
    fn the_framing_decides_how_a_body_is_searched() {
        for (body, kind) in [
            (r#" {"a":1} "#, TextKind::Json),
            ("{\"a\":1}\n{\"a\":2}\n", TextKind::Stream),
            (r#"{"a":"#, TextKind::Stream),
            (r#"[{"a":1},{"a":2}]"#, TextKind::Stream),
            ("data: {}\n\n", TextKind::Stream),
            ("\u{feff}{\"a\":1}", TextKind::Json),
            ("\u{feff}\n[{\"a\":1}]", TextKind::Stream),
            ("\u{feff}data: {}\n\n", TextKind::Stream),
            ("<html>", TextKind::Unknown),
        ] {
            assert_eq!(TextKind::from_bytes(body.as_bytes()), kind, "{body}");
        }
    }

    /// Stores a body as the journal stores a response, and returns the result.
    fn stored(body: &str) -> String {
        let mut fixture = Fixture::new();
        let body = Bytes::copy_from_slice(body.as_bytes());
        let kind = TextKind::from_bytes(&body);
        let id = fixture.store.blob(&fixture.conn, &body, kind, SEEN).unwrap();
        let row = "SELECT body, packed, size FROM pieces WHERE id = ?1";
        let (body, packed, size) = fixture
            .conn
            .query_row(row, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        String::from_utf8(unpack(body, packed, size)).unwrap()
    }

    #[test]
    fn a_credential_in_pieces_is_found_in_every_framing() {
        let secret = format!("{}{}", "ghp", "_q7Rt2LmX9vB4nK8sW3zYc5Hd6Jf1Gp0TaEuR");
        let pieces = secret.as_bytes().chunks(3).map(|piece| {
            let piece = std::str::from_utf8(piece).unwrap();
            serde_json::json!({"message": {"content": piece}}).to_string()
        });
        let pieces: Vec<String> = pieces.collect();
        for [front, before, between, after] in [
            ["", "", "\n", "\n"],
            ["", "[", ",\r\n", "]"],
            ["", "data: ", "\n\ndata: ", "\n\n"],
            ["\u{feff}", "", "\n", "\n"],
            ["\u{feff}", "data: ", "\n\ndata: ", "\n\n"],
            [" \r\n", "[", ",\r\n", "]"],
            [")]}'\n", "[", ",\n", "]"],
            ["x-first: 1\n", "data: ", "\n\ndata: ", "\n\n"],
            ["\u{1e}", "", "\n\u{1e}", "\n"],
        ] {
            let body = [front, before, &pieces.join(between), after].concat();
            // Complete, and broken off in the middle of the last piece.
            for end in [body.len(), body.len() - after.len() - 4] {
                let clean = stored(&body[..end]);
                let left = clean.split(between).filter_map(|piece| {
                    let text = piece.split("\"content\":\"").nth(1)?;
                    text.split('"').next()
                });
                let left: String = left.collect();
                assert!(!left.contains(&secret[10..20]), "{front:?} {before:?}: {clean}");
                assert!(left.contains("[redacted:"), "{front:?} {before:?}: {clean}");
            }
        }
        let page = format!("<pre title=\"a\">\npassword = \"{}\"\n</pre>", &secret[4..20]);
        assert!(!stored(&page).contains(&secret[4..20]), "{}", stored(&page));
        let line = format!("{}\n", serde_json::json!({"message": {"content": secret}}));
        assert!(!stored(&line).contains(&secret), "{}", stored(&line));
    }

    #[test]
    fn a_deleted_row_is_written_again() {
        let mut fixture = Fixture::new();
        let (gone, kept) = (fixture.chunk("gone"), fixture.chunk("kept"));
        let (gone_node, kept_node) = (fixture.node(0, gone), fixture.node(0, kept));
        fixture.delete(&[gone_node], &[gone]);
        let again = fixture.chunk("gone");
        let node = fixture.node(0, again);
        assert!(fixture.exists("pieces", again) && fixture.exists("nodes", node));
        assert_eq!(fixture.chunk("gone"), again);
        assert_eq!((fixture.chunk("kept"), fixture.node(0, kept)), (kept, kept_node));
    }

    #[test]
    fn an_id_that_is_used_again_is_not_taken_for_the_deleted_row() {
        let mut fixture = Fixture::new();
        let (first, last) = (fixture.chunk("first"), fixture.chunk("last"));
        let (_, node) = (fixture.node(0, first), fixture.node(0, last));
        fixture.delete(&[node], &[last]);
        let other = fixture.chunk("other");
        assert_eq!(other, last, "SQLite uses the largest id again");
        assert_eq!(fixture.node(0, other), node);
        let again = fixture.chunk("last");
        assert_ne!(again, other);
        assert_ne!(fixture.node(0, again), node);
        assert_eq!(fixture.chunk("other"), other);
    }
}
