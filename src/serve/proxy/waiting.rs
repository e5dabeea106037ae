//! Body of a streamed response that begins before the answer is ready: keep-alives, and the progress of a draft.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::Notify;

use super::download::PolledFrame;
use super::fault::Fault;
use super::response_body::ResponseBody;
use crate::state::sync::locked;
use baton_core::response::ProgressLine;
use baton_core::wire::LegMachine;
use tokio::time::{Instant, Sleep};

/// Progress of a draft as the agent sees it.
pub(crate) struct ShownDraft {
    line: Mutex<ProgressLine>,
    begun: Notify,
}

impl ShownDraft {
    pub(crate) fn new(line: ProgressLine) -> Self {
        Self {
            line: Mutex::new(line),
            begun: Notify::new(),
        }
    }

    pub(crate) fn line(&self) -> MutexGuard<'_, ProgressLine> {
        locked(&self.line)
    }

    /// Shows the progress line, unless it is already shown.
    pub(crate) fn begin(&self) {
        if self.line().begin() {
            self.begun.notify_one();
        }
    }

    /// Waits until the line is shown.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Ends the line with the draft's result.
    pub(crate) fn end(&self, result: &str) {
        self.line().end(result);
    }
}

/// Body that sends keep-alives and progress until the answer's own body is ready, and then that body.
pub(crate) struct WaitingBody {
    shown: Option<Arc<ShownDraft>>,
    /// Machine whose keep-alives suit a stream that has not begun.
    machine: LegMachine,
    work: Pin<Box<dyn Future<Output = ResponseBody> + Send>>,
    /// The answer's own body, once it is ready.
    answer: Option<Box<ResponseBody>>,
    quiet: KeepAlive,
}

impl WaitingBody {
    /// Creates the body of the answer that `work` produces. A keep-alive is due after a silence of `every`.
    pub(crate) fn new(
        shown: Option<Arc<ShownDraft>>,
        machine: LegMachine,
        every: Duration,
        work: impl Future<Output = ResponseBody> + Send + 'static,
    ) -> Self {
        let is_begun = shown.as_ref().is_some_and(|shown| shown.line().is_begun());
        Self {
            shown,
            machine,
            work: Box::pin(work),
            answer: None,
            // If the progress line is already shown, no keep-alive is due yet.
            quiet: match is_begun {
                true => KeepAlive::new(every),
                false => KeepAlive::at_once(every),
            },
        }
    }

    /// Takes the part of the progress that is ready to send.
    fn shown(&self) -> Option<Bytes> {
        self.shown.as_ref()?.line().take()
    }
}

impl Body for WaitingBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            // Progress that is ready precedes the answer's own body.
            if let Some(shown) = self.shown() {
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            if let Some(body) = &mut self.answer {
                return Pin::new(&mut **body).poll_frame(cx);
            }
            if let Poll::Ready(body) = self.work.as_mut().poll(cx) {
                self.answer = Some(Box::new(body));
                continue;
            }
            // Polling `work` may have added to the progress.
            if let Some(shown) = self.shown() {
                self.quiet.sent();
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            ready!(self.quiet.poll(cx));
            let shown = self.shown.as_ref();
            if shown.is_some_and(|shown| shown.line().keep_alive()) {
                continue;
            }
            let mut out = Vec::new();
            self.machine.keepalive(&mut out);
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.concat().into()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // The progress line may still hold text to send.
        let is_over = self.answer.as_ref().is_some_and(|body| body.is_end_stream());
        is_over && self.shown.is_none()
    }
}

/// Timer that becomes ready whenever a keep-alive is due.
pub(crate) struct KeepAlive {
    every: Duration,
    /// `None` if the silence has just begun.
    due: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    /// Creates a timer whose first keep-alive is due after a silence.
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, due: None }
    }

    /// Creates a timer whose first keep-alive is due at once.
    pub(crate) fn at_once(every: Duration) -> Self {
        let due = Some(Box::pin(tokio::time::sleep(Duration::ZERO)));
        Self { every, due }
    }

    /// Restarts the silence after something was sent.
    pub(crate) fn sent(&mut self) {
        self.due = None;
    }

    /// Becomes ready when a keep-alive is due. The interval restarts, so a wire with nothing to emit is not
    /// polled at once.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let every = self.every;
        let due = self
            .due
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        ready!(due.as_mut().poll(cx));
        due.as_mut().reset(Instant::now() + every);
        Poll::Ready(())
    }
}
