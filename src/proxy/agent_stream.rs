//! The stream to an agent: bounds how much is read from it at once, and how long it may take nothing of what is written.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::Sleep;

use super::head_timeout::HeadStart;

/// One byte less than the server's buffer may grow to: it doubles when a read fills it, and keeps what it has
/// grown to as long as the connection lives, also while an answer streams for minutes. Pieces of this size stay
/// in a core's nearest cache between the kernel and whoever copies them together.
const MOST: u64 = (16 << 10) - 1;

/// What does not come with the first read comes in larger pieces: each one costs a system call and a few wake-ups, together as
/// much as all that is done with its bytes.
const MOST_OF_LONG: u64 = (64 << 10) - 1;

/// A request of more bytes than this is long.
const LONG: u64 = MOST;

/// An agent that reads nothing of its response for this long is given up; without a bound it would hold its permit for
/// ever. A person may have suspended it for a while. (Shorter in tests.)
pub(super) const STALLED: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 600 });

/// A stream whose reads are small. Writes go through unchanged, and time out.
pub(super) struct AgentStream<S> {
    stream: Take<S>,
    /// Bytes read since something was written.
    read: u64,
    /// Notified when a request begins and when it is answered.
    begun: HeadStart,
    /// Runs while the agent takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead> AgentStream<S> {
    pub(super) fn new(stream: S, begun: HeadStart) -> Self {
        let stream = stream.take(MOST);
        Self {
            stream,
            read: 0,
            begun,
            stalled: None,
        }
    }
}

impl<S: AsyncRead> AgentStream<S> {
    /// The stream for what is written: an answer, with which the next request begins anew.
    fn written(&mut self) -> &mut S {
        if self.read > 0 {
            self.read = 0;
            self.begun.over();
        }
        self.stream.get_mut()
    }
}

impl<S> AgentStream<S> {
    /// The result of a write, or a timeout where writes have been pending for too long.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
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
        let most = if self.read < LONG { MOST } else { MOST_OF_LONG };
        self.stream.set_limit(most);
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let came = (buf.filled().len() - before) as u64;
        if self.read == 0 && came > 0 {
            self.begun.now();
        }
        self.read += came;
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

    #[tokio::test]
    async fn everything_comes_and_never_much_of_it_at_once() {
        let (mut agent, server) = tokio::io::duplex(1 << 20);
        let sent: Vec<u8> = (0..400_000u32).map(|i| i as u8).collect();
        agent.write_all(&sent).await.unwrap();
        drop(agent);
        let (mut reads, mut came) = (AgentStream::new(server, HeadStart::default()), Vec::new());
        let mut sizes = vec![0];
        loop {
            let mut buf = vec![0; 64 << 10];
            match reads.read(&mut buf).await.unwrap() {
                0 => break,
                n => came.extend_from_slice(&buf[..n]),
            }
            sizes.push(came.len());
        }
        assert_eq!(came, sent);
        let pieces: Vec<_> = sizes.windows(2).map(|w| (w[1] - w[0]) as u64).collect();
        let (first, rest) = pieces.split_first().unwrap();
        let (_, whole) = rest.split_last().unwrap();
        assert_eq!(*first, MOST, "{pieces:?}");
        assert!(whole.iter().all(|&p| p == MOST_OF_LONG), "{pieces:?}");
    }
}
