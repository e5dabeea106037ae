//! Aborted requests, counted by guards that live as long as the request.

use std::time::Duration;

use tokio::sync::watch;

/// Maximum time that [`Aborted::wait`] waits: far longer than a loopback needs, and short enough for a test.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Number of requests that the client left before their reply was completely written.
#[derive(Default)]
pub(crate) struct Aborted(watch::Sender<usize>);

impl Aborted {
    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Counts a request as aborted unless the guard learns that it finished.
    pub(crate) fn request(&self) -> InFlight {
        InFlight {
            aborted: self.0.clone(),
            done: false,
        }
    }

    /// Waits until at least `requests` are aborted. Returns false after 5 seconds.
    pub(crate) async fn wait(&self, requests: usize) -> bool {
        let mut aborted = self.0.subscribe();
        let waited = tokio::time::timeout(MAX_WAIT, aborted.wait_for(|aborted| *aborted >= requests)).await;
        matches!(waited, Ok(Ok(_)))
    }
}

/// A request whose reply is not completely written yet.
pub(crate) struct InFlight {
    aborted: watch::Sender<usize>,
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
            self.aborted.send_modify(|aborted| *aborted += 1);
        }
    }
}
