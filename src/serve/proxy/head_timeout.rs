//! A timeout for request heads. hyper has one timer for both an idle connection and the head that follows, and none on
//! HTTP/2; agents keep idle connections for minutes, while a head arrives at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::forward::forward_writes;

use crate::state::sync::locked;

/// What HTTP/2 begins with (RFC 9113, section 3.4); no method of HTTP/1 begins with its first three bytes.
pub(super) const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// When the first byte of a request came; `None` between requests. Shared by a connection's reads and its timer.
#[derive(Clone, Default)]
pub(super) struct HeadStart(Arc<Mutex<Option<Instant>>>);

impl HeadStart {
    pub(super) fn now(&self) {
        *locked(&self.0) = Some(Instant::now());
    }

    pub(super) fn over(&self) {
        *locked(&self.0) = None;
    }

    fn get(&self) -> Option<Instant> {
        *locked(&self.0)
    }
}

/// The timer of one HTTP/1 connection. hyper makes a sleep when it begins to wait for a head. It polls the sleep after
/// each read, and drops it when the head is complete.
pub(super) struct HeadTimer {
    pub(super) begun: HeadStart,
    pub(super) head: Duration,
}

impl rt::Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until((Instant::now() + duration).into())
    }

    fn sleep_until(&self, idle: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HeadSleep {
            begun: self.begun.clone(),
            head: self.head,
            idle: idle.into(),
            sleep: Box::pin(tokio::time::sleep_until(idle.into())),
        })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

struct HeadSleep {
    begun: HeadStart,
    head: Duration,
    /// The deadline while nothing of a head is there.
    idle: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl rt::Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let due = match self.begun.get() {
            Some(begun) => self.idle.min(begun + self.head),
            None => self.idle,
        };
        if self.sleep.deadline() != due {
            self.sleep.as_mut().reset(due);
        }
        self.sleep.as_mut().poll(cx)
    }
}

/// Parses as much of HTTP/2 as the timeout applies to (RFC 9113, sections 3.4, 4.1, 4.3): the preface, a frame's header,
/// and a header block over all its frames. Takes what is read in pieces of any size.
#[derive(Debug)]
enum HeadParser {
    FrameHeader {
        seen: [u8; FRAME_HEADER],
        len: usize,
        in_block: bool,
    },
    Payload {
        left: usize,
        head: bool,
        in_block: bool,
    },
}

const FRAME_HEADER: usize = 9;
/// HEADERS and CONTINUATION: the frames of a block of headers.
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_HEADERS: u8 = 0x4;

impl HeadParser {
    /// The preface is like the payload of a frame that is all head.
    fn new() -> Self {
        Self::Payload {
            left: H2_PREFACE.len(),
            head: true,
            in_block: false,
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self {
                Self::FrameHeader { seen, len, in_block } => {
                    let taken = bytes.len().min(FRAME_HEADER - *len);
                    seen[*len..*len + taken].copy_from_slice(&bytes[..taken]);
                    *len += taken;
                    bytes = &bytes[taken..];
                    if *len == FRAME_HEADER {
                        let (seen, in_block) = (*seen, *in_block);
                        *self = Self::payload(&seen, in_block);
                    }
                }
                Self::Payload { left, in_block, .. } => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    bytes = &bytes[taken..];
                    if *left == 0 {
                        *self = Self::frame(*in_block);
                    }
                }
            }
        }
    }

    fn frame(in_block: bool) -> Self {
        Self::FrameHeader {
            seen: [0; FRAME_HEADER],
            len: 0,
            in_block,
        }
    }

    fn payload(header: &[u8; FRAME_HEADER], in_block: bool) -> Self {
        let [high, middle, low, kind, flags, ..] = *header;
        let left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let head = kind == HEADERS || kind == CONTINUATION;
        let in_block = if head { flags & END_HEADERS == 0 } else { in_block };
        match left {
            0 => Self::frame(in_block),
            _ => Self::Payload { left, head, in_block },
        }
    }

    /// Whether a preface or a header block is incomplete.
    fn is_half(&self) -> bool {
        match self {
            Self::FrameHeader { len, in_block, .. } => *len > 0 || *in_block,
            Self::Payload { head, in_block, .. } => *head || *in_block,
        }
    }
}

/// An HTTP/2 connection on which a head that takes too long is an error.
pub(super) struct TimedHeads<S> {
    stream: S,
    parser: HeadParser,
    head: Duration,
    /// Runs while a preface or a header block is incomplete.
    due: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedHeads<S> {
    /// Must be called inside a runtime: the preface's time begins.
    pub(super) fn new(stream: S, head: Duration) -> Self {
        Self {
            stream,
            parser: HeadParser::new(),
            head,
            due: Some(Box::pin(tokio::time::sleep(head))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let came = buf.filled().get(before..).unwrap_or_default();
        if !came.is_empty() {
            this.parser.read(came);
            if !this.parser.is_half() {
                this.due = None;
            } else if this.due.is_none() {
                this.due = Some(Box::pin(tokio::time::sleep(this.head)));
            }
        }
        if let (Some(due), Poll::Pending) = (&mut this.due, &polled)
            && due.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedHeads<S> {
    forward_writes!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u8::try_from(payload.len()).unwrap();
        [&[0, 0, len, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// What is half read after each byte.
    fn half(bytes: &[u8], piece: usize) -> Vec<bool> {
        let mut parser = HeadParser::new();
        bytes
            .chunks(piece)
            .flat_map(|piece| {
                parser.read(piece);
                vec![parser.is_half(); piece.len()]
            })
            .collect()
    }

    #[test]
    fn heads_are_half_until_their_block_ends_and_bodies_never() {
        let table = [
            (H2_PREFACE.to_vec(), true),
            (frame(0x4, 0, &[]), true), // SETTINGS: its header is a moment's matter, too
            (frame(HEADERS, 0, b"part"), true),
            (frame(CONTINUATION, 0, b""), true),
            (frame(CONTINUATION, END_HEADERS, b"rest"), true),
            (frame(0x0, 0, b"a body"), false),
            (frame(HEADERS, END_HEADERS, b"whole"), true),
        ];
        let bytes: Vec<_> = table.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let mut expected = Vec::new();
        for (at, (bytes, head)) in table.iter().enumerate() {
            let header = if at == 0 { bytes.len() } else { FRAME_HEADER };
            // A frame's own header is always a moment's matter; its payload where it is a head's.
            expected.extend(vec![true; header]);
            expected.extend(vec![*head; bytes.len() - header]);
            // The head ends with the last byte, unless a header block continues.
            let goes_on = matches!(at, 2 | 3);
            *expected.last_mut().unwrap() = goes_on;
        }
        // The byte that ends a body's frame header begins its payload.
        let body = bytes.len() - table[6].0.len() - table[5].0.len() + FRAME_HEADER - 1;
        expected[body] = false;
        assert_eq!(half(&bytes, 1), expected);
        for piece in 2..bytes.len() {
            let ends: Vec<_> = half(&bytes, piece)
                .chunks(piece)
                .map(|c| *c.last().unwrap())
                .collect();
            let at_ends = expected.chunks(piece).map(|c| *c.last().unwrap());
            assert_eq!(ends, at_ends.collect::<Vec<_>>(), "{piece}");
        }
    }
}
