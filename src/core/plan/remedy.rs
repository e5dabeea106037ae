//! What is sent in place of a request that upstream refused with a 400.
//!
//! Thinking that is refused is bound to a prefix that the request no longer has. A handoff that was undone leaves such
//! thinking. So does a stretch in which the store was offline: the model had no tool then, and did not see the hidden calls.
//!
//! Anthropic documents two remedies: the beta setting `drop_block`, and leaving the thinking out. baton does the
//! second. With `drop_block` the API drops all later thinking, too, for as long as the refused blocks are sent. If
//! thinking is left out from the front of the stretch, later thinking stays valid. Leaving it out also needs no beta,
//! which gateways may not pass on. <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>

use super::{InsertionPoints, PlannedRequest, is_agent_loop, is_retryable};
use crate::record::{RecordChange, ThinkingOmission};
use crate::rewrite::untooled::{self, ToolOmission};
use crate::rewrite::{ChangeReason, RewriteOutcome, positions};

/// Whether a status may mean that upstream does not know the model, or does not give it to this account.
pub fn refuses_model(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 422)
}

/// Whether the answer to a retry replaces the refusal: a retryable status lets the agent try again, and a 400 does not.
pub fn replaces_refusal(status: u16) -> bool {
    (200..300).contains(&status) || is_retryable(status)
}

/// A request that is sent in place of a refused one.
#[derive(Debug)]
pub struct Retry {
    pub request: RewriteOutcome,
    /// Whether it has the tool, where that is a change.
    pub tooled: Option<bool>,
    /// The turn up to which it has no thinking after its cut, where that is a change.
    pub omitted: Option<usize>,
}

impl Retry {
    /// Whether there may be another one, should upstream refuse this one, too.
    pub fn may_be_followed(&self) -> bool {
        self.tooled == Some(true) && self.omitted.is_none()
    }
}

impl PlannedRequest<'_> {
    /// That upstream took the request without its thinking: every later request of the stretch has the same view. A side call
    /// is no request of the stretch, and what upstream stores of a transcript cannot be left out.
    pub fn thinking_omission(&self) -> Option<RecordChange> {
        let view = &self.reading.view;
        let is_of_stretch = is_agent_loop(view, self.call.operation) && !self.call.side_call;
        is_of_stretch.then(|| {
            RecordChange::ThinkingOmitted(ThinkingOmission {
                handoff: self.pin.stretch(),
                position: positions::of(view),
            })
        })
    }

    /// Whether a refusal of the request may have a remedy.
    pub fn may_be_retried(&self) -> bool {
        let facts = self.reading.view.wire().facts();
        facts.binds_prefixes() || self.pin.active.is_some() && facts.may_refuse_thinking()
    }

    /// What is sent in place of the request, with the change that may help against this error. `None`: the error is passed on.
    /// The tool of a pinned request stays, since its prefix has it. So does one that the transcript needs: hidden calls and texts
    /// of ours exist only next to it.
    pub fn retry(&self, error: &[u8], sent: &RewriteOutcome) -> Option<Retry> {
        let (facts, was_tooled) = (self.reading.view.wire().facts(), self.offer.tooled);
        if self.pin.active.is_some() || was_tooled && self.places.are_any() {
            let refused = facts.refuses_thinking(error);
            return refused.then(|| self.without_thinking(sent, None)).flatten();
        }
        let has_room = untooled::no_room(&self.reading.view).is_none();
        let may_toggle = has_room && (was_tooled || self.call.forbidden.is_none());
        (may_toggle && facts.is_prefix_mismatch(error)).then(|| Retry {
            request: self.first(!was_tooled),
            tooled: Some(!was_tooled),
            omitted: None,
        })
    }

    /// What is sent in place of a retry that was refused, too. It is the request of a conversation that baton did not know.
    /// Upstream refuses it without the tool and with it, since its thinking is bound to hidden calls that the store has lost.
    /// Sent with the tool, so that the conversation has it again.
    pub fn retry_again(&self, error: &[u8], before: &Retry) -> Option<Retry> {
        let is_bound = self.offer.untooled == Some(ToolOmission::BoundHistory);
        let may_help = before.may_be_followed()
            && is_bound
            && self.reading.view.wire().facts().is_prefix_mismatch(error);
        may_help
            .then(|| self.without_thinking(&before.request, Some(true)))
            .flatten()
    }

    /// The request without any thinking after its cut; `None` where it has none that was sent.
    pub fn without_thinking(&self, sent: &RewriteOutcome, tooled: Option<bool>) -> Option<Retry> {
        let omitted = Some(self.reading.view.turns.len());
        let places = InsertionPoints {
            omitted,
            ..self.places.clone()
        };
        let without = PlannedRequest {
            places: &places,
            ..*self
        };
        let request = without.first(tooled.unwrap_or(self.offer.tooled));
        (left_out(&request) > left_out(sent)).then_some(Retry {
            request,
            tooled,
            omitted,
        })
    }
}

/// Bytes of thinking that a request leaves out.
fn left_out(rewritten: &RewriteOutcome) -> usize {
    let changes = rewritten.changes.iter();
    changes
        .filter(|change| change.why == ChangeReason::Thinking)
        .map(|change| change.removed)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_refused_by_an_error_of_the_request() {
        assert!([400, 403, 404, 422].into_iter().all(refuses_model));
        assert!(![200, 401, 413, 429, 500, 529].into_iter().any(refuses_model));
    }

    #[test]
    fn only_a_status_that_helps_the_agent_more_replaces_a_400() {
        for code in [200, 201, 408, 429, 500, 503, 529] {
            assert!(replaces_refusal(code), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 422] {
            assert!(!replaces_refusal(code), "{code}");
        }
    }
}
