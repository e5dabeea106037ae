//! Response bodies from upstream: silence becomes an error, and an unrequested content coding is decoded.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::io::{ReaderStream, StreamReader};

use super::body::Gathering;
use super::budget::Budget;
use super::coding::Coding;
use super::fault::{Code, Fault};
use crate::state::journal::BodyCapture;

/// The result of polling the body of a response.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, Fault>>>;

/// A response body from upstream. Dropping it closes the connection, unless the body was at its end.
pub struct UpstreamBody {
    source: DownloadSource,
    /// Boxed, since most bodies are relayed and have none.
    copy: Option<Box<BodyCapture>>,
}

enum DownloadSource {
    Plain(IdleBody),
    Decoded(ReaderStream<Pin<Box<dyn tokio::io::AsyncRead + Send>>>),
}

/// How long to wait for the end of a body whose last event was seen.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Maximum decoded text that is passed on at once.
const DECODED_CHUNK: usize = 16 * 1024;

impl UpstreamBody {
    pub(super) fn new(body: Incoming, idle: Duration) -> Self {
        Self::from_source(DownloadSource::Plain(IdleBody {
            body,
            idle,
            heard: false,
            quiet: 0,
            step: None,
            waker: None,
        }))
    }

    fn from_source(source: DownloadSource) -> Self {
        Self { source, copy: None }
    }

    /// The same body, which also copies every frame into `copy`.
    pub(crate) fn copied(self, copy: BodyCapture) -> Self {
        Self {
            copy: Some(Box::new(copy)),
            ..self
        }
    }

    /// The rest is read and discarded in the background, for a moment. A body that is read to its end gives
    /// its connection back to the pool; one that is dropped earlier closes it.
    pub fn drained(mut self) {
        // The last event was seen. The exchange may be over before what is left has come.
        if let Some(mut copy) = self.copy.take() {
            copy.ended();
        }
        if self.is_end_stream() {
            return;
        }
        tokio::spawn(async move {
            let _ = tokio::time::timeout(DRAIN_TIME, async { while let Some(Ok(_)) = self.next().await {} })
                .await;
        });
    }

    /// The body as plain text, whatever upstream coded it with; or, where that coding is unknown, the body as
    /// it is, to be relayed. Streams stay streams: what one flush of upstream's coder completes comes out at once.
    ///
    /// # Errors
    /// The unchanged body, if its coding is unknown.
    pub fn decoded(self, headers: &HeaderMap) -> Result<Self, Self> {
        match (Coding::from_headers(headers), self.source) {
            (Coding::Identity, source) => Ok(Self::from_source(source)),
            (Coding::Opaque, source) => Err(Self::from_source(source)),
            (coding, DownloadSource::Plain(body)) => {
                let bytes = body.into_data_stream().map_err(io::Error::other);
                let decoder = coding.decoder(StreamReader::new(bytes));
                Ok(Self::from_source(DownloadSource::Decoded(
                    ReaderStream::with_capacity(decoder, DECODED_CHUNK),
                )))
            }
            (_, decoded) => Ok(Self::from_source(decoded)),
        }
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Fault>> {
        let frame = self.frame().await?;
        Some(frame.map(|f| f.into_data().unwrap_or_default()))
    }

    /// All of it, if that is not more than `limit`. A body of one piece is neither copied nor counted; what is put
    /// together counts into `budget` until the last slice of it is gone.
    ///
    /// # Errors
    /// Upstream broke off, was silent, or sent more than `limit`; or `budget` has no room in time.
    pub(crate) async fn whole(self, limit: usize, budget: &Budget) -> Result<Bytes, Fault> {
        whole(self, limit, budget).await
    }
}

/// All of a body, if that is not more than `limit`, as [`UpstreamBody::whole`].
pub(super) async fn whole<B>(mut body: B, limit: usize, budget: &Budget) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes, Error = Fault> + Unpin,
{
    let too_long = |limit| {
        let detail = format!("upstream's body is longer than {limit} bytes");
        Fault::because(Code::UNREADABLE, detail)
    };
    let mut all = Gathering::new(0, budget.hold());
    while let Some(frame) = body.frame().await.transpose()? {
        let piece = frame.into_data().unwrap_or_default();
        all.push(piece, limit, too_long).await?;
    }
    Ok(all.done(true))
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = match &mut self.source {
            DownloadSource::Plain(body) => Pin::new(body).poll_frame(cx),
            DownloadSource::Decoded(reader) => Pin::new(reader)
                .poll_next(cx)
                .map(|item| item.map(|read| read.map(Frame::data).map_err(as_fault))),
        };
        if self.copy.is_some() && polled.is_ready() {
            self.copy_of(&polled);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            DownloadSource::Plain(body) => body.is_end_stream(),
            DownloadSource::Decoded(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            DownloadSource::Plain(body) => body.size_hint(),
            DownloadSource::Decoded(_) => SizeHint::default(),
        }
    }
}

impl UpstreamBody {
    /// Copies what was polled.
    fn copy_of(&mut self, polled: &PolledFrame) {
        let ended = self.is_end_stream();
        let Some(copy) = &mut self.copy else { return };
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    copy.push(data);
                }
                if ended {
                    copy.ended();
                }
            }
            Poll::Ready(None) => copy.ended(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
    }
}

/// The fault that went through the decoder as an IO error, or the decoder's own.
fn as_fault(error: io::Error) -> Fault {
    error.downcast().unwrap_or_else(|error| {
        let detail = format!("upstream's compressed body cannot be read: {error}");
        Fault::because(Code::UNREADABLE, detail)
    })
}

/// Steps in which silence is counted: a fault comes at most one of them late.
const STEPS: u32 = 4;

/// Measures how long upstream is silent; time without a poll does not count. A frame costs neither a clock read nor a
/// timer: the timer only checks whether any frame came since its last step.
struct IdleBody {
    body: Incoming,
    idle: Duration,
    /// Whether a frame came in the present step.
    heard: bool,
    /// Steps without a frame.
    quiet: u32,
    step: Option<Pin<Box<Sleep>>>,
    /// The waker of the task that waits.
    waker: Option<Waker>,
}

impl IdleBody {
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let known = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if known && self.step.as_ref().is_some_and(|s| !s.is_elapsed()) {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        let time = self.idle / STEPS;
        let step = self
            .step
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        while step.as_mut().poll(cx).is_ready() {
            let heard = std::mem::take(&mut self.heard);
            self.quiet = if heard { 0 } else { self.quiet + 1 };
            if self.quiet >= STEPS {
                let detail = format!("upstream sent nothing for {} s", self.idle.as_secs_f32());
                return Poll::Ready(Fault::because(Code::SILENT, detail));
            }
            step.as_mut().reset(Instant::now() + time);
        }
        Poll::Pending
    }
}

impl Body for IdleBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.poll_silence(cx).map(|fault| Some(Err(fault)));
            };
            self.heard = true;
            match polled {
                // Trailers are used by no provider.
                Some(Ok(frame)) if !frame.is_data() => {}
                polled => return Poll::Ready(polled.map(|frame| frame.map_err(Fault::closed))),
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
