//! What the commands over the store share.

use std::time::{SystemTime, UNIX_EPOCH};

use super::exit::{Exit, Failure};
use super::output::visible;
use crate::record::Handoff;
use crate::store::StoreError;

pub(super) fn unanswered(error: StoreError) -> Failure {
    let message = format!("the store does not answer: {}", visible(&error.message));
    Failure::new(Exit::UNAVAILABLE, message)
}

/// The line that a session which goes on from a handoff begins with.
pub(super) fn resume_line(handoff: &Handoff) -> String {
    format!("[[handoff-resume:{}]]", handoff.id)
}

pub(super) fn now_ms() -> u64 {
    // A clock before 1970 makes everything new.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
