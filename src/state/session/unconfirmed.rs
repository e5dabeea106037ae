//! Ends of answers that were written to a socket, without confirmation yet that the agent got them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::state::sync::locked;

/// How long a later request of the conversation waits for the connection of an earlier answer to report an error. An agent that
/// leaves an answer resets its connection before it sends the next request, so that the error is only to be noticed.
const GRACE: Duration = Duration::from_millis(50);

/// Ends of one conversation that later requests look at; an older one is settled by its connection alone.
const KEPT: usize = 32;

type EndHook = Box<dyn FnOnce() + Send>;

/// The end of one answer, and what follows from its delivery. Clones are the same end.
#[derive(Clone)]
pub struct UnconfirmedEnd(Arc<PendingEnd>);

struct PendingEnd {
    /// `None`: settled.
    then: Mutex<Option<EndHook>>,
    settled: Notify,
}

impl UnconfirmedEnd {
    /// An end whose delivery is followed by `then`.
    pub fn new(then: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(PendingEnd {
            then: Mutex::new(Some(Box::new(then))),
            settled: Notify::new(),
        }))
    }

    /// The agent has it, or is assumed to have it. Does nothing if the end is already settled. Call it within the runtime.
    pub fn delivered(&self) {
        // Under the lock: who finds it settled finds what follows done, too.
        let mut then = self.then();
        if let Some(then) = then.take() {
            then();
        }
        drop(then);
        self.0.settled.notify_waiters();
    }

    /// The agent left before it had all of it.
    pub fn lost(&self) {
        let then = self.then().take();
        drop(then);
        self.0.settled.notify_waiters();
    }

    fn is_settled(&self) -> bool {
        self.then().is_none()
    }

    /// Waits until it is settled, for at most `time`.
    async fn settled_within(&self, time: Duration) {
        let mut settled = std::pin::pin!(self.0.settled.notified());
        settled.as_mut().enable();
        if !self.is_settled() {
            // What is still unsettled then, the caller settles.
            let _ = tokio::time::timeout(time, settled).await;
        }
    }

    fn then(&self) -> MutexGuard<'_, Option<EndHook>> {
        locked(&self.0.then)
    }
}

/// The unconfirmed ends of one conversation, oldest first. Their connections own them.
#[derive(Default)]
pub(super) struct UnconfirmedEnds(Mutex<VecDeque<Weak<PendingEnd>>>);

impl UnconfirmedEnds {
    pub(super) fn add(&self, end: &UnconfirmedEnd) {
        let mut ends = self.ends();
        if ends.len() == KEPT {
            ends.pop_front();
        }
        ends.push_back(Arc::downgrade(&end.0));
    }

    /// Whether any may be unsettled.
    pub(super) fn are_any(&self) -> bool {
        !self.ends().is_empty()
    }

    /// Settles all: an answer whose connection stays open without an error counts as delivered.
    pub(super) async fn settle(&self) {
        while let Some(end) = self.next() {
            end.settled_within(GRACE).await;
            end.delivered();
        }
    }

    fn next(&self) -> Option<UnconfirmedEnd> {
        let mut ends = self.ends();
        loop {
            let end = UnconfirmedEnd(match ends.pop_front()?.upgrade() {
                Some(end) => end,
                None => continue,
            });
            if !end.is_settled() {
                // It stays listed for requests that come meanwhile.
                ends.push_front(Arc::downgrade(&end.0));
                return Some(end);
            }
        }
    }

    fn ends(&self) -> MutexGuard<'_, VecDeque<Weak<PendingEnd>>> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counted() -> (Arc<AtomicUsize>, UnconfirmedEnd) {
        let count = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&count);
        let end = UnconfirmedEnd::new(move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        (count, end)
    }

    #[test]
    fn an_end_is_settled_once() {
        let (count, end) = counted();
        end.delivered();
        end.delivered();
        end.lost();
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let (count, end) = counted();
        end.lost();
        end.delivered();
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_later_request_waits_for_an_error_and_no_longer() {
        let ends = UnconfirmedEnds::default();
        let (quiet, open) = counted();
        let (left, reset) = counted();
        let (dropped, gone) = counted();
        for end in [&gone, &open, &reset] {
            ends.add(end);
        }
        drop(gone);
        let begun = tokio::time::Instant::now();
        tokio::join!(ends.settle(), ends.settle(), async {
            tokio::time::sleep(GRACE / 2).await;
            reset.lost();
        });
        let counts = [quiet, left, dropped].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 0, 0]);
        assert!(begun.elapsed() >= GRACE && !ends.are_any());
    }
}
