//! A minimum rate for agents' request bodies. Without it a few agents that send a byte now and then could hold all
//! exchange permits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::state::config::LimitConfig;

/// Why no more of an agent's body comes.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The rate fell below the minimum.
    Slow,
    /// The connection broke off, or the framing.
    Broken(hyper::Error),
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Slow => "the agent was too slow with its request",
            Self::Broken(_) => "the agent broke off its request",
        })
    }
}

// Without a source: the text above is what is reported.
impl std::error::Error for Stopped {}

/// The body. It must bring `least` bytes in each window of time that is spent on waiting for it; time in which nobody
/// asks for more is not counted.
pub(super) struct MinRateBody {
    body: Incoming,
    least: u64,
    window: Duration,
    /// Bytes in this window.
    came: u64,
    /// Time waited in this window.
    waited: Duration,
    /// Since when nothing has been there.
    since: Option<Instant>,
    /// When the window is over if nothing more comes.
    over: Option<Pin<Box<Sleep>>>,
}

impl MinRateBody {
    /// With a minimum rate in bytes per second; 0 requires a byte in each window.
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

    /// The next piece, which is not empty; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Stopped>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }

    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Stopped>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return self.poll_window(cx).map(|()| Some(Err(Stopped::Slow))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Stopped::Broken(error)))),
                // Trailers are used by no provider.
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
            // Nobody polled when the window was over, so the time of arrival is unknown.
            (self.came, self.waited) = (0, Duration::ZERO);
        }
    }

    /// Poll this while no data is available. Ready when a window has ended with too little data.
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
