//! Stores bodies as chains of chunks.
//!
//! The next request of a conversation repeats nearly all of the one before. A body is therefore hashed once, with a
//! fast hash. One lookup finds all leading messages that an earlier body had, without examining each. The same holds
//! for what is before and after the messages. Only new text is read again.

use bytes::Bytes;
use rusqlite::Connection;

use super::chunk_store::{ChunkStore, FirstSeen, TextKind};
use super::chunks::{self, BodyRegions, MessageChunks};
use super::keyed_hash::KeyedHash;
use super::known_beginnings::KnownBeginning;
use super::note::BodyLayout;
use super::references::CountedRow;
use super::summary::summary;
use baton_core::record::WireId;
use baton_core::text::Span;
use baton_core::text::splice;
use baton_core::wire::Turn;

/// The chain is cached at these messages, counted from the last one. The next request mostly changes the last few (cache
/// breakpoints move) and adds some; the distant ones are for an agent that rewinds.
const LANDMARKS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128];

/// Start values of the hash chains, so that chains of messages and of other regions never collide.
const MESSAGES: KeyedHash = 1;
pub(super) const HEAD: KeyedHash = 2;
pub(super) const TAIL: KeyedHash = 3;
const SPLICED: KeyedHash = 4;

/// A text in a recipe that has a hash of its own.
const TEXT: KeyedHash = 9;

/// The last node of each of a body's three rows; 0 is an empty row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BodyNodes {
    pub(super) head: i64,
    pub(super) list: i64,
    pub(super) tail: i64,
    pub(super) messages: i64,
}

/// A stored body. A leg's request often consists of slices of it.
pub(super) struct WrittenBody {
    pub(super) body: BodyNodes,
    /// Its messages; none where it is stored as one region.
    pub(super) turns: Vec<Turn>,
    pub(super) text: Bytes,
    pub(super) messages: Span,
    pub(super) chain: ListChain,
    pub(super) head: KeyedHash,
    pub(super) tail: KeyedHash,
}

impl ChunkStore {
    /// Stores a request body and adds one reference to it. Without located messages it becomes one region. What the hashes of
    /// its beginnings show to be known is not read again.
    pub(super) fn body(
        &mut self,
        conn: &Connection,
        text: &Bytes,
        read: Option<(WireId, BodyLayout)>,
        beginnings: &[KeyedHash],
        seen: FirstSeen,
    ) -> rusqlite::Result<WrittenBody> {
        let known = read.as_ref().and_then(|(wire, transcript)| {
            self.beginnings
                .find(beginnings, (*wire, transcript), &self.deleted)
        });
        let regions = match &read {
            Some((_, transcript)) => {
                let known = known.map_or(0, |known| known.messages.0);
                BodyRegions::of(text, transcript.list, &transcript.turns, known)
            }
            None => BodyRegions::whole(text.len()),
        };
        // What follows may make one region of the whole body.
        let known = known.filter(|known| known.head.0 == regions.head.end);
        let head = match known {
            Some(known) => known.head.1,
            None => self.key.chain(HEAD, self.fast(regions.head.of(text))),
        };
        let tail = self.key.chain(TAIL, self.fast(regions.tail.of(text)));
        let head_node = match known {
            Some(known) => known.head.2,
            None => self.region(conn, chunks::head, head, || slice(text, regions.head), seen)?,
        };
        let head = (regions.head.end, head, head_node);
        let messages = MessageChunks::of(text, &regions);
        let list = self.list(conn, messages, known, seen)?;
        if let Some((wire, _)) = &read {
            let (known, nodes) = &list.nodes;
            self.beginnings.remember(
                (*wire, beginnings),
                head,
                messages,
                (*known, nodes),
                &self.deleted,
            );
        }
        let body = BodyNodes {
            head: head_node,
            list: list.node,
            tail: self.region(conn, chunks::tail, tail, || slice(text, regions.tail), seen)?,
            messages: i64::try_from(messages.len()).unwrap_or(i64::MAX),
        };
        self.point_body(body);
        let (messages, is_known) = (regions.messages(), !regions.turns.is_empty());
        let turns = read.filter(|_| is_known).map(|(_, transcript)| transcript.turns);
        Ok(WrittenBody {
            body,
            turns: turns.unwrap_or_default(),
            text: text.clone(),
            messages,
            chain: list.chain,
            head: head.1,
            tail,
        })
    }

    /// Stores a rope with a slice that has all the messages of a stored body, without reading these again, and adds one
    /// reference to it. `None` where no slice has them, or where the rope has further messages.
    pub(super) fn spliced(
        &mut self,
        conn: &Connection,
        from: &WrittenBody,
        rope: &[Bytes],
        seen: FirstSeen,
    ) -> rusqlite::Result<Option<BodyNodes>> {
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
        let body = BodyNodes {
            head: self.spliced_region(conn, from, (HEAD, from.head, from.body.head), head, seen)?,
            tail: self.spliced_region(conn, from, (TAIL, from.tail, from.body.tail), tail, seen)?,
            ..from.body
        };
        self.point_body(body);
        Ok(Some(body))
    }

    /// Stores a region that consists of slices of a stored body and of new text. A region that was assembled the same way
    /// before is found by the hash of its assembly.
    fn spliced_region(
        &mut self,
        conn: &Connection,
        from: &WrittenBody,
        (kind, hash, node): (KeyedHash, KeyedHash, i64),
        mut parts: Vec<Bytes>,
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        parts.retain(|part| !part.is_empty());
        let (region, cut): (_, fn(&[u8]) -> _) = match kind {
            HEAD => (Span::new(0, from.messages.start), chunks::head),
            _ => (Span::new(from.messages.end, from.text.len()), chunks::tail),
        };
        if let [only] = &parts[..]
            && within(&from.text, only) == Some(region)
        {
            return Ok(node);
        }
        let recipe = self.recipe(self.key.chain(SPLICED, hash), from, &[kind], &parts);
        if let Some(node) = self.known_row(&recipe) {
            return Ok(node);
        }
        let text = splice::flat(parts);
        let whole = self.key.chain(kind, self.fast(&text));
        let node = self.region(conn, cut, whole, || text.clone(), seen)?;
        self.remember_row(recipe, node);
        Ok(node)
    }

    /// A hash of how a text was assembled: the same only for the same text. Text of a stored body's `known` regions
    /// enters by place and length, since `recipe` has these regions' hashes already; other text enters by its own hash.
    pub(super) fn recipe(
        &self,
        mut recipe: KeyedHash,
        from: &WrittenBody,
        known: &[KeyedHash],
        parts: &[Bytes],
    ) -> KeyedHash {
        let regions = [
            (HEAD, Span::new(0, from.messages.start)),
            (MESSAGES, from.messages),
            (TAIL, Span::new(from.messages.end, from.text.len())),
        ];
        for part in parts {
            let Some(span) = within(&from.text, part) else {
                recipe = self.step(recipe, TEXT, self.fast(part));
                continue;
            };
            for (kind, region) in regions {
                let shared = Span::new(span.start.max(region.start), span.end.min(region.end));
                if shared.start >= shared.end {
                    continue;
                }
                recipe = if known.contains(&kind) {
                    let offset = shared.start - region.start;
                    self.step(
                        recipe,
                        kind,
                        (offset as KeyedHash) << 64 | shared.len() as KeyedHash,
                    )
                } else {
                    self.step(recipe, TEXT, self.fast(shared.of(&from.text)))
                };
            }
        }
        recipe
    }

    /// One step of a recipe. It has a kind, so that no value is taken for one of another kind.
    pub(super) fn step(&self, recipe: KeyedHash, kind: KeyedHash, value: KeyedHash) -> KeyedHash {
        self.key.chain(recipe, self.key.chain(kind, value))
    }

    /// Stores the region before or after the messages; only a new one is cut into chunks.
    pub(super) fn region(
        &mut self,
        conn: &Connection,
        cut: fn(&[u8]) -> Vec<Span>,
        hash: KeyedHash,
        text: impl FnOnce() -> Bytes,
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        if let Some(node) = self.known_row(&hash) {
            return Ok(node);
        }
        let text = text();
        let mut last = 0;
        for span in cut(&text) {
            let chunk = self.chunk(conn, &slice(&text, span), TextKind::Json, seen, |_| None)?;
            last = self.node(conn, last, chunk, "")?;
        }
        self.remember_row(hash, last);
        Ok(last)
    }

    /// Stores the messages of a text.
    pub(super) fn list(
        &mut self,
        conn: &Connection,
        messages: MessageChunks<'_>,
        begun: Option<KnownBeginning>,
        seen: FirstSeen,
    ) -> rusqlite::Result<StoredList> {
        let begun = begun.map_or((0, (MESSAGES, 0)), |known| (known.messages.0, known.list));
        let (first, (mut hash, _)) = begun;
        let mut hashes = Vec::with_capacity(messages.len() - first);
        for message in (first..messages.len()).map(|i| messages.with_gap(i)) {
            hash = self.key.chain(hash, self.fast(message.of(messages.text)));
            hashes.push(hash);
            self.slice.step(message.len());
        }
        // The number of known messages, their hash chain and their last node.
        let found = hashes.iter().enumerate().rev();
        let found = found
            .into_iter()
            .find_map(|(i, hash)| Some((first + i + 1, (*hash, self.known_row(hash)?))));
        let (known, last) = found.unwrap_or(begun);
        let mut chain = Vec::with_capacity(messages.len() - known + 1);
        chain.push(last);
        let (_, mut node) = last;
        for i in known..messages.len() {
            node = self.message(conn, node, (messages, i), seen)?;
            chain.push((hashes[i - first], node));
            self.landmark((messages, i), hashes[i - first], node);
        }
        let begun = (first, begun.1.0);
        Ok(StoredList {
            node,
            hash,
            chain: ListChain { begun, hashes },
            nodes: (known, chain),
        })
    }

    /// Stores one message after the node `last`; returns its node.
    pub(super) fn message(
        &mut self,
        conn: &Connection,
        last: i64,
        (messages, i): (MessageChunks<'_>, usize),
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        let (gap, span) = (messages.gap(i), messages.span(i));
        let text = slice(messages.text, span);
        let chunk = self.chunk(conn, &text, TextKind::Json, seen, |clean| {
            Some(summary(clean, messages.role(i)))
        })?;
        let gap = String::from_utf8_lossy(gap.of(messages.text));
        let node = self.node(conn, last, chunk, &gap)?;
        self.slice.step(span.len());
        Ok(node)
    }

    /// Caches the node of a message by the hash of all up to it, if it is one of the landmarks.
    pub(super) fn landmark(&mut self, (messages, i): (MessageChunks<'_>, usize), hash: KeyedHash, node: i64) {
        if LANDMARKS.contains(&(messages.len() - 1 - i)) {
            self.remember_row(hash, node);
        }
    }

    pub(super) fn point_body(&mut self, body: BodyNodes) {
        for node in [body.head, body.list, body.tail] {
            self.references.add(CountedRow::Node(node));
        }
    }
}

impl WrittenBody {
    /// Its messages, where they are known.
    pub(super) fn messages(&self) -> MessageChunks<'_> {
        MessageChunks::at(&self.text, self.messages.start, &self.turns)
    }
}

/// A stored list of messages.
pub(super) struct StoredList {
    /// The node of the last one.
    pub(super) node: i64,
    /// The hash chain of all of them.
    pub(super) hash: KeyedHash,
    pub(super) chain: ListChain,
    /// The number of messages that were known, and the hash chain and the node there and after each further message.
    nodes: (usize, Vec<(KeyedHash, i64)>),
}

/// The hash chain of a body's messages, as far as it was computed.
pub(super) struct ListChain {
    /// How many messages its known beginning has, and the chain's hash up to there.
    begun: (usize, KeyedHash),
    /// The chain's hash up to each message after them.
    hashes: Vec<KeyedHash>,
}

impl ListChain {
    /// The hash of the first `n` messages; `None` where they are in the middle of a known beginning.
    pub(super) fn of_first(&self, n: usize) -> Option<KeyedHash> {
        match n.checked_sub(self.begun.0)? {
            0 => Some(self.begun.1),
            index => self.hashes.get(index - 1).copied(),
        }
    }
}

/// The span of `slice` in `text`, if it shares the text's memory.
pub(super) fn within(text: &Bytes, slice: &Bytes) -> Option<Span> {
    let start = (slice.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + slice.len();
    (end <= text.len()).then(|| Span::new(start, end))
}

pub(super) fn slice(text: &Bytes, span: Span) -> Bytes {
    text.slice(span.start..span.end)
}

/// Whether the list opens at the end of `head` and closes at the start of `tail`: otherwise further messages were
/// inserted there (the request is repeated).
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
        assert!(!alone(&["{\"messages\":["], &["", ",{}", "]}"]), "more after it");
        assert!(!alone(&["{\"messages\":[", "{},"], &["]}"]), "more before");
        assert!(!alone(&[], &[]));
    }
}
