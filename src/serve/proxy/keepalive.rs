//! When a keep-alive is due: nothing was sent to the agent for as long as the config says.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Becomes ready whenever a keep-alive is due.
pub(crate) struct KeepAlive {
    every: Duration,
    /// `None`: the silence has just begun.
    due: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    /// The first one is due after a silence.
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, due: None }
    }

    /// The first one is due at once.
    pub(crate) fn at_once(every: Duration) -> Self {
        let due = Some(Box::pin(tokio::time::sleep(Duration::ZERO)));
        Self { every, due }
    }

    /// Something was sent: the silence starts again.
    pub(crate) fn sent(&mut self) {
        self.due = None;
    }

    /// Ready where one is due. A wire that has nothing to emit yet is polled again later, and not at once.
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
