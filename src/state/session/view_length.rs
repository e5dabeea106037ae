//! Number of messages in the model's view.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Upper bound for the messages in the model's view after its carry-over prompt.
///
/// Branches of one key, rewinds, and calls hidden from the agent can only make the count too high.
#[derive(Debug, Default)]
pub struct ViewLength(
    /// Known count plus one. 0 means unknown.
    AtomicUsize,
);

impl ViewLength {
    /// Raises the count to the number of messages in a request.
    pub fn saw(&self, messages: usize) {
        self.0.fetch_max(messages.saturating_add(1), Ordering::Relaxed);
    }

    /// Counts the model's response to a request.
    pub fn answered(&self) {
        let one_more = |known: usize| (known > 0).then(|| known.saturating_add(1));
        // An unknown count stays unknown.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }

    /// Resets the count after a handoff.
    pub fn handed_over(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Returns the maximum number of messages, or `None` if unknown.
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
