//! The socket of an agent's connection, which tracks whether the agent gets the ends of its answers. A write succeeds
//! when the kernel has the bytes, even if the agent has closed its end or closes it with bytes unread: the error comes
//! with a later read. So the end of an answer counts as delivered when the connection's next read returns a request or
//! a clean end, or nothing for [`AgentWaits::quiet`](crate::state::config::AgentWaits::quiet). It counts as lost when that read fails.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use crate::state::session::UnconfirmedEnd;
use crate::state::sync::locked;

/// Ends of one connection that are watched at once; the oldest counts as delivered. HTTP/1 has one, or few if requests are
/// pipelined; HTTP/2 one for each stream.
const KEPT: usize = 32;

/// Room for what an agent still sends while its connection is shut down.
const SCRATCH: usize = 512;

/// A connection whose error can be read without reading from it.
pub(super) trait Socket {
    /// The error that is pending, once.
    fn take_error(&self) -> io::Result<Option<io::Error>>;
}

impl Socket for TcpStream {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Self::take_error(self)
    }
}

impl Socket for TlsStream<TcpStream> {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.get_ref().0.take_error()
    }
}

/// Whether bytes that an agent sends show that it has read what was sent before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sends {
    /// A request follows an answer.
    OneByOne,
    /// Frames of any stream come at any time.
    Multiplexed,
}

/// The ends of answers that were handed to one connection and are not settled. Clones are the same connection's.
#[derive(Clone, Default)]
pub(crate) struct ConnectionEnds(Arc<SharedEnds>);

#[derive(Default)]
struct SharedEnds {
    /// Whether there are any: read without the lock.
    any: AtomicBool,
    ends: Mutex<Vec<HandedOver>>,
}

/// The end of an answer that the server has taken.
struct HandedOver {
    end: UnconfirmedEnd,
    /// When it counts as delivered; `None` until the kernel has all of it.
    due: Option<Instant>,
}

impl ConnectionEnds {
    /// The server has taken the end of an answer, and writes it next.
    pub(crate) fn add(&self, end: UnconfirmedEnd) {
        let mut ends = locked(&self.0.ends);
        let oldest = (ends.len() == KEPT).then(|| ends.remove(0));
        ends.push(HandedOver { end, due: None });
        self.0.any.store(true, Ordering::Release);
        drop(ends);
        if let Some(oldest) = oldest {
            oldest.end.delivered();
        }
    }

    fn is_empty(&self) -> bool {
        !self.0.any.load(Ordering::Acquire)
    }

    fn handle_flush(&self, due: Instant) {
        for handed in &mut *locked(&self.0.ends) {
            handed.due.get_or_insert(due);
        }
    }

    /// Counts written ends as delivered; with `now`, only those that are due.
    fn deliver(&self, now: Option<Instant>) {
        self.take(|handed| handed.due.is_some_and(|due| now.is_none_or(|now| due <= now)))
            .iter()
            .for_each(|handed| handed.end.delivered());
    }

    fn lose(&self) {
        self.take(|_| true).iter().for_each(|handed| handed.end.lost());
    }

    /// When the next one counts as delivered.
    fn due(&self) -> Option<Instant> {
        locked(&self.0.ends).iter().filter_map(|handed| handed.due).min()
    }

    fn take(&self, settled: impl Fn(&HandedOver) -> bool) -> Vec<HandedOver> {
        let mut ends = locked(&self.0.ends);
        let (taken, left): (Vec<_>, Vec<_>) = ends.drain(..).partition(settled);
        self.0.any.store(!left.is_empty(), Ordering::Release);
        *ends = left;
        taken
    }
}

/// A connection that settles the ends of its answers. Bytes go through unchanged.
pub(super) struct ConfirmingStream<S: Socket> {
    stream: S,
    ends: ConnectionEnds,
    sends: Sends,
    /// How long nothing comes after an end that counts as delivered.
    quiet_time: Duration,
    /// Runs while an end is written and nothing comes.
    quiet: Option<Pin<Box<Sleep>>>,
    /// Runs from when the own side is closed.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<S: Socket> ConfirmingStream<S> {
    pub(super) fn new(stream: S, ends: ConnectionEnds, sends: Sends, quiet_time: Duration) -> Self {
        Self {
            stream,
            ends,
            sends,
            quiet_time,
            quiet: None,
            linger: None,
        }
    }

    /// No read has failed, so written ends count as delivered; with `now`, only those that are due. After the end of
    /// what the agent sends, a read reports no error; the socket does.
    fn deliver(&self, now: Option<Instant>) {
        match self.stream.take_error() {
            Ok(None) => self.ends.deliver(now),
            _ => self.ends.lose(),
        }
    }

    fn handle_read(&self, read: io::Result<usize>) {
        match read {
            Ok(0) => self.deliver(None),
            Ok(_) if self.sends == Sends::OneByOne || self.linger.is_some() => self.ends.deliver(None),
            Ok(_) => {}
            // An agent that closes TLS without `close_notify`.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.deliver(None),
            Err(_) => self.ends.lose(),
        }
    }

    /// Counts ends as delivered that have been silent for long enough.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) {
        while let Some(due) = self.ends.due() {
            let quiet = self
                .quiet
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if quiet.deadline() != due {
                quiet.as_mut().reset(due);
            }
            if quiet.as_mut().poll(cx).is_pending() {
                return;
            }
            self.deliver(Some(due));
        }
        self.quiet = None;
    }

    fn noting_failure<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = written {
            self.ends.lose();
        }
        written
    }
}

impl<S: AsyncRead + Socket + Unpin> AsyncRead for ConfirmingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ends.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        match &polled {
            Poll::Ready(Ok(())) => self.handle_read(Ok(buf.filled().len() - before)),
            Poll::Ready(Err(error)) => self.handle_read(Err(error.kind().into())),
            Poll::Pending => self.poll_quiet(cx),
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Socket + Unpin> AsyncWrite for ConfirmingStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noting_failure(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) && !self.ends.is_empty() {
            self.ends.handle_flush(Instant::now() + self.quiet_time);
        }
        self.noting_failure(flushed)
    }

    /// Closes the own side and, where an end is not settled, waits for the agent to close its own: a closed socket reports nothing.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
            ready!(self.noting_failure(Poll::Ready(shut)))?;
            if self.ends.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.linger = Some(Box::pin(tokio::time::sleep(self.quiet_time)));
        }
        loop {
            let is_over = |linger: &mut Pin<Box<Sleep>>| linger.as_mut().poll(cx).is_ready();
            if self.ends.is_empty() || self.linger.as_mut().is_none_or(is_over) {
                return Poll::Ready(Ok(()));
            }
            let mut scratch = [0; SCRATCH];
            let mut read = ReadBuf::new(&mut scratch);
            match self.as_mut().poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending if self.ends.is_empty() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noting_failure(written)
    }
}

impl<S: Socket> Drop for ConfirmingStream<S> {
    /// The proxy closes the connection: what was written without an error is delivered, the rest is lost.
    fn drop(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        if Handle::try_current().is_ok() {
            self.deliver(None);
        }
        self.ends.lose();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const QUIET: Duration = Duration::from_millis(200);

    /// The outcome of an answer's end.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Became {
        Unsettled,
        Delivered,
        Lost,
    }

    /// A connection over which an answer was written, its agent, and the answer's end.
    struct Answered {
        agent: TcpStream,
        server: ConfirmingStream<TcpStream>,
        delivered: Arc<AtomicBool>,
        ends: ConnectionEnds,
    }

    impl Answered {
        async fn new(sends: Sends, flushes: bool) -> Self {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let agent = TcpStream::connect(listener.local_addr().unwrap());
            let (agent, accepted) = tokio::join!(agent, listener.accept());
            let (ends, delivered) = (ConnectionEnds::default(), Arc::new(AtomicBool::new(false)));
            let mut server = ConfirmingStream::new(accepted.unwrap().0, ends.clone(), sends, QUIET);
            let then = Arc::clone(&delivered);
            ends.add(UnconfirmedEnd::new(move || then.store(true, Ordering::Relaxed)));
            server.write_all(b"the answer").await.unwrap();
            if flushes {
                server.flush().await.unwrap();
            }
            let agent = agent.unwrap();
            agent.readable().await.unwrap();
            Self {
                agent,
                server,
                delivered,
                ends,
            }
        }

        fn became(&self) -> Became {
            match (self.delivered.load(Ordering::Relaxed), self.ends.is_empty()) {
                (true, _) => Became::Delivered,
                (false, true) => Became::Lost,
                (false, false) => Became::Unsettled,
            }
        }

        async fn reads(&mut self) {
            let mut bytes = [0; 64];
            let _ = tokio::time::timeout(QUIET / 4, self.server.read(&mut bytes)).await;
        }

        async fn took_all(&mut self) {
            let mut bytes = [0; 10];
            self.agent.read_exact(&mut bytes).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_next_read_settles_an_end() {
        for (sends, next) in [
            (Sends::OneByOne, Became::Delivered),
            (Sends::Multiplexed, Became::Unsettled),
        ] {
            let mut all = Answered::new(sends, true).await;
            all.reads().await;
            assert_eq!(all.became(), Became::Unsettled);
            all.agent.write_all(b"the next request").await.unwrap();
            all.reads().await;
            assert_eq!(all.became(), next);
        }
        let mut closed = Answered::new(Sends::OneByOne, true).await;
        closed.took_all().await;
        drop(std::mem::replace(&mut closed.agent, other().await));
        closed.reads().await;
        assert_eq!(closed.became(), Became::Delivered);
        for sends in [Sends::OneByOne, Sends::Multiplexed] {
            let mut unread = Answered::new(sends, true).await;
            drop(std::mem::replace(&mut unread.agent, other().await));
            unread.reads().await;
            assert_eq!(unread.became(), Became::Lost);
        }
    }

    /// An agent closed its side first, and the answer was written to the closed socket: after the end of what it sent a read
    /// reports no error.
    #[tokio::test]
    async fn a_write_after_the_agents_end_is_lost() {
        let mut all = Answered::new(Sends::OneByOne, true).await;
        all.took_all().await;
        drop(std::mem::replace(&mut all.agent, other().await));
        all.server.write_all(b" goes on").await.unwrap();
        all.server.flush().await.unwrap();
        all.reads().await;
        assert_eq!(all.became(), Became::Lost);
    }

    #[tokio::test]
    async fn quiet_settles_what_is_written_and_a_shutdown_waits_for_the_agent() {
        let mut quiet = Answered::new(Sends::Multiplexed, true).await;
        for _ in 0..8 {
            quiet.reads().await;
        }
        assert_eq!(quiet.became(), Became::Delivered);

        for leaves in [true, false] {
            let mut shut = Answered::new(Sends::OneByOne, true).await;
            let agent = std::mem::replace(&mut shut.agent, other().await);
            let agent = async move {
                tokio::time::sleep(QUIET / 4).await;
                (!leaves).then_some(agent)
            };
            let (_open, done) = tokio::join!(agent, shut.server.shutdown());
            done.unwrap();
            drop(std::mem::replace(
                &mut shut.server,
                Answered::new(Sends::OneByOne, true).await.server,
            ));
            let wanted = if leaves { Became::Lost } else { Became::Delivered };
            assert_eq!(shut.became(), wanted);
        }
    }

    #[tokio::test]
    async fn what_was_never_flushed_is_lost_with_its_connection() {
        for (flushes, wanted) in [(true, Became::Delivered), (false, Became::Lost)] {
            let Answered {
                agent,
                server,
                delivered,
                ends,
            } = Answered::new(Sends::OneByOne, flushes).await;
            drop(server);
            let all = Answered {
                agent,
                delivered,
                ends,
                ..Answered::new(Sends::OneByOne, true).await
            };
            assert_eq!(all.became(), wanted);
        }
    }

    async fn other() -> TcpStream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()
    }
}
