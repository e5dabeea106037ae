//! Stream to an agent with bounded reads and a write timeout.
//!
//! Limits how much is read at once, and how long the agent may leave written data unread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::Sleep;

/// Maximum bytes per read while a head is expected.
///
/// hyper's read buffer doubles when a read fills it, and keeps its size for the whole connection, even while
/// a response streams for minutes. One byte less than the buffer's intended size keeps it from growing.
/// Pieces of this size also stay in a core's nearest cache until they are joined.
const MAX_HEAD_READ: u64 = (16 << 10) - 1;

/// Maximum bytes per read after the head.
///
/// Larger than for heads: each read costs a system call and a few wake-ups, as much as all further work on its bytes.
const MAX_BODY_READ: u64 = (64 << 10) - 1;

/// Bytes after which reads are large even if the head has not ended.
///
/// hyper checks the size of a head between two reads. Its limit is exact to one small read up to here, and to
/// one large read beyond.
const HEAD_PROBE_BYTES: u64 = 96 << 10;

/// Agent stream with bounded reads. Writes pass through unchanged, and time out.
pub(super) struct AgentStream<S> {
    stream: Take<S>,
    /// Bytes read since the last write.
    read: u64,
    /// Whether the next bytes belong to a body: the head has ended, or is too long to be one.
    is_body: bool,
    /// Maximum time that a write may stay pending.
    write_timeout: Duration,
    /// Timer that runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead> AgentStream<S> {
    pub(super) fn new(stream: S, write_timeout: Duration) -> Self {
        let stream = stream.take(MAX_HEAD_READ);
        Self {
            stream,
            read: 0,
            is_body: false,
            write_timeout,
            stalled: None,
        }
    }

    /// Returns the stream for writing, and resets the read state: the next request begins after this response.
    fn written(&mut self) -> &mut S {
        (self.read, self.is_body) = (0, false);
        self.stream.get_mut()
    }

    /// Returns the result of a write, or a timeout error if writes have been pending for too long.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let write_timeout = self.write_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(write_timeout)));
        stalled
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AgentStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = match self.is_body {
            true => MAX_BODY_READ,
            false => MAX_HEAD_READ,
        };
        self.stream.set_limit(most);
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let came = (buf.filled().len() - before) as u64;
        self.read += came;
        // Only a full read can be followed by more of the same request.
        if !self.is_body && came == MAX_HEAD_READ {
            let head_ends = || memmem::find(&buf.filled()[before..], b"\r\n\r\n").is_some();
            self.is_body = self.read > HEAD_PROBE_BYTES || head_ends();
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for AgentStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.written()).poll_write(cx, buf);
        self.timed(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(self.stream.get_mut()).poll_flush(cx);
        self.timed(cx, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.written()).poll_write_vectored(cx, bufs);
        self.timed(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Sizes of the reads that deliver `sent`.
    async fn reads(sent: &[u8]) -> Vec<u64> {
        let (mut agent, server) = tokio::io::duplex(1 << 20);
        agent.write_all(sent).await.unwrap();
        drop(agent);
        let mut stream = AgentStream::new(server, Duration::MAX);
        let mut came = Vec::new();
        let mut sizes = Vec::new();
        loop {
            let mut buf = vec![0; 128 << 10];
            match stream.read(&mut buf).await.unwrap() {
                0 => break,
                n => came.extend_from_slice(&buf[..n]),
            }
            sizes.push(came.len() as u64 - sizes.iter().sum::<u64>());
        }
        assert_eq!(came, sent);
        sizes
    }

    #[tokio::test]
    async fn everything_comes_and_never_much_of_it_at_once() {
        let text: Vec<u8> = (0..400_000u32).map(|i| i as u8).collect();
        let all = reads(&[&b"POST / HTTP/1.1\r\n\r\n"[..], &text].concat()).await;
        let (rest, last) = (&all[1..all.len() - 1], all[all.len() - 1]);
        assert_eq!(all[0], MAX_HEAD_READ);
        assert!(rest.iter().all(|&read| read == MAX_BODY_READ), "{all:?}");
        assert!(last <= MAX_BODY_READ);
    }

    #[tokio::test]
    async fn a_long_head_comes_in_small_pieces() {
        let all = reads(&[b'x'; 400_000]).await;
        let small = all.iter().take_while(|&&read| read == MAX_HEAD_READ);
        assert_eq!(
            small.count() as u64,
            HEAD_PROBE_BYTES / MAX_HEAD_READ + 1,
            "{all:?}"
        );
    }
}
