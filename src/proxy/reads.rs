//! What is read from an agent at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// One byte less than the server's buffer may grow to: it doubles when a read fills it, and keeps what it has
/// grown to as long as the connection lives, also while an answer streams for minutes. Pieces of this size stay
/// in a core's nearest cache between the kernel and whoever copies them together.
const MOST: u64 = (16 << 10) - 1;

/// A stream that gives no more than a little at once. Written to, it is the stream itself.
pub(super) struct SmallReads<S>(Take<S>);

impl<S: AsyncRead> SmallReads<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(stream.take(MOST))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SmallReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.set_limit(MOST);
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SmallReads<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.0.get_mut()).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.get_mut()).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.get_ref().is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.0.get_mut()).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn everything_comes_and_never_much_of_it_at_once() {
        let (mut agent, server) = tokio::io::duplex(1 << 20);
        let sent: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        agent.write_all(&sent).await.unwrap();
        drop(agent);
        let (mut reads, mut came) = (SmallReads::new(server), Vec::new());
        loop {
            let mut buf = vec![0; 64 << 10];
            match reads.read(&mut buf).await.unwrap() {
                0 => break,
                n => came.extend_from_slice(&buf[..n]),
            }
            assert!(came.len() % MOST as usize == 0 || came.len() == sent.len());
        }
        assert_eq!(came, sent);
    }
}
