//! Stores cut requests: those that end with the last messages of a stored body and have others in front of them.
//!
//! Everything except the kept messages is short, and the same in each request of a conversation. It is recognised by
//! how it was assembled (its recipe), without being joined or parsed. The kept messages are recognised by the hash
//! chain of their body, which was computed when that body was stored.

use bytes::Bytes;
use rusqlite::Connection;

use super::chunk_bodies::{BodyNodes, HEAD, TAIL, WrittenBody, slice, within};
use super::chunk_store::{ChunkStore, FirstSeen};
use super::chunks::{self, BodyRegions, MessageChunks};
use super::keyed_hash::KeyedHash;
use super::known_cuts::ShortBody;
use baton_core::text::splice;
use baton_core::wire::{Operation, Wire};

/// Start value of the hash chains of recipes.
const CUT: KeyedHash = 6;

/// The marker of the kept messages in a recipe; the hash chains of kept messages start with it as well.
const KEPT: KeyedHash = 7;

/// How a recipe's text is read.
const READ: KeyedHash = 8;

/// A rope that ends with the last messages of a stored body, without them.
struct CutRope {
    /// The texts in front of these messages, and those after them.
    front: Vec<Bytes>,
    after: Vec<Bytes>,
    /// The number of the first message that is kept.
    kept: usize,
}

impl CutRope {
    fn of(from: &WrittenBody, rope: &[Bytes]) -> Option<Self> {
        let found = rope.iter().enumerate().find_map(|(i, slice)| {
            let span = within(&from.text, slice)?;
            (span.start <= from.messages.end && from.messages.end <= span.end).then_some((i, span))
        });
        let (i, span) = found?;
        let messages = from.messages();
        let kept = messages.first_from(span.start);
        let begin = (kept < messages.len()).then(|| messages.gap(kept).start)?;
        let mut front = rope[..i].to_vec();
        front.push(from.text.slice(span.start..begin));
        let mut after = vec![from.text.slice(from.messages.end..span.end)];
        after.extend_from_slice(&rope[i + 1..]);
        Some(Self { front, after, kept })
    }
}

impl ChunkStore {
    /// Stores a rope that ends with the last messages of a stored body after other ones, as a cut transcript does, and
    /// adds one reference to it. `None` for any other rope.
    pub(super) fn cut(
        &mut self,
        conn: &Connection,
        from: &WrittenBody,
        wire: (&dyn Wire, Operation),
        rope: &[Bytes],
        seen: FirstSeen,
    ) -> rusqlite::Result<Option<BodyNodes>> {
        let Some(rope) = CutRope::of(from, rope) else {
            return Ok(None);
        };
        let kept = rope.kept;
        let recipe = self.cut_recipe(from, wire, &rope);
        let short = match self.cuts.get(recipe, &self.deleted) {
            Some(short) => short,
            None => {
                let Some(short) = self.short_body(conn, wire, rope, seen)? else {
                    return Ok(None);
                };
                self.cuts.insert(recipe, short);
                short
            }
        };
        let messages = short.messages + from.turns.len() - kept;
        let body = BodyNodes {
            head: short.head,
            list: self.kept(conn, from, kept, short.list, seen)?,
            tail: short.tail,
            messages: i64::try_from(messages).unwrap_or(i64::MAX),
        };
        self.point_body(body);
        Ok(Some(body))
    }

    /// A hash of all that decides how a rope is stored without the messages that it keeps. Two ropes with the same hash
    /// have the same texts in front of these messages and after them, and are read the same way.
    fn cut_recipe(
        &self,
        from: &WrittenBody,
        (wire, operation): (&dyn Wire, Operation),
        rope: &CutRope,
    ) -> KeyedHash {
        let known = [HEAD, TAIL];
        // What offsets in head and tail refer to, and what separates messages from the rest.
        let recipe = self.step(self.step(CUT, HEAD, from.head), TAIL, from.tail);
        let read = (wire.id() as KeyedHash) << 64 | operation as KeyedHash;
        let recipe = self.recipe(self.step(recipe, READ, read), from, &known, &rope.front);
        self.recipe(self.step(recipe, KEPT, 0), from, &known, &rope.after)
    }

    /// Joins, reads and stores a rope without the messages that it keeps; `None` where these do not follow the others
    /// without a gap of their own.
    fn short_body(
        &mut self,
        conn: &Connection,
        (wire, operation): (&dyn Wire, Operation),
        rope: CutRope,
        seen: FirstSeen,
    ) -> rusqlite::Result<Option<ShortBody>> {
        let at = splice::len(&rope.front);
        let text = splice::flat([rope.front, rope.after].concat());
        let Ok(view) = wire.read(&text, operation) else {
            return Ok(None);
        };
        let regions = BodyRegions::of(&text, view.list, &view.turns, 0);
        if regions.turns.is_empty() || regions.tail.start != at {
            return Ok(None);
        }
        let head = self.key.chain(HEAD, self.fast(regions.head.of(&text)));
        let tail = self.key.chain(TAIL, self.fast(regions.tail.of(&text)));
        let head_node = self.region(conn, chunks::head, head, || slice(&text, regions.head), seen)?;
        let messages = MessageChunks::of(&text, &regions);
        let list = self.list(conn, messages, None, seen)?;
        Ok(Some(ShortBody {
            head: head_node,
            tail: self.region(conn, chunks::tail, tail, || slice(&text, regions.tail), seen)?,
            list: (list.hash, list.node),
            messages: messages.len(),
        }))
    }

    /// Stores the messages of a stored body from the one with the number `first` on, after those of `short`: the hash
    /// chain of these and their last node. Returns the last node.
    fn kept(
        &mut self,
        conn: &Connection,
        from: &WrittenBody,
        first: usize,
        (short, last): (KeyedHash, i64),
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        let messages = from.messages();
        // The chain of the stored body up to some message, and the number of the first that is kept, say which are kept.
        let after = self.key.chain(self.key.chain(KEPT, short), first as KeyedHash);
        let key = self.key.clone();
        let up_to = |n| Some(key.chain(after, from.chain.of_first(n)?));
        let known = (first + 1..=messages.len())
            .rev()
            .find_map(|n| Some((n, self.known_row(&up_to(n)?)?)));
        let (known, mut node) = known.unwrap_or((first, last));
        for i in known..messages.len() {
            node = self.message(conn, node, (messages, i), seen)?;
            if let Some(hash) = up_to(i + 1) {
                self.landmark((messages, i), hash, node);
            }
        }
        Ok(node)
    }
}
