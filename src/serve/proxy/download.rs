//! Response bodies from upstream: reports silence as an error and decodes an unrequested content coding.

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

/// Result of polling a response body.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, Fault>>>;

/// Response body from upstream. Dropping it closes the connection, unless the body was at its end.
pub struct UpstreamBody {
    source: DownloadSource,
    /// Copy for the journal. Boxed, because most bodies are relayed and have none.
    copy: Option<Box<BodyCapture>>,
}

enum DownloadSource {
    Plain(IdleBody),
    Decoded(ReaderStream<Pin<Box<dyn tokio::io::AsyncRead + Send>>>),
}

/// Maximum wait for the end of a body whose last event was seen.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Maximum decoded bytes per frame.
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

    /// Returns the body with every frame copied into `copy`.
    pub(crate) fn copied(self, copy: BodyCapture) -> Self {
        Self {
            copy: Some(Box::new(copy)),
            ..self
        }
    }

    /// Reads and discards the rest in the background, for a limited time.
    ///
    /// A body that is read to its end returns its connection to the pool. One that is dropped earlier closes it.
    pub fn drained(mut self) {
        // The last event was seen, and the exchange may be over before the remaining bytes arrive.
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

    /// Returns the body as plain text, whatever coding upstream used.
    ///
    /// Streams stay streams: each flush of upstream's encoder comes out at once.
    ///
    /// # Errors
    /// Returns the unchanged body if its coding is unknown, so that it can be relayed.
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
            // An earlier call decoded the body.
            (_, decoded) => Ok(Self::from_source(decoded)),
        }
    }

    /// Returns the next piece, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Fault>> {
        let frame = self.frame().await?;
        Some(frame.map(|f| f.into_data().unwrap_or_default()))
    }

    /// Reads the whole body if it has at most `limit` bytes.
    ///
    /// A body of one piece is neither copied nor counted. A joined body counts against `budget` until its
    /// last slice is dropped.
    ///
    /// # Errors
    /// Upstream aborted, was silent, or sent more than `limit`, or `budget` had no room in time.
    pub(crate) async fn whole(self, limit: usize, budget: &Budget) -> Result<Bytes, Fault> {
        whole(self, limit, budget).await
    }

    /// Copies a polled frame into the capture.
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

/// Reads a whole body, like [`UpstreamBody::whole`].
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

/// Recovers the fault that passed through the decoder as an I/O error, or wraps the decoder's own error.
fn as_fault(error: io::Error) -> Fault {
    error.downcast().unwrap_or_else(|error| {
        let detail = format!("upstream's compressed body cannot be read: {error}");
        Fault::because(Code::UNREADABLE, detail)
    })
}

/// Number of steps in which silence is measured. A fault comes at most one step late.
const STEPS: u32 = 4;

/// Body that measures how long upstream is silent. Time without a poll does not count.
///
/// A frame costs neither a clock read nor a timer: the timer only checks whether any frame came since its last step.
struct IdleBody {
    body: Incoming,
    idle: Duration,
    /// Whether a frame came in the current step.
    heard: bool,
    /// Consecutive steps without a frame.
    quiet: u32,
    step: Option<Pin<Box<Sleep>>>,
    /// Waker of the waiting task.
    waker: Option<Waker>,
}

impl IdleBody {
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        // Nothing to do while the running step will wake this task.
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
                // No provider uses trailers.
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
