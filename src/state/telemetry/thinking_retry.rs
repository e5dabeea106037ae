//! The outcome of a retry without thinking.

/// The outcome of sending a pinned request again without the thinking that upstream had refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThinkingRetry {
    /// Upstream answered it; later requests leave the same thinking out.
    Accepted,
    /// It failed, too.
    Refused,
}

impl ThinkingRetry {
    /// Every outcome.
    pub const ALL: [Self; 2] = [Self::Accepted, Self::Refused];

    /// The name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
        }
    }
}
