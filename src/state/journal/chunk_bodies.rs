//! Stores bodies as chains of chunks.
//!
//! The next request of a conversation repeats nearly everything of the previous one, so most messages are
//! found by hash.

use bytes::Bytes;
use rusqlite::Connection;

use super::body_pieces::{BodyPieces, MessagePiece};
use super::chunk_store::CountedRow;
use super::chunk_store::{ChunkStore, FirstSeen, TextKind};
use super::chunks;
use super::note::StoredMessage;
use super::summary::summary;
use crate::keyed_hash;
use baton_core::text::Span;

/// Stands for the chunk in the key of a whole region, whose value is its last node. No chunk has this id.
const WHOLE_REGION: i64 = 0;

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
        known: &[StoredMessage],
        seen: FirstSeen,
    ) -> rusqlite::Result<(BodyNodes, Vec<StoredMessage>)> {
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
        let whole = (0, WHOLE_REGION, keyed_hash::hash(text));
        if let Some(known) = self.nodes.get(&whole) {
            return Ok(*known);
        }
        let mut last = 0;
        for span in cut(text) {
            let chunk = self.chunk(
                conn,
                &text.slice(span.start..span.end),
                TextKind::Json,
                seen,
                |_| None,
            )?;
            // The chunks of a region are adjacent, so there is no gap.
            last = self.node(conn, last, chunk, "")?;
        }
        self.nodes.insert(whole, last);
        Ok(last)
    }

    /// Stores messages. Returns the rows of each.
    fn messages(
        &mut self,
        conn: &Connection,
        messages: &[MessagePiece],
        known: &[StoredMessage],
        seen: FirstSeen,
    ) -> rusqlite::Result<Vec<StoredMessage>> {
        let mut stored: Vec<StoredMessage> = Vec::with_capacity(messages.len());
        for MessagePiece { gap, text, role, at } in messages {
            let last = stored.last().map_or(0, |last| last.node);
            // A known message follows another one, so it has a predecessor.
            let same = at.and_then(|at| Some((known.get(at - 1)?, known.get(at)?)));
            stored.push(match same {
                Some((before, same)) if before.node == last => *same,
                same => {
                    let short = |clean: &Bytes| Some(summary(clean, *role));
                    let chunk = match same {
                        Some((_, same)) => same.chunk,
                        None => self.chunk(conn, text, TextKind::Json, seen, short)?,
                    };
                    let node = self.node(conn, last, chunk, &String::from_utf8_lossy(gap))?;
                    StoredMessage { chunk, node }
                }
            });
        }
        Ok(stored)
    }
}
