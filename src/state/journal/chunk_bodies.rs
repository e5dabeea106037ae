//! Stores bodies as chains of chunks.
//!
//! The next request of a conversation repeats nearly everything of the previous one, so most messages are
//! found by hash.

use bytes::Bytes;
use rusqlite::Connection;

use super::body_pieces::{BodyPieces, MessagePiece};
use super::chunk_store::{ChunkStore, FirstSeen, StoredPiece, TextKind};
use super::chunks;
use super::references::CountedRow;
use super::summary::summary;
use crate::keyed_hash;
use baton_core::text::Span;

/// Stands for the node before a whole region, whose last piece is cached by the region's text. No node has
/// this id.
const REGION: i64 = -1;

/// The last nodes of a body's three chains. 0 means an empty chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BodyNodes {
    pub(super) head: i64,
    pub(super) list: i64,
    pub(super) tail: i64,
    pub(super) messages: i64,
}

impl ChunkStore {
    /// Stores a request body and adds one reference to it. Also returns the rows of its messages.
    ///
    /// `known` are the rows of the messages of the agent's request, if it is stored.
    pub(super) fn body(
        &mut self,
        conn: &Connection,
        pieces: &BodyPieces,
        known: &[StoredPiece],
        seen: FirstSeen,
    ) -> rusqlite::Result<(BodyNodes, Vec<StoredPiece>)> {
        let head = self.region(conn, chunks::head, &pieces.head, seen)?;
        let stored = self.messages(conn, &pieces.messages, known, seen)?;
        let body = BodyNodes {
            head,
            list: stored.last().map_or(0, |last| last.node),
            tail: self.region(conn, chunks::tail, &pieces.tail, seen)?,
            messages: i64::try_from(stored.len()).unwrap_or(i64::MAX),
        };
        for node in [body.head, body.list, body.tail] {
            self.references.add(CountedRow::Node(node));
        }
        Ok((body, stored))
    }

    /// Stores the region before or after the messages.
    fn region(
        &mut self,
        conn: &Connection,
        cut: fn(&[u8]) -> Vec<Span>,
        text: &Bytes,
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        let hash = keyed_hash::hash(text);
        if let Some(known) = self.pieces.get(&(REGION, hash)) {
            return Ok(known.node);
        }
        let (mut chunk, mut node) = (0, 0);
        for span in cut(text) {
            let text = text.slice(span.start..span.end);
            chunk = self.chunk(conn, &text, TextKind::Json, seen, |_| None)?;
            // The chunks of a region are adjacent, so there is no gap.
            node = self.node(conn, node, chunk, "")?;
        }
        self.pieces
            .insert((REGION, hash), StoredPiece { hash, chunk, node });
        Ok(node)
    }

    /// Stores messages. Returns the rows of each.
    fn messages(
        &mut self,
        conn: &Connection,
        messages: &[MessagePiece],
        known: &[StoredPiece],
        seen: FirstSeen,
    ) -> rusqlite::Result<Vec<StoredPiece>> {
        let mut stored: Vec<StoredPiece> = Vec::with_capacity(messages.len());
        for message in messages {
            let last = stored.last().map_or(0, |last| last.node);
            // A known message follows another one, so it has a predecessor.
            let same = message
                .at
                .and_then(|at| Some((known.get(at - 1)?, known.get(at)?)));
            if let Some((_, same)) = same.filter(|(before, _)| before.node == last) {
                stored.push(*same);
                continue;
            }
            let same = same.map(|(_, same)| same);
            let hash = same.map_or_else(|| keyed_hash::hash(&message.text), |same| same.hash);
            let chunk = |store: &mut Self| match same {
                Some(same) => Ok(same.chunk),
                None => {
                    let text = message.text.slice(message.gap..);
                    let short = |clean: &Bytes| Some(summary(clean, message.role));
                    store.chunk(conn, &text, TextKind::Json, seen, short)
                }
            };
            let gap = &message.text[..message.gap];
            stored.push(self.append(conn, last, (hash, gap), chunk)?);
        }
        Ok(stored)
    }
}
