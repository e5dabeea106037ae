//! Pieces and chains: what is there already is found, what is new is redacted, packed and written once.
//!
//! A conversation's next request repeats nearly all of the one before. So bodies are hashed once, fast, and as a
//! whole: the messages from the first to the last one that an earlier body had are found by one look-up, without
//! a look at the single ones, and so are head and tail. Only what is new is read.

use std::collections::HashMap;

use bytes::Bytes;
use quick_cache::unsync::Cache;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::fast::{BLOCK, Fast, Key};
use super::pieces::{self, Regions};
use super::summary::{Summary, summary};
use super::time_slice::TimeSlice;
use crate::redact::Redactor;
use crate::text::Span;
use crate::text::splice;
use crate::wire::{Role, Turn};

/// Bytes of a piece's hash: 128 bits of SHA-256, so that two pieces never meet by chance.
const HASH: usize = 16;

/// Pieces, nodes and rows remembered in memory, each some 50 bytes: thousands of conversations.
const REMEMBERED: usize = 64 * 1024;

/// Bytes that are hashed in one step.
const HASHED: usize = 64 << 10;

/// Under this size nothing is won by packing.
const PACKED_FROM: usize = 96;

/// What a piece takes beside its text, about: its row, its hash's place in the index, its node.
const ENTRY: usize = 300;

/// zstd's own default: a tenth of the time of what would save another few percent.
const LEVEL: i32 = 3;

/// Messages counted from the last one, behind each of which the row is remembered. The next request mostly changes the last
/// few (breakpoints of caches move) and adds some; the far ones are for who goes back.
const LANDMARKS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128];

/// Beginnings of bodies that are remembered, each some 150 bytes: a conversation of 1 MB has 32.
const BEGINNINGS: usize = 8 * 1024;

/// Where a chain of hashes begins, so that rows of messages and regions never meet.
const MESSAGES: Fast = 1;
const HEAD: Fast = 2;
const TAIL: Fast = 3;
const SPLICED: Fast = 4;

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

/// Where the messages of a body are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) list: Span,
    pub(super) turns: &'a [Turn],
}

/// A body that was written, and may be sent on with little changed.
pub(super) struct Written {
    pub(super) body: Body,
    text: Bytes,
    messages: Span,
    head: Fast,
    tail: Fast,
}

/// Where what stands before the messages ends, its hash and its last node.
type Head = (usize, Fast, i64);

/// What is known of a body that begins with certain bytes.
#[derive(Debug, Clone, Copy)]
struct Known {
    head: Head,
    /// How many messages are whole, and where the last one ends.
    messages: (usize, usize),
    /// The chain of their hashes, and their last node.
    list: (Fast, i64),
}

/// What can be pointed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum To {
    Node(i64),
    Piece(i64),
}

/// Finds and writes pieces.
pub(super) struct Pool {
    pub(super) redactor: Redactor,
    key: Key,
    /// Piece by the hash of what came, before anything was taken out of it.
    known: Cache<Fast, i64>,
    /// Node by the one before it and its piece.
    next: Cache<(i64, i64), i64>,
    /// The last node of a row by the hash of what stands in it.
    rows: Cache<Fast, i64>,
    /// By the hash of a beginning, a number of whole blocks.
    beginnings: Cache<Fast, Known>,
    /// Pointers that came and are not written down yet. What is new is written as pointed to once.
    pointed: HashMap<To, i64>,
    packer: Option<zstd::bulk::Compressor<'static>>,
    /// Bytes of texts that were written since somebody asked.
    fresh: usize,
    pub(super) slice: TimeSlice,
}

impl Pool {
    pub(super) fn new(redactor: Redactor, key: Key) -> Self {
        Self {
            redactor,
            key,
            known: Cache::new(REMEMBERED),
            next: Cache::new(REMEMBERED),
            rows: Cache::new(REMEMBERED),
            beginnings: Cache::new(BEGINNINGS),
            pointed: HashMap::new(),
            packer: zstd::bulk::Compressor::new(LEVEL).ok(),
            fresh: 0,
            slice: TimeSlice::new(),
        }
    }

    /// Bytes of texts that were written since this was asked last.
    pub(super) fn take_fresh(&mut self) -> usize {
        std::mem::take(&mut self.fresh)
    }

    /// A text's hash in this process.
    pub(super) fn fast(&self, text: &[u8]) -> Fast {
        self.key.hash(text)
    }

    /// Points to a piece once more.
    pub(super) fn point_to(&mut self, piece: i64) {
        self.point(To::Piece(piece));
    }

    /// A transaction was lost: what is remembered may not be there.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.next.clear();
        self.rows.clear();
        self.beginnings.clear();
        self.pointed.clear();
    }

    /// These were collected; their ids may come again for something else.
    pub(super) fn collected(&mut self, nodes: &[i64], pieces: &[i64]) {
        let (mut nodes, mut pieces) = (nodes.to_vec(), pieces.to_vec());
        nodes.sort_unstable();
        pieces.sort_unstable();
        let there = |all: &[i64], id: &i64| all.binary_search(id).is_err();
        self.known.retain(|_, piece| there(&pieces, piece));
        self.next.retain(|(parent, piece), id| {
            there(&nodes, parent) && there(&nodes, id) && there(&pieces, piece)
        });
        self.rows.retain(|_, id| there(&nodes, id));
        self.beginnings
            .retain(|_, known| there(&nodes, &known.head.2) && there(&nodes, &known.list.1));
    }

    /// Writes down who points to what: for the end of a transaction.
    pub(super) fn settle(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut nodes = conn.prepare_cached("UPDATE nodes SET refs = refs + ?2 WHERE id = ?1")?;
        let mut pieces = conn.prepare_cached("UPDATE pieces SET refs = refs + ?2 WHERE id = ?1")?;
        for (to, more) in self.pointed.drain().filter(|(_, more)| *more != 0) {
            match to {
                To::Node(id) => nodes.execute([id, more])?,
                To::Piece(id) => pieces.execute([id, more])?,
            };
        }
        Ok(())
    }

    /// Writes a request body, and points to it once. Without a list it is one piece. What it has in common with an earlier
    /// one by the hashes of its beginnings is not read again.
    pub(super) fn body(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        listed: Option<Listed<'_>>,
        beginnings: &[Fast],
        seen: Seen,
    ) -> rusqlite::Result<Written> {
        let regions = match listed {
            Some(listed) => Regions::of(text, listed.list, listed.turns),
            None => Regions::whole(text.len()),
        };
        let known = self.known_beginning(beginnings, &regions);
        let head = match known {
            Some(known) => known.head.1,
            None => self.key.chain(HEAD, self.key.hash(regions.head.of(text))),
        };
        let tail = self.key.chain(TAIL, self.key.hash(regions.tail.of(text)));
        let turns = listed.map_or(&[][..], |listed| listed.turns);
        let head_node = match known {
            Some(known) => known.head.2,
            None => self.region(conn, pieces::head, head, || slice(text, regions.head), seen)?,
        };
        let head = (regions.head.end, head, head_node);
        let body = Body {
            head: head_node,
            list: self.list(
                conn,
                text,
                (&regions.list, turns),
                (beginnings, known, head),
                seen,
            )?,
            tail: self.region(conn, pieces::tail, tail, || slice(text, regions.tail), seen)?,
            messages: i64::try_from(regions.list.len()).unwrap_or(i64::MAX),
        };
        self.point_body(body);
        Ok(Written {
            body,
            text: text.clone(),
            messages: regions.messages(),
            head: head.1,
            tail,
        })
    }

    /// What is known of the longest beginning that an earlier body had.
    fn known_beginning(&self, beginnings: &[Fast], regions: &Regions) -> Option<Known> {
        let mut longest = beginnings.iter().rev();
        let known = *longest.find_map(|hash| self.beginnings.get(hash))?;
        let (messages, end) = known.messages;
        let last = match messages {
            0 => regions.head.end,
            n => regions.list.get(n - 1)?.1.end,
        };
        // Another wire may have read the same bytes otherwise.
        (regions.head.end == known.head.0 && last == end).then_some(known)
    }

    /// Remembers what is known of a body's beginnings: of messages whose hashes and nodes are given, the first of which
    /// is number `from`.
    fn remember_beginnings(
        &mut self,
        beginnings: &[Fast],
        head: Head,
        list: &[(Span, Span)],
        (from, chain): (usize, &[(Fast, i64)]),
    ) {
        for (n, hash) in beginnings.iter().enumerate() {
            let end = (n + 1) * BLOCK;
            let whole = list.partition_point(|(_, span)| span.end <= end);
            let Some(last) = whole.checked_sub(from).and_then(|at| chain.get(at)) else {
                continue;
            };
            if head.0 > end || self.beginnings.get(hash).is_some() {
                continue;
            }
            let at = whole.checked_sub(1).map_or(head.0, |last| list[last].1.end);
            let known = Known {
                head,
                messages: (whole, at),
                list: *last,
            };
            self.beginnings.insert(*hash, known);
        }
    }

    /// Writes a rope that has all the messages of a body in one slice, and points to it once, without looking at them again;
    /// `None` where it has not, or has others beside them.
    pub(super) fn spliced(
        &mut self,
        conn: &Connection,
        from: &Written,
        rope: &[Bytes],
        seen: Seen,
    ) -> rusqlite::Result<Option<Body>> {
        let text = &from.text;
        let messages = from.messages;
        let found = rope.iter().enumerate().find_map(|(i, slice)| {
            let span = within(text, slice)?;
            (span.start <= messages.start && messages.end <= span.end).then_some((i, span))
        });
        let Some((i, span)) = found else { return Ok(None) };
        let mut head = rope[..i].to_vec();
        head.push(text.slice(span.start..messages.start));
        let mut tail = vec![text.slice(messages.end..span.end)];
        tail.extend_from_slice(&rope[i + 1..]);
        if !alone(&head, &tail) {
            return Ok(None);
        }
        let body = Body {
            head: self.spliced_region(conn, from, (HEAD, from.head, from.body.head), head, seen)?,
            tail: self.spliced_region(conn, from, (TAIL, from.tail, from.body.tail), tail, seen)?,
            ..from.body
        };
        self.point_body(body);
        Ok(Some(body))
    }

    /// A region that is made of slices of a body's and of new text. The recipe finds it, where it was made before.
    fn spliced_region(
        &mut self,
        conn: &Connection,
        from: &Written,
        (kind, hash, node): (Fast, Fast, i64),
        mut parts: Vec<Bytes>,
        seen: Seen,
    ) -> rusqlite::Result<i64> {
        parts.retain(|part| !part.is_empty());
        let (region, cut): (_, fn(&[u8]) -> _) = match kind {
            HEAD => (Span::new(0, from.messages.start), pieces::head),
            _ => (Span::new(from.messages.end, from.text.len()), pieces::tail),
        };
        if let [only] = &parts[..]
            && within(&from.text, only) == Some(region)
        {
            return Ok(node);
        }
        let mut recipe = self.key.chain(SPLICED, hash);
        for part in &parts {
            let step = match within(&from.text, part) {
                // What the region's hash stands for need not be read again.
                Some(span) if region.start <= span.start && span.end <= region.end => {
                    ((span.start - region.start) as Fast) << 64 | span.len() as Fast
                }
                _ => self.key.hash(part),
            };
            recipe = self.key.chain(recipe, step);
        }
        if let Some(node) = self.rows.get(&recipe) {
            return Ok(*node);
        }
        let text = splice::flat(parts);
        let whole = self.key.chain(kind, self.key.hash(&text));
        let node = self.region(conn, cut, whole, || text.clone(), seen)?;
        self.rows.insert(recipe, node);
        Ok(node)
    }

    /// What stands before or behind the messages, cut into pieces where it is new.
    fn region(
        &mut self,
        conn: &Connection,
        cut: fn(&[u8]) -> Vec<Span>,
        hash: Fast,
        text: impl FnOnce() -> Bytes,
        seen: Seen,
    ) -> rusqlite::Result<i64> {
        if let Some(node) = self.rows.get(&hash) {
            return Ok(*node);
        }
        let text = text();
        let mut last = 0;
        for span in cut(&text) {
            let piece = self.piece(conn, &slice(&text, span), Text::Json, seen, |_| None)?;
            last = self.node(conn, last, piece, "")?;
        }
        self.rows.insert(hash, last);
        Ok(last)
    }

    /// Writes the messages; returns the last one's node.
    fn list(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        (list, turns): (&[(Span, Span)], &[Turn]),
        (beginnings, begun, head): (&[Fast], Option<Known>, Head),
        seen: Seen,
    ) -> rusqlite::Result<i64> {
        let begun = begun.map_or((0, (MESSAGES, 0)), |known| (known.messages.0, known.list));
        let (first, (mut hash, _)) = begun;
        let mut hashes = Vec::with_capacity(list.len() - first);
        for (gap, span) in &list[first..] {
            let message = Span::new(gap.start, span.end);
            hash = self.key.chain(hash, self.key.hash(message.of(text)));
            hashes.push(hash);
            self.slice.step(message.len());
        }
        // How many messages are known, with the chain of their hashes and their last node.
        let found = hashes.iter().enumerate().rev();
        let found = found
            .into_iter()
            .find_map(|(i, hash)| Some((first + i + 1, (*hash, *self.rows.get(hash)?))));
        let (known, last) = found.unwrap_or(begun);
        let mut chain = Vec::with_capacity(list.len() - known + 1);
        chain.push(last);
        let (_, mut node) = last;
        for (i, (gap, span)) in list.iter().enumerate().skip(known) {
            let role = turns.get(i).map_or(Role::Other, |turn| turn.role);
            let piece = self.piece(conn, &slice(text, *span), Text::Json, seen, |clean| {
                Some(summary(clean, role))
            })?;
            let gap = String::from_utf8_lossy(gap.of(text));
            node = self.node(conn, node, piece, &gap)?;
            chain.push((hashes[i - first], node));
            self.slice.step(span.len());
            if LANDMARKS.contains(&(list.len() - 1 - i)) {
                self.rows.insert(hashes[i - first], node);
            }
        }
        self.remember_beginnings(beginnings, head, list, (known, &chain));
        Ok(node)
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
        self.point(To::Piece(piece));
        Ok(piece)
    }

    fn piece(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        kind: Text,
        seen: Seen,
        short: impl FnOnce(&Bytes) -> Option<Summary>,
    ) -> rusqlite::Result<i64> {
        let raw = self.key.hash(text);
        if let Some(id) = self.known.get(&raw) {
            return Ok(*id);
        }
        let clean = match kind {
            Text::Json => {
                let slice = &mut self.slice;
                self.redactor.json_in_steps(text, &mut |bytes| slice.step(bytes))
            }
            Text::Stream => self.redactor.stream(text),
            Text::Raw => self.redactor.raw(text),
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
        seen: Seen,
        short: impl FnOnce(&Bytes) -> Option<Summary>,
    ) -> rusqlite::Result<i64> {
        let hash = hash(clean, &mut self.slice);
        let mut find = conn.prepare_cached("SELECT id FROM pieces WHERE hash = ?1")?;
        if let Some(id) = find.query_row([&hash], |row| row.get(0)).optional()? {
            return Ok(id);
        }
        let packed = self.pack(clean).filter(|packed| packed.len() < clean.len());
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
        self.pointed.insert(To::Piece(id), -1);
        Ok(id)
    }

    fn pack(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let packer = self.packer.as_mut().filter(|_| text.len() >= PACKED_FROM)?;
        packer.compress(text).ok()
    }

    fn node(&mut self, conn: &Connection, parent: i64, piece: i64, gap: &str) -> rusqlite::Result<i64> {
        // Agents put the same gap between all messages, so the cache need not know of it.
        let usual = gap.is_empty() == (parent == 0) && gap.len() <= 1;
        if usual && let Some(id) = self.next.get(&(parent, piece)) {
            return Ok(*id);
        }
        let made = conn
            .prepare_cached("INSERT OR IGNORE INTO nodes (parent, piece, gap, refs) VALUES (?1, ?2, ?3, 1)")?
            .execute(params![parent, piece, gap])?;
        let id = if made == 1 {
            let id = conn.last_insert_rowid();
            self.pointed.insert(To::Node(id), -1);
            self.point(To::Piece(piece));
            self.point(To::Node(parent));
            id
        } else {
            conn.prepare_cached("SELECT id FROM nodes WHERE parent = ?1 AND piece = ?2 AND gap = ?3")?
                .query_row(params![parent, piece, gap], |row| row.get(0))?
        };
        if usual {
            self.next.insert((parent, piece), id);
        }
        Ok(id)
    }

    fn point_body(&mut self, body: Body) {
        for node in [body.head, body.list, body.tail] {
            self.point(To::Node(node));
        }
    }

    fn point(&mut self, to: To) {
        // 0 is the row with nothing in it.
        if to != To::Node(0) {
            *self.pointed.entry(to).or_default() += 1;
        }
    }
}

/// Where a slice lies in a text, if it is a slice of it.
fn within(text: &Bytes, slice: &Bytes) -> Option<Span> {
    let start = (slice.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + slice.len();
    (end <= text.len()).then(|| Span::new(start, end))
}

fn slice(text: &Bytes, span: Span) -> Bytes {
    text.slice(span.start..span.end)
}

fn hash(text: &[u8], slice: &mut TimeSlice) -> Hash {
    let mut hasher = Sha256::new();
    for part in text.chunks(HASHED) {
        hasher.update(part);
        slice.step(part.len());
    }
    let mut short = [0; HASH];
    short.copy_from_slice(&hasher.finalize()[..HASH]);
    short
}

/// The text of a stored piece.
pub(super) fn unpack(body: Vec<u8>, packed: bool, size: usize) -> Vec<u8> {
    match packed {
        true => zstd::bulk::decompress(&body, size).unwrap_or_default(),
        false => body,
    }
}
/// Whether the list opens at the end of `head` and closes at the start of `tail`: elements may have been put beside
/// those in between (the model is asked again).
fn alone(head: &[Bytes], tail: &[Bytes]) -> bool {
    let shown = |b: &&u8| !b.is_ascii_whitespace();
    let last = head.iter().rev().flat_map(|part| part.iter().rev()).find(shown);
    let first = tail.iter().flatten().find(shown);
    (last, first) == (Some(&b'['), Some(&b']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_more_in_it_is_another_list() {
        let parts = |all: &[&'static str]| {
            all.iter()
                .map(|p| Bytes::from_static(p.as_bytes()))
                .collect::<Vec<_>>()
        };
        let alone = |head: &[&'static str], tail: &[&'static str]| alone(&parts(head), &parts(tail));
        assert!(alone(&["{\"messages\": [ ", "\n"], &[" ", "]}"]));
        assert!(!alone(&["{\"messages\":["], &["", ",{}", "]}"]), "more behind");
        assert!(!alone(&["{\"messages\":[", "{},"], &["]}"]), "more before");
        assert!(!alone(&[], &[]));
    }
}
