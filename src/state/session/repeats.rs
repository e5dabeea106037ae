//! Remembers responses that may have been interrupted after a sentinel, so that a repeated request continues after
//! that handoff instead of making another one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::sync::locked;
use baton_core::record::HandoffId;

/// How long a repeat of an interrupted request continues after its handoff.
///
/// Agents retry within seconds. A user who returns later means a new turn.
pub const REPEAT_WITHIN_MS: u64 = 10 * 60 * 1000;

/// Maximum number of notes per key. The oldest is evicted first.
///
/// Conversations with the same opening share a key, and each may be interrupted at the same time.
const MAX_NOTES: usize = 32;

/// A response to an agent, with the handoffs that it shows.
///
/// All clones stand for one response, which is in progress until the last one is dropped.
#[derive(Debug, Clone, Default)]
pub struct LiveAnswer(Arc<Mutex<Vec<HandoffId>>>);

impl LiveAnswer {
    /// Returns the handoffs in the order in which they are shown.
    pub fn fired(&self) -> MutexGuard<'_, Vec<HandoffId>> {
        locked(&self.0)
    }
}

/// The notes of one key, oldest first.
#[derive(Default)]
pub(super) struct Repeats(VecDeque<SeenAnswer>);

struct SeenAnswer {
    body_hash: u64,
    handoff: HandoffId,
    at_ms: u64,
    /// The response. It was interrupted if its last holder is dropped while the note exists.
    answer: Weak<Mutex<Vec<HandoffId>>>,
}

/// Whether a note from `at_ms` is still valid.
///
/// A time in the future counts as valid, because another process, whose clock is ahead, may have written the note.
pub(super) fn in_time(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) <= REPEAT_WITHIN_MS
}

impl SeenAnswer {
    fn is_of(&self, answer: &LiveAnswer) -> bool {
        std::ptr::eq(self.answer.as_ptr(), Arc::as_ptr(&answer.0))
    }

    fn broke_off(&self) -> bool {
        self.answer.strong_count() == 0
    }
}

impl Repeats {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that `answer`, the response to a request with this body, last showed the sentinel of `handoff`.
    pub(super) fn remember(&mut self, body_hash: u64, handoff: HandoffId, answer: &LiveAnswer, now_ms: u64) {
        self.0.retain(|r| !r.is_of(answer) && in_time(r.at_ms, now_ms));
        if self.0.len() == MAX_NOTES {
            self.0.pop_front();
        }
        self.0.push_back(SeenAnswer {
            body_hash,
            handoff,
            at_ms: now_ms,
            answer: Arc::downgrade(&answer.0),
        });
    }

    /// Returns the handoff after which a request with this body continues, if it repeats an interrupted one.
    ///
    /// `answer` is the response to this request. An interrupted response is repeated by one request at a
    /// time. A response that seems to be in progress keeps its note: its agent may have timed out, or may be
    /// another agent.
    pub(super) fn take(&mut self, body_hash: u64, answer: &LiveAnswer, now_ms: u64) -> Option<HandoffId> {
        let fits = |r: &&SeenAnswer| r.body_hash == body_hash && in_time(r.at_ms, now_ms);
        // An interrupted response comes first. Its note is used up, so only one request repeats it.
        let broken = self.0.iter().position(|r| fits(&r) && r.broke_off());
        let handoff = match broken {
            Some(at) => self.0.remove(at).map(|r| r.handoff),
            None => self.0.iter().find(fits).map(|r| r.handoff),
        }?;
        self.remember(body_hash, handoff, answer, now_ms);
        Some(handoff)
    }

    /// Forgets a response whose end was delivered, since the same request is then a new one.
    ///
    /// Notes of other responses stay, except for those that it replaced.
    pub(super) fn forget(&mut self, answer: &LiveAnswer) {
        let Some(own) = self.0.iter().find(|r| r.is_of(answer)) else {
            return;
        };
        let (body_hash, handoff) = (own.body_hash, own.handoff);
        self.0.retain(|r| {
            let stood_in = r.body_hash == body_hash && r.handoff == handoff && r.broke_off();
            !r.is_of(answer) && !stood_in
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_handoffs_of_an_answer() {
        let answer = LiveAnswer::default();
        let clone = answer.clone();
        assert!(answer.fired().is_empty());
        answer.fired().push(HandoffId::from_u128(1));
        clone.fired().push(HandoffId::from_u128(2));
        assert_eq!(*answer.fired(), [1, 2].map(HandoffId::from_u128));
        assert_eq!(clone.fired().len(), 2);
    }
}
