//! Open connections and aborted requests, counted by guards that live as long as the counted thing.

use std::time::Duration;

use tokio::sync::watch;

/// Maximum time that [`Counts::wait`] waits: far longer than a loopback needs, and short enough for a test.
const MAX_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterValues {
    /// Number of open connections.
    pub(crate) open: usize,
    /// Number of requests that the client left before their reply was completely written.
    pub(crate) aborted: usize,
}

/// Counters of one provider.
#[derive(Default)]
pub(crate) struct Counts(watch::Sender<CounterValues>);

impl Counts {
    pub(crate) fn now(&self) -> CounterValues {
        *self.0.borrow()
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn connection(&self) -> OpenConnection {
        self.0.send_modify(|numbers| numbers.open += 1);
        OpenConnection(self.0.clone())
    }

    /// Counts a request as aborted unless the guard learns that it finished.
    pub(crate) fn request(&self) -> InFlight {
        InFlight {
            counts: self.0.clone(),
            done: false,
        }
    }

    /// Waits until `ready` holds. Returns false after 5 seconds.
    pub(crate) async fn wait(&self, ready: impl FnMut(&CounterValues) -> bool) -> bool {
        let mut numbers = self.0.subscribe();
        let waited = tokio::time::timeout(MAX_WAIT, numbers.wait_for(ready)).await;
        matches!(waited, Ok(Ok(_)))
    }
}

/// A request whose reply is not completely written yet.
pub(crate) struct InFlight {
    counts: watch::Sender<CounterValues>,
    done: bool,
}

impl InFlight {
    /// Records that the reply ended as planned.
    pub(crate) fn finish(&mut self) {
        self.done = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.done {
            self.counts.send_modify(|numbers| numbers.aborted += 1);
        }
    }
}

pub(crate) struct OpenConnection(watch::Sender<CounterValues>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|numbers| numbers.open -= 1);
    }
}
