//! The stream to an agent: bounds how much is read from it at once, and how long the agent may read nothing of what is
//! written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::Sleep;

/// One byte less than the server's buffer may grow to. That buffer doubles when a read fills it. It keeps its
/// size as long as the connection lives, also while an answer streams for minutes. Pieces of this size stay in
/// a core's nearest cache between the kernel and whoever copies them together.
const MAX_HEAD_READ: u64 = (16 << 10) - 1;

/// What follows the head comes in larger pieces: each piece costs a system call and a few wake-ups, as much as all
/// further work on its bytes.
const MOST_OF_BODY: u64 = (64 << 10) - 1;

/// After so many bytes reads are large, also where no end of a head was seen. hyper looks at a head's size between two reads, so
/// that its limit holds to one small read up to here, and to one large read after that.
const HEAD_PROBE_BYTES: u64 = 96 << 10;

/// A stream whose reads are small. Writes go through unchanged, and time out.
pub(super) struct AgentStream<S> {
    stream: Take<S>,
    /// Bytes read since something was written.
    read: u64,
    /// Whether what comes next is of the body: the head has ended, or cannot be that long.
    is_body: bool,
    /// How long the agent may take nothing.
    write_timeout: Duration,
    /// Runs while the agent takes nothing.
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

    /// The stream for what is written: an answer, with which the next request starts again.
    fn written(&mut self) -> &mut S {
        (self.read, self.is_body) = (0, false);
        self.stream.get_mut()
    }

    /// The result of a write, or a timeout where writes have been pending for too long.
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
            true => MOST_OF_BODY,
            false => MAX_HEAD_READ,
        };
        self.stream.set_limit(most);
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let came = (buf.filled().len() - before) as u64;
        self.read += came;
        // Only what fills a read is followed by more of the same request.
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

    /// The sizes of reads of what an agent sends.
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
        assert!(rest.iter().all(|&read| read == MOST_OF_BODY), "{all:?}");
        assert!(last <= MOST_OF_BODY);
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
