//! A session that is tried.

use baton_core::trial::{Reckoned, RecordedSession};

/// A session as it is recorded, and as it is reckoned.
pub(super) struct Tried {
    pub(super) session: RecordedSession,
    pub(super) reckoned: Reckoned,
}
