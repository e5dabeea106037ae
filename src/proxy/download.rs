//! Response bodies on their way down: silence becomes an error, a coding that was not asked for is undone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, TryStreamExt};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::io::{ReaderStream, StreamReader};

use super::coding::Coding;

/// How a response body failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// Upstream sent nothing for this long.
    Silent(Duration),
    /// The connection ended, or broke the protocol, before the body was complete.
    Closed(String),
    /// A body that was to be read whole is longer than this.
    TooLong(usize),
    /// The body is not what its `content-encoding` says.
    Undecodable(String),
}

impl std::fmt::Display for StreamFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(time) => write!(f, "upstream sent nothing for {} s", time.as_secs_f32()),
            Self::Closed(cause) => write!(f, "upstream broke off: {cause}"),
            Self::TooLong(limit) => write!(f, "upstream's body is longer than {limit} bytes"),
            Self::Undecodable(cause) => write!(f, "upstream's compressed body cannot be read: {cause}"),
        }
    }
}

impl std::error::Error for StreamFault {}

/// A response body from upstream. Dropping it closes the connection, unless the body was at its end.
pub struct UpstreamBody(Source);

enum Source {
    Plain(IdleBody),
    Decoded(ReaderStream<Pin<Box<dyn tokio::io::AsyncRead + Send>>>),
}

/// How long the end of a body is waited for behind its last event.
const READ_OUT: Duration = Duration::from_secs(2);

/// How much decoded text is handed on at once, at most.
const DECODED_CHUNK: usize = 16 * 1024;

impl UpstreamBody {
    pub(super) fn new(body: Incoming, idle: Duration) -> Self {
        Self(Source::Plain(IdleBody {
            body,
            idle,
            waiting: None,
            sleep: None,
        }))
    }

    /// The body as plain text, whatever upstream coded it with; or, where that coding is unknown, the body as
    /// it is, to be relayed. Streams stay streams: what one flush of upstream's coder completes comes out at once.
    pub fn decoded(self, headers: &HeaderMap) -> Result<Self, Self> {
        match (Coding::of(headers), self.0) {
            (Coding::Identity, source) => Ok(Self(source)),
            (Coding::Opaque, source) => Err(Self(source)),
            (coding, Source::Plain(body)) => {
                let bytes = body.into_data_stream().map_err(io::Error::other);
                let decoder = coding.decoder(StreamReader::new(bytes));
                Ok(Self(Source::Decoded(ReaderStream::with_capacity(
                    decoder,
                    DECODED_CHUNK,
                ))))
            }
            (_, decoded) => Ok(Self(decoded)),
        }
    }
}

impl UpstreamBody {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, StreamFault>> {
        let frame = self.frame().await?;
        Some(frame.map(|f| f.into_data().unwrap_or_default()))
    }

    /// Nothing of it is needed any more, and its end is near: it is read until there, so that the connection can
    /// serve again. The last chunk's end often comes a moment behind the last event.
    pub(super) fn read_out(mut self) {
        if !self.is_end_stream() {
            let rest = async move { while let Some(Ok(_)) = self.next().await {} };
            tokio::spawn(tokio::time::timeout(READ_OUT, rest));
        }
    }

    /// All of it, if that is not more than `limit`. A body of one piece is not copied.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes, StreamFault> {
        let mut all = BytesMut::new();
        let mut first = None;
        while let Some(piece) = self.next().await.transpose()? {
            if all.len() + first.as_ref().map_or(0, Bytes::len) + piece.len() > limit {
                return Err(StreamFault::TooLong(limit));
            }
            match first.take() {
                None if all.is_empty() => first = Some(piece),
                held => {
                    all.extend_from_slice(&held.unwrap_or_default());
                    all.extend_from_slice(&piece);
                }
            }
        }
        Ok(first.unwrap_or_else(|| all.freeze()))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamFault>>> {
        match &mut self.0 {
            Source::Plain(body) => Pin::new(body).poll_frame(cx),
            Source::Decoded(reader) => Pin::new(reader)
                .poll_next(cx)
                .map(|item| item.map(|read| read.map(Frame::data).map_err(as_fault))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Plain(body) => body.is_end_stream(),
            Source::Decoded(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Plain(body) => body.size_hint(),
            Source::Decoded(_) => SizeHint::default(),
        }
    }
}

/// The fault that went through the decoder as an IO error, or the decoder's own.
fn as_fault(error: io::Error) -> StreamFault {
    match error.get_ref().and_then(|e| e.downcast_ref::<StreamFault>()) {
        Some(fault) => fault.clone(),
        None => StreamFault::Undecodable(error.to_string()),
    }
}

/// Counts the time that it waits for upstream; the time in which nobody asks does not count.
struct IdleBody {
    body: Incoming,
    idle: Duration,
    waiting: Option<Instant>,
    /// Runs on while frames come and is only set anew when it fires: no timer work per frame.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl IdleBody {
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<StreamFault> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
        let due = since + self.idle;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(StreamFault::Silent(self.idle));
            }
            sleep.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Body for IdleBody {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamFault>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return self.poll_silence(cx).map(|fault| Some(Err(fault))),
                Poll::Ready(polled) => {
                    self.waiting = None;
                    return Poll::Ready(match polled {
                        // Trailers are used by no provider.
                        Some(Ok(frame)) if !frame.is_data() => continue,
                        Some(Ok(frame)) => Some(Ok(frame)),
                        Some(Err(error)) => Some(Err(StreamFault::Closed(error.to_string()))),
                        None => None,
                    });
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
