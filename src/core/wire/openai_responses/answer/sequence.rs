//! The numbers of a response's events.

/// The number of the next event; upstream's own until an event was swallowed or put in.
#[derive(Default)]
pub(super) struct Sequence {
    next: u64,
    /// Whether events are counted here.
    ours: bool,
}

impl Sequence {
    /// From here on events are counted here: one was swallowed.
    pub(super) fn count(&mut self) {
        self.ours = true;
    }

    /// The number of an event of ours.
    pub(super) fn of_ours(&mut self) -> u64 {
        self.ours = true;
        self.next += 1;
        self.next - 1
    }

    /// The number of an event that is sent on, which upstream has `given` this one.
    pub(super) fn of_given(&mut self, given: u64) -> u64 {
        if !self.ours {
            self.next = given;
        }
        self.next += 1;
        self.next - 1
    }
}
