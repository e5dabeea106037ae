//! The number of messages in a conversation since its last handoff, as far as this process has seen.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages in the model's view after its carry-over prompt. Never fewer than there are: threads of one key, rewinds
/// and calls that the agent does not see only make it more.
#[derive(Debug, Default)]
pub struct ViewLength(
    /// One more than are known; 0: nothing is known.
    AtomicUsize,
);

impl ViewLength {
    /// A request has this many messages.
    pub fn saw(&self, messages: usize) {
        self.0.fetch_max(messages.saturating_add(1), Ordering::Relaxed);
    }

    /// The model has answered a request.
    pub fn answered(&self) {
        let one_more = |known: usize| (known > 0).then(|| known.saturating_add(1));
        // Where nothing is known, nothing is changed.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }

    /// All before it is cut.
    pub fn handed_over(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// How many, at most; `None`: not known.
    pub fn known(&self) -> Option<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_nothing_grows_with_requests_and_answers_and_ends_with_a_handoff() {
        let spoken = ViewLength::default();
        spoken.answered();
        assert_eq!(spoken.known(), None);
        spoken.saw(1);
        assert_eq!(spoken.known(), Some(1));
        spoken.answered();
        assert_eq!(spoken.known(), Some(2));
        spoken.saw(1);
        assert_eq!(spoken.known(), Some(2), "of another thread");
        spoken.handed_over();
        spoken.answered();
        assert_eq!(spoken.known(), Some(1));
        spoken.saw(7);
        assert_eq!(spoken.known(), Some(7));
    }
}
