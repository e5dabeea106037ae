//! Body of a response to the agent.
//!
//! The server polls the body, which polls its source directly: there is neither a task nor a channel in
//! between. Dropping the body also drops the upstream connection.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::download::PolledFrame;
use super::exchange_recorder::ExchangeRecorder;
use super::fault::{Code, Fault};
use crate::state::journal::BodyCapture;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::response::StreamMerge;
use baton_core::wire::LegReport;

/// A response to an agent.
pub type AgentResponse = Response<ResponseBody>;

/// Boxed stream, merged or otherwise computed.
pub type BoxedStream = Pin<Box<dyn Body<Data = Bytes, Error = Fault> + Send>>;

/// Response body for the agent.
pub struct ResponseBody {
    source: ResponseSource,
    /// Frame polled before the head was sent. `Some(None)` is the end of the body.
    ahead: Option<Option<Frame<Bytes>>>,
    /// Fault of the source, held back until the server has flushed earlier data.
    failed: Option<Fault>,
    guard: Option<ExchangeGuard>,
    handed_over: Option<Box<dyn FnOnce() + Send>>,
}

/// Maximum wait of a response head for the first piece of its body.
///
/// A broken body is mostly broken from its first byte on, which comes with the head. Until the head is sent,
/// a status can report it.
const FIRST_PIECE: Duration = Duration::from_millis(250);

enum ResponseSource {
    Whole(Option<Bytes>),
    Stream(BoxedStream),
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Self::whole(text)
    }
}

impl ResponseBody {
    /// Creates a complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(ResponseSource::Whole(
            Some(bytes.into()).filter(|b| !b.is_empty()),
        ))
    }

    /// Creates a streamed body, from upstream or synthetic.
    ///
    /// An error or a panic ends the connection to the agent without a proper end of the body.
    pub fn stream(body: impl Body<Data = Bytes, Error = Fault> + Send + 'static) -> Self {
        Self::new(ResponseSource::Stream(Box::pin(body)))
    }

    fn new(source: ResponseSource) -> Self {
        Self {
            source,
            ahead: None,
            failed: None,
            guard: None,
            handed_over: None,
        }
    }

    /// Calls `then` when the server has taken the last byte. If the agent leaves earlier, `then` is only dropped.
    pub(crate) fn on_sent(self, then: impl FnOnce() + Send + 'static) -> Self {
        Self {
            handed_over: Some(Box::new(then)),
            ..self
        }
    }

    /// Waits briefly for the first piece. Returns the fault if there will be none.
    pub(super) async fn begun(mut self) -> Result<Self, Fault> {
        // A complete body cannot fail.
        if self.is_end_stream() || matches!(self.source, ResponseSource::Whole(_)) {
            return Ok(self);
        }
        let first = poll_fn(|cx| self.poll_source(cx));
        match tokio::time::timeout(FIRST_PIECE, first).await {
            Ok(Some(Err(fault))) => return Err(fault),
            Ok(polled) => self.ahead = Some(polled.and_then(Result::ok)),
            Err(_) => {}
        }
        Ok(self)
    }

    /// Counts bytes in `recorder`, copies them into `shown`, and holds `permit` until the body is dropped.
    pub(super) fn guarded(
        self,
        recorder: ExchangeRecorder,
        shown: BodyCapture,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        // An empty body is never polled, so it has ended from the start.
        let ended = self.is_end_stream();
        let guard = ExchangeGuard {
            shown,
            recorder,
            _permit: permit,
            sent: 0,
            ended,
        };
        Self {
            guard: Some(guard),
            ..self
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(ahead.map(Ok));
        }
        match &mut self.source {
            ResponseSource::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            ResponseSource::Stream(body) => {
                // A panic becomes a fault, so that the exchange is recorded as truncated and other
                // connections stay intact.
                let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll_frame(cx)));
                polled.unwrap_or_else(|_| Poll::Ready(Some(Err(Code::INTERNAL.into()))))
            }
        }
    }

    /// Polls the source, and returns a fault one poll late.
    ///
    /// On a fault the server drops the connection with everything not yet written, including the head: the
    /// agent would get an empty reply. While the body is pending, the server flushes.
    fn poll_flushed(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        if let Some(fault) = self.failed.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        match self.poll_source(cx) {
            Poll::Ready(Some(Err(fault))) => {
                self.failed = Some(fault);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = self.poll_flushed(cx);
        if let Poll::Ready(frame) = &polled {
            // The server does not poll for the end of a body whose length it knows.
            let ended = frame.is_none() || self.is_end_stream();
            if let Some(guard) = &mut self.guard {
                guard.saw(frame.as_ref(), ended);
            }
            if ended && let Some(then) = self.handed_over.take() {
                then();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if let Some(ahead) = &self.ahead {
            return ahead.is_none();
        }
        match &self.source {
            ResponseSource::Whole(bytes) => bytes.is_none(),
            ResponseSource::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.source {
            ResponseSource::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            ResponseSource::Stream(body) => body.size_hint(),
        };
        // The frame that was polled ahead still counts as part of the body.
        let ahead = self.ahead.as_ref().and_then(Option::as_ref);
        let Some(ahead) = ahead.and_then(Frame::data_ref) else {
            return rest;
        };
        let ahead = ahead.len() as u64;
        let mut all = SizeHint::new();
        all.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            all.set_upper(upper + ahead);
        }
        all
    }
}

/// State that lives as long as the body.
struct ExchangeGuard {
    /// Dropped before the recorder, so that the end of the exchange is recorded last.
    shown: BodyCapture,
    recorder: ExchangeRecorder,
    _permit: Option<OwnedSemaphorePermit>,
    sent: u64,
    ended: bool,
}

impl ExchangeGuard {
    fn saw(&mut self, frame: Option<&Result<Frame<Bytes>, Fault>>, ended: bool) {
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.sent += data.len() as u64;
                    self.shown.push(data);
                }
            }
            Some(Err(_)) => self.recorder.decide(ExchangeOutcome::Truncated),
            None => {}
        }
        self.ended |= ended;
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        self.recorder.note(|e| e.response_bytes = self.sent);
        // A body that is dropped before its end leaves the outcome as decided, or `Cancelled`.
        if self.ended {
            self.shown.ended();
            self.recorder.decide(ExchangeOutcome::Complete);
        }
    }
}

/// Relayed body that feeds each frame to a [`StreamMerge`].
pub(crate) struct TeeBody<B, F> {
    body: B,
    merge: StreamMerge,
    /// Callback for the leg's report, taken when the leg has ended.
    over: Option<F>,
}

impl<B, F: FnOnce(&LegReport)> TeeBody<B, F> {
    pub(crate) fn new(body: B, merge: StreamMerge, over: F) -> Self {
        Self {
            body,
            merge,
            over: Some(over),
        }
    }

    /// Feeds a polled frame to the merge, or the end if it is `None`. The merge's output is discarded.
    fn saw(&mut self, polled: Option<&Result<Frame<Bytes>, Fault>>) {
        if self.over.is_none() || self.merge.failed {
            return;
        }
        match polled {
            None => self.merge.finish_leg(&mut Vec::new()),
            Some(Ok(frame)) => {
                let chunk = frame.data_ref().cloned().unwrap_or_default();
                self.merge.feed(chunk, &mut Vec::new());
            }
            Some(Err(_)) => {}
        }
        if (polled.is_none() || self.merge.leg_ended())
            && let Some(over) = self.over.take()
        {
            over(self.merge.report());
        }
    }
}

impl<B, F> Body for TeeBody<B, F>
where
    B: Body<Data = Bytes, Error = Fault> + Unpin,
    F: FnOnce(&LegReport) + Unpin,
{
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            self.saw(frame.as_ref());
        }
        polled
    }
}
