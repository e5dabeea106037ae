//! Minimum rate of agents' request bodies.
//!
//! Without it, a few agents that send a byte now and then could hold all exchange permits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::state::config::LimitConfig;

/// Reason why an agent's body ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The rate fell below the minimum.
    #[error("the agent sent its request too slowly")]
    Slow,
    /// The connection or its framing broke. No source: the message is the one to report.
    #[error("the agent aborted its request")]
    Broken(hyper::Error),
}

/// Request body with a minimum rate.
///
/// The body must bring `least` bytes in each window of waiting time. Time without a poll does not count.
pub(super) struct MinRateBody {
    body: Incoming,
    least: u64,
    window: Duration,
    /// Bytes received in this window.
    came: u64,
    /// Time waited in this window.
    waited: Duration,
    /// Start of the current wait, if no data is available.
    since: Option<Instant>,
    /// Timer for the end of the window if nothing more arrives.
    over: Option<Pin<Box<Sleep>>>,
}

impl MinRateBody {
    /// Wraps `body` with the configured rate in bytes per second. A rate of 0 still requires a byte in each window.
    pub(super) fn new(body: Incoming, limits: &LimitConfig) -> Self {
        let window = limits.waits.rate_window;
        let least = (limits.body_rate as u64).saturating_mul(window.as_millis() as u64) / 1000;
        Self {
            body,
            least: least.max(1),
            window,
            came: 0,
            waited: Duration::ZERO,
            since: None,
            over: None,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Returns the next non-empty piece, or `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Stopped>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }

    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Stopped>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return self.poll_window(cx).map(|()| Some(Err(Stopped::Slow))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Stopped::Broken(error)))),
                // No provider uses trailers.
                Poll::Ready(Some(Ok(frame))) => {
                    match frame.into_data().ok().filter(|data| !data.is_empty()) {
                        Some(data) => {
                            self.note(data.len());
                            return Poll::Ready(Some(Ok(data)));
                        }
                        None => continue,
                    }
                }
            }
        }
    }

    fn note(&mut self, bytes: usize) {
        self.came += bytes as u64;
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        if self.waited >= self.window {
            // Nobody polled when the window ended, so the time of arrival is unknown: a new window begins.
            (self.came, self.waited) = (0, Duration::ZERO);
        }
    }

    /// Polls the window while no data is available. Ready when a window has ended with too little data.
    fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut since = *self.since.get_or_insert_with(Instant::now);
        loop {
            let end = since + self.window.saturating_sub(self.waited);
            let over = self
                .over
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if over.deadline() != end {
                over.as_mut().reset(end);
            }
            std::task::ready!(over.as_mut().poll(cx));
            if self.came < self.least {
                return Poll::Ready(());
            }
            since = Instant::now();
            (self.came, self.waited, self.since) = (0, Duration::ZERO, Some(since));
        }
    }
}
