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
use super::summary::summary;
use baton_core::text::Span;

/// The last nodes of a body's three chains. 0 means an empty chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BodyNodes {
    pub(super) head: i64,
    pub(super) list: i64,
    pub(super) tail: i64,
    pub(super) messages: i64,
}

impl ChunkStore {
    /// Stores a request body and adds one reference to it.
    pub(super) fn body(
        &mut self,
        conn: &Connection,
        pieces: &BodyPieces,
        seen: FirstSeen,
    ) -> rusqlite::Result<BodyNodes> {
        let body = BodyNodes {
            head: self.region(conn, chunks::head, &pieces.head, seen)?,
            list: self.messages(conn, &pieces.messages, seen)?,
            tail: self.region(conn, chunks::tail, &pieces.tail, seen)?,
            messages: i64::try_from(pieces.messages.len()).unwrap_or(i64::MAX),
        };
        for node in [body.head, body.list, body.tail] {
            self.references.add(CountedRow::Node(node));
        }
        Ok(body)
    }

    /// Stores the region before or after the messages.
    fn region(
        &mut self,
        conn: &Connection,
        cut: fn(&[u8]) -> Vec<Span>,
        text: &Bytes,
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
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
        Ok(last)
    }

    /// Stores messages. Returns the node of the last one.
    fn messages(
        &mut self,
        conn: &Connection,
        messages: &[MessagePiece],
        seen: FirstSeen,
    ) -> rusqlite::Result<i64> {
        let mut last = 0;
        for MessagePiece { gap, text, role } in messages {
            let chunk = self.chunk(conn, text, TextKind::Json, seen, |clean| {
                Some(summary(clean, *role))
            })?;
            last = self.node(conn, last, chunk, &String::from_utf8_lossy(gap))?;
        }
        Ok(last)
    }
}
