//! Modified requests that replace one that upstream refused with a 400.
//!
//! Refused thinking is bound to a prefix that the request no longer has. An undone handoff leaves such
//! thinking. So does a stretch with the store offline: the model had no tool then, and did not see the hidden
//! calls.
//!
//! Anthropic documents two remedies: the beta setting `drop_block`, and leaving the thinking out. baton does
//! the second. With `drop_block` the API also drops all later thinking, for as long as the refused blocks are
//! sent. If thinking is left out from the front of the stretch, later thinking stays valid. Leaving it out
//! also needs no beta, which gateways may not pass on.
//! <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>

use super::{InsertionPoints, PlannedRequest, is_agent_loop, is_retryable};
use crate::record::{RecordChange, ThinkingOmission};
use crate::rewrite::untooled::{self, ToolOmission};
use crate::rewrite::{ChangeReason, RewriteOutcome, positions};

/// Whether a status may mean that upstream does not know the model, or does not offer it to this account.
pub fn refuses_model(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 422)
}

/// Whether the response to a retry replaces the refusal.
///
/// A retryable status lets the agent try again, and a 400 does not.
pub fn replaces_refusal(status: u16) -> bool {
    (200..300).contains(&status) || is_retryable(status)
}

/// A request that replaces a refused one.
#[derive(Debug)]
pub struct Retry {
    pub request: RewriteOutcome,
    /// Whether the request has the tool, if that differs from the refused request.
    pub tooled: Option<bool>,
    /// End of the turns without thinking after the cut, if that differs from the refused request.
    pub omitted: Option<usize>,
}

impl Retry {
    /// Whether another retry may follow if upstream refuses this one as well.
    pub fn may_be_followed(&self) -> bool {
        self.tooled == Some(true) && self.omitted.is_none()
    }
}

impl PlannedRequest<'_> {
    /// Records that upstream accepted the request without its thinking, so that every later request of the
    /// stretch has the same view.
    ///
    /// `None` for a side call, which is not part of the stretch, and for a transcript that upstream stores,
    /// because nothing can be left out of that.
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
        let facts = self.reading.view.wire();
        facts.binds_prefixes() || self.pin.active.is_some() && facts.may_refuse_thinking()
    }

    /// Returns a modified request to retry with, or `None` to forward the error.
    ///
    /// The tool of a cut request stays, because its prefix contains it. So does a tool that the transcript
    /// needs: hidden calls and notices exist only next to it.
    pub fn retry(&self, error: &[u8], sent: &RewriteOutcome) -> Option<Retry> {
        let (facts, was_tooled) = (self.reading.view.wire(), self.offer.tooled);
        if self.pin.active.is_some() || was_tooled && self.places.are_any() {
            let refused = facts.refuses_thinking(error);
            return refused.then(|| self.without_thinking(sent, None)).flatten();
        }
        // The first request of an unknown conversation: its history was made either with the tool or without it.
        let has_room = untooled::no_room(&self.reading.view).is_none();
        let may_toggle = has_room && (was_tooled || self.call.forbidden.is_none());
        (may_toggle && facts.is_prefix_mismatch(error)).then(|| Retry {
            request: self.first(!was_tooled),
            tooled: Some(!was_tooled),
            omitted: None,
        })
    }

    /// Returns a modified request if a retry was refused as well.
    ///
    /// The request belongs to a conversation that baton did not know. Upstream refuses it without the tool
    /// and with it, because its thinking is bound to hidden calls that the store has lost. The new request
    /// has the tool, so that the conversation has it again.
    pub fn retry_again(&self, error: &[u8], before: &Retry) -> Option<Retry> {
        let is_bound = self.offer.untooled == Some(ToolOmission::BoundHistory);
        let may_help =
            before.may_be_followed() && is_bound && self.reading.view.wire().is_prefix_mismatch(error);
        let retry = may_help.then(|| self.without_thinking(&before.request, Some(true)));
        retry.flatten()
    }

    /// Builds the request without any thinking after its cut; `None` if the sent one had none.
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
        // Upstream would refuse an equal request again.
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
    let thinking = changes.filter(|change| change.why == ChangeReason::Thinking);
    thinking.map(|change| change.removed).sum()
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
