//! Later legs: their requests, the statuses that allow another attempt, the number of attempts, and the
//! pauses between them.

use std::time::Duration;

use super::PlannedRequest;
use crate::record::{Handoff, HandoffId};
use crate::rewrite::{Cut, Rewrite, RewriteOutcome};

/// First pause. Each further attempt doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Maximum pause that baton chooses itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Retries of later legs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum retries of one leg.
    pub retries: u32,
    /// Maximum sum of the pauses in one response. Beyond it the response ends with its sentinel, and the agent's
    /// next request continues.
    pub pauses: Duration,
}

/// Request of a later leg.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextLeg {
    /// Preamble and carry-over prompt of the handoff that the leg starts after; `None` keeps the first leg's
    /// cut.
    pub head: Option<String>,
    /// Model that replaces the requested one.
    pub routed: Option<String>,
    /// Elements to append.
    pub more: Vec<String>,
    /// Handoff that was shown last.
    pub after: Option<HandoffId>,
    /// First turn of the agent's transcript that follows the head; `None` if no turn does.
    pub kept_from: Option<usize>,
}

impl NextLeg {
    /// Creates a leg with a fresh context after this handoff.
    ///
    /// `head` holds its preamble and carry-over prompt, as elements.
    pub fn after(handoff: HandoffId, head: String, routed: Option<String>) -> Self {
        Self {
            head: Some(head),
            routed,
            more: Vec::new(),
            after: Some(handoff),
            kept_from: None,
        }
    }
}

impl PlannedRequest<'_> {
    /// Builds the request of a later leg: with a fresh context after a handoff, or the first leg's request
    /// with more appended.
    pub fn later_leg(&self, leg: &NextLeg) -> RewriteOutcome {
        let view = match &leg.head {
            Some(head) => self.after(head, leg.routed.as_deref(), leg.kept_from),
            // A leg without a handoff answers a call of the model, so the request must still offer the tool.
            None => self.as_received(true),
        };
        let what = Rewrite {
            more: &leg.more,
            ..view
        };
        self.rewritten(&what).cut_at(leg.after.or(self.pin.active_id()))
    }

    /// Builds the request of a leg with a fresh context after a handoff.
    pub fn fresh(&self, handoff: &Handoff) -> RewriteOutcome {
        let kept_from = self.kept_from(handoff);
        self.rewritten(&self.after(&handoff.head, handoff.routed.as_deref(), kept_from))
    }

    /// First turn of this request that stays after a handoff made with it.
    pub fn kept_from(&self, handoff: &Handoff) -> Option<usize> {
        let kept = handoff.kept.as_ref()?;
        Some(self.reading.view.leading() + kept.from.turns)
    }

    /// Describes a request that begins with `head`, the start of a fresh context after a handoff in this response.
    ///
    /// `routed` is the model that the handoff names, if any.
    fn after<'b>(&'b self, head: &'b str, routed: Option<&'b str>, kept_from: Option<usize>) -> Rewrite<'b> {
        let recalls = self.offer.recall_next;
        Rewrite {
            cut: match kept_from {
                Some(turn) => Cut::BeforeTurn { turn, head },
                None => Cut::Fresh { head },
            },
            // The thinking of the kept turns is bound to the history that was cut.
            omitted: kept_from.map(|_| self.reading.view.turns.len()),
            tools: Some(self.policy.tools.with(recalls, recalls)),
            model: self.known_model(routed),
            ..self.as_received(true)
        }
    }
}

/// Whether a leg with this status may be sent again.
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// Attempts of one leg.
///
/// All failures count together: a refusal, no response, a broken response, and an error under a status of
/// success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LegAttempts {
    failed: u32,
    policy: RetryPolicy,
    /// Sum of the pauses so far.
    paused: Duration,
}

impl LegAttempts {
    /// Creates the attempts of the first leg.
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self {
            failed: 0,
            policy,
            paused: Duration::ZERO,
        }
    }

    /// Creates the attempts of the next leg of the same response, with as many retries.
    pub(crate) fn of_next_leg(self) -> Self {
        Self { failed: 0, ..self }
    }

    /// Number of failed attempts.
    pub(crate) fn failed(self) -> u32 {
        self.failed
    }

    /// Records a failed attempt, with the pause that upstream requested.
    ///
    /// Returns the pause before the next attempt, if there is one.
    pub(crate) fn fail(&mut self, requested: Option<Duration>) -> Option<Duration> {
        // Upstream knows best when it accepts requests again.
        let pause = requested.unwrap_or_else(|| backoff(self.failed));
        self.failed += 1;
        let paused = self.paused.saturating_add(pause);
        if self.failed > self.policy.retries || paused > self.policy.pauses {
            return None;
        }
        self.paused = paused;
        Some(pause)
    }
}

fn backoff(attempt: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempt));
    pause.min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_together_and_pauses_grow() {
        let policy = RetryPolicy {
            retries: 3,
            pauses: Duration::from_secs(90),
        };
        let mut tries = LegAttempts::new(policy);
        let requested = Some(Duration::ZERO);
        assert_eq!(tries.fail(None), Some(FIRST_PAUSE));
        assert_eq!(tries.fail(requested), requested);
        assert_eq!(tries.fail(None), Some(4 * FIRST_PAUSE));
        assert_eq!(tries.fail(None), None);
        assert_eq!(tries.of_next_leg().fail(None), Some(FIRST_PAUSE));
        let none = RetryPolicy { retries: 0, ..policy };
        assert_eq!(LegAttempts::new(none).fail(None), None);
    }

    #[test]
    fn the_pauses_of_a_response_have_a_limit() {
        let minute = Some(LONGEST_PAUSE);
        let mut tries = LegAttempts::new(RetryPolicy {
            retries: 9,
            pauses: 2 * LONGEST_PAUSE,
        });
        assert_eq!(tries.fail(Some(3 * LONGEST_PAUSE)), None);
        assert_eq!(tries.fail(minute), minute);
        let mut next = tries.of_next_leg();
        assert_eq!(next.fail(minute), minute);
        assert_eq!(next.fail(minute), None);
    }

    #[test]
    fn a_refusal_that_may_pass_is_retried() {
        for status in [408, 429, 500, 503, 529] {
            assert!(is_retryable(status), "{status}");
        }
        for status in [200, 400, 401, 403, 404, 413, 422] {
            assert!(!is_retryable(status), "{status}");
        }
    }
}
