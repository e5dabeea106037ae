//! Copies response bodies, upstream's and the agent's, chunk by chunk within bounds. When a body ends, however it ends, the copy
//! is queued as one note.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{Bytes, BytesMut};

use super::note::{CapturedBody, JournalNote};
use super::packed::PackedHeaders;
use super::queue::RecordedExchange;
use crate::state::clock::now_ms;

/// Chunks under this size are copied. Keeping a slice would keep the whole buffer that the connection was read into, and the
/// connection would have to allocate another.
const COPIED: usize = 4096;

/// Copied chunks are joined up to this size.
const JOINED: usize = 32 << 10;

/// Room is reserved in steps of this size, so that not every chunk touches the counter that all streams share.
const ROOM: usize = 16 << 10;

/// Which body it is.
pub(super) enum CapturedSide {
    Leg(u32),
    Shown(PackedHeaders),
}

/// Collects a body's chunks, and queues them when it is dropped.
#[derive(Default)]
pub struct BodyCapture {
    to: Option<(Arc<RecordedExchange>, CapturedSide)>,
    body: CapturedBody,
    /// Small chunks, joined.
    small: BytesMut,
    buffered: usize,
    /// Bytes that may be buffered.
    room: usize,
}

impl BodyCapture {
    pub(super) fn new(to: Option<(Arc<RecordedExchange>, CapturedSide)>) -> Self {
        let mut capture = Self::default();
        capture.to = to;
        capture
    }

    /// Copies the next chunk.
    pub fn push(&mut self, chunk: &Bytes) {
        if self.to.is_none() || self.body.truncated {
            return;
        }
        if self.room - self.buffered < chunk.len() {
            self.make_room(chunk.len());
        }
        let len = chunk.len().min(self.room - self.buffered);
        self.body.truncated = len < chunk.len();
        self.buffered += len;
        if len < COPIED {
            self.small.extend_from_slice(&chunk[..len]);
            if self.small.len() >= JOINED {
                self.join();
            }
        } else {
            self.join();
            self.body.chunks.push(chunk.slice(..len));
        }
        self.publish(&chunk[..len]);
    }

    /// Gives the chunk to a viewer of the answer; mostly there is none.
    fn publish(&self, chunk: &[u8]) {
        let Some((open, CapturedSide::Shown(_))) = &self.to else {
            return;
        };
        let live = &open.queue.live_bodies;
        if live.is_watched() {
            live.push(&open.id, chunk, || {
                let chunks = self.body.chunks.iter().map(|chunk| &chunk[..]);
                chunks.chain([&self.small[..]]).collect::<Vec<_>>().concat()
            });
        }
    }

    /// Reserves room for `wanted` more bytes and some beyond, within the bounds of one body and of all together.
    fn make_room(&mut self, wanted: usize) {
        let Some((RecordedExchange { queue, .. }, _)) = self.to.as_ref().map(|(open, side)| (&**open, side))
        else {
            return;
        };
        let all = queue
            .queue_bytes
            .saturating_sub(queue.load.capturing.load(Relaxed));
        let own = queue.response_bytes.saturating_sub(self.room);
        // A long answer reserves rarely, and a short one does not take what others need.
        let more = wanted.max(self.buffered.clamp(ROOM / 16, ROOM)).min(all).min(own);
        queue.load.capturing.fetch_add(more, Relaxed);
        self.room += more;
    }

    fn join(&mut self) {
        if !self.small.is_empty() {
            self.body.chunks.push(std::mem::take(&mut self.small).freeze());
        }
    }

    /// Marks the body as seen to its end.
    pub fn ended(&mut self) {
        self.body.ended = true;
    }
}

impl Drop for BodyCapture {
    fn drop(&mut self) {
        self.join();
        let Some((open, side)) = self.to.take() else {
            return;
        };
        open.queue.load.capturing.fetch_sub(self.room, Relaxed);
        let (id, body) = (open.id.clone(), std::mem::take(&mut self.body));
        if matches!(side, CapturedSide::Shown(_)) && open.queue.live_bodies.is_watched() {
            open.queue.live_bodies.ended(&id);
        }
        open.send(match side {
            CapturedSide::Leg(leg) => JournalNote::Received {
                id,
                leg,
                at_ms: now_ms(),
                body,
            },
            CapturedSide::Shown(headers) => JournalNote::Shown { id, headers, body },
        });
    }
}
