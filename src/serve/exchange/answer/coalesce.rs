//! Coalesces the writes of a streamed response. Upstream's client task hands over one chunk at a time and must run
//! again for the next. If many chunks are ready, a separate write to the agent for each would cost more than everything
//! else.

use std::task::Context;

use bytes::{Bytes, BytesMut};

/// Pieces of up to this many bytes together are sent as one.
const JOINED: usize = 16 << 10;

/// Chunks of upstream's that are taken before anything is sent, at most.
const CHUNKS: usize = 64;

/// Polls for more without a result: a server on HTTP/1 polls twice before others get to run.
const MOST_POLLS: u32 = 2;

/// So many of a response's first events are sent without asking for more.
const FIRST: u32 = 3;

/// After events that came alone, so many are sent without asking for more, at most.
const PATIENCE: u32 = 15;

/// Pieces of a response, in order, that wait to be written.
pub(super) struct WriteCoalescer {
    all: Vec<Bytes>,
    /// How many of them were sent.
    sent: usize,
    /// Chunks and bytes of upstream's that were taken since something was sent.
    chunks: usize,
    bytes: usize,
    /// Polls for more since the last chunk.
    polls: u32,
    /// Whether more was polled for since something was sent.
    polled: bool,
    /// There is no more for now.
    due: bool,
    /// How many are sent without asking, and how many it will be after the next one that came alone.
    pass: u32,
    next_pass: u32,
}

impl Default for WriteCoalescer {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            sent: 0,
            chunks: 0,
            bytes: 0,
            polls: 0,
            polled: false,
            due: false,
            pass: FIRST,
            next_pass: 0,
        }
    }
}

impl WriteCoalescer {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The pieces, for more to be appended.
    pub(super) fn pieces(&mut self) -> &mut Vec<Bytes> {
        &mut self.all
    }

    /// A chunk of upstream's was taken; what it becomes is appended to the pieces.
    pub(super) fn chunk(&mut self, bytes: usize) -> &mut Vec<Bytes> {
        self.chunks += 1;
        self.bytes += bytes;
        self.polls = 0;
        &mut self.all
    }

    /// Whether what waits is sent before more is taken.
    pub(super) fn are_due(&self) -> bool {
        let enough = self.chunks == 0 || self.chunks >= CHUNKS || self.bytes >= JOINED;
        (self.due || enough) && !self.is_empty()
    }

    /// Upstream's client has no more: whether to let it run again before what waits is sent. Never waits for
    /// the network: the task is woken at once.
    pub(super) fn polls_for_more(&mut self, cx: &Context<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        if self.pass > 0 || self.polls >= MOST_POLLS {
            self.due = true;
            return false;
        }
        self.polls += 1;
        self.polled = true;
        cx.waker().wake_by_ref();
        true
    }

    /// The next piece to send.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        if self.is_empty() {
            return None;
        }
        self.learn();
        let rest = &mut self.all[self.sent..];
        let mut bytes = 0;
        let small = rest.iter().take_while(|piece| {
            bytes += piece.len();
            bytes <= JOINED
        });
        let count = small.count();
        let piece = if count < 2 {
            self.sent += 1;
            std::mem::take(&mut rest[0])
        } else {
            self.sent += count;
            joined(&rest[..count])
        };
        if self.sent == self.all.len() {
            self.all.clear();
            self.sent = 0;
        }
        Some(piece)
    }

    /// Notes whether asking for more brought more, and adapts how often it is done.
    fn learn(&mut self) {
        if self.chunks > 1 {
            (self.pass, self.next_pass) = (0, 0);
        } else if self.polled {
            self.next_pass = (2 * self.next_pass + 1).min(PATIENCE);
            self.pass = self.next_pass;
        } else {
            self.pass = self.pass.saturating_sub(self.chunks as u32);
        }
        (self.chunks, self.bytes, self.polls) = (0, 0, 0);
        (self.polled, self.due) = (false, false);
    }
}

fn joined(pieces: &[Bytes]) -> Bytes {
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    for piece in pieces {
        all.extend_from_slice(piece);
    }
    all.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn piece(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    fn polls(pieces: &mut WriteCoalescer) -> u32 {
        let cx = Context::from_waker(Waker::noop());
        (0..10).take_while(|_| pieces.polls_for_more(&cx)).count() as u32
    }

    fn alone(pieces: &mut WriteCoalescer) -> u32 {
        pieces.chunk(1).push(piece(1));
        let polled = polls(pieces);
        assert!(pieces.are_due());
        assert_eq!(pieces.take().map(|p| p.len()), Some(1));
        assert!(pieces.is_empty() && !pieces.are_due());
        polled
    }

    #[test]
    fn events_that_come_alone_hardly_ever_wait_for_more() {
        let mut pieces = WriteCoalescer::default();
        let polled: Vec<u32> = (0..100).map(|_| alone(&mut pieces)).collect();
        assert_eq!(polled[..3], [0; 3]);
        assert!(polled.iter().all(|a| *a <= MOST_POLLS));
        assert!(polled.iter().filter(|a| **a > 0).count() <= 10, "{polled:?}");
    }

    #[test]
    fn where_more_comes_it_is_polled_for_each_time() {
        let mut pieces = WriteCoalescer::default();
        for _ in 0..5 {
            pieces.chunk(1).push(piece(1));
            pieces.chunk(1).push(piece(1));
            polls(&mut pieces);
            assert_eq!(pieces.take().map(|p| p.len()), Some(2));
        }
        pieces.chunk(1).push(piece(1));
        assert_eq!(polls(&mut pieces), MOST_POLLS);
    }

    #[test]
    fn enough_is_sent_at_once_and_large_pieces_are_not_copied() {
        let mut pieces = WriteCoalescer::default();
        let large = piece(JOINED);
        let all = pieces.chunk(JOINED + 2);
        all.extend([piece(1), large.clone(), piece(2), piece(3)]);
        assert!(pieces.are_due());
        assert_eq!(pieces.take().map(|p| p.len()), Some(1));
        assert_eq!(pieces.take().map(|p| p.as_ptr()), Some(large.as_ptr()));
        assert!(pieces.are_due());
        assert_eq!(pieces.take().map(|p| p.len()), Some(5));
        assert_eq!(pieces.take(), None);
        for _ in 0..CHUNKS {
            assert!(!pieces.are_due());
            pieces.chunk(1).push(piece(1));
        }
        assert!(pieces.are_due());
    }
}
