//! Timer for keep-alives, which are due when the agent was sent nothing for the configured interval.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

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
