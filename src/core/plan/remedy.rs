//! What is sent in place of a request that upstream refused with a 400.
//!
//! Thinking that is refused is bound to a prefix that the request no longer has. A handoff that was undone leaves such
//! thinking. So does a stretch in which the store was offline: the model had no tool then, and did not see the hidden calls.
//!
//! Anthropic documents two remedies: the beta setting `drop_block`, and leaving the thinking out. baton does the
//! second. With `drop_block` the API drops all later thinking, too, for as long as the refused blocks are sent. If
//! thinking is left out from the front of the stretch, later thinking stays valid. Leaving it out also needs no beta,
//! which gateways may not pass on. <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>

use super::{Places, Planned};
use crate::rewrite::untooled::{self, ToolOmission};
use crate::rewrite::{ChangeReason, RewriteOutcome};

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

impl Planned<'_> {
    /// Whether a refusal of the request may have a remedy.
    pub fn may_be_retried(&self) -> bool {
        let facts = self.wire.facts();
        facts.binds_prefixes() || self.pin.active.is_some() && facts.may_refuse_thinking()
    }

    /// What is sent in place of the request, with the change that may help against this error. `None`: the error is passed on.
    pub fn retry(&self, error: &[u8], sent: &RewriteOutcome) -> Option<Retry> {
        let facts = self.wire.facts();
        let refused = RefusedRequest {
            is_pinned: self.pin.active.is_some(),
            was_tooled: self.offer.tooled,
            needs_tool: self.places.are_any(),
            has_room: untooled::no_room(&self.reading.view).is_none(),
            is_tool_forbidden: self.call.forbidden.is_some(),
            refuses_thinking: facts.refuses_thinking(error),
            is_prefix_mismatch: facts.is_prefix_mismatch(error),
        };
        match refused.remedy()? {
            Remedy::WithoutThinking => self.without_thinking(sent, None),
            Remedy::Tooled(tooled) => Some(Retry {
                request: self.first(tooled),
                tooled: Some(tooled),
                omitted: None,
            }),
        }
    }

    /// What is sent in place of a retry that was refused, too. It is the request of a conversation that baton did not know.
    /// Upstream refuses it without the tool and with it, since its thinking is bound to hidden calls that the store has lost.
    /// Sent with the tool, so that the conversation has it again.
    pub fn retry_again(&self, error: &[u8], before: &Retry) -> Option<Retry> {
        let is_bound = self.offer.untooled == Some(ToolOmission::BoundHistory);
        let may_help = before.may_be_followed() && is_bound && self.wire.facts().is_prefix_mismatch(error);
        may_help
            .then(|| self.without_thinking(&before.request, Some(true)))
            .flatten()
    }

    /// The request without any thinking after its cut; `None` where it has none that was sent.
    pub fn without_thinking(&self, sent: &RewriteOutcome, tooled: Option<bool>) -> Option<Retry> {
        let omitted = Some(self.reading.view.turns.len());
        let places = Places {
            omitted,
            ..self.places.clone()
        };
        let without = Planned {
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

/// A change with which a refused request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// With the tool, or without it.
    Tooled(bool),
    /// Without the thinking after its cut.
    WithoutThinking,
}

/// What is known of a request that upstream refused with a 400.
#[derive(Debug, Clone, Copy)]
struct RefusedRequest {
    /// The request is cut at a handoff.
    is_pinned: bool,
    was_tooled: bool,
    /// The request has hidden calls or texts of ours, which exist only next to the tool.
    needs_tool: bool,
    /// The request has room for the tool.
    has_room: bool,
    /// The config or the request's header rules the tool out.
    is_tool_forbidden: bool,
    /// Upstream's error refuses thinking in the request.
    refuses_thinking: bool,
    /// Upstream's error reports that thinking does not fit its prefix.
    is_prefix_mismatch: bool,
}

impl RefusedRequest {
    /// The change that may help; `None`: the error is passed on. The tool of a pinned request stays, since its prefix has it,
    /// and so does one that the transcript needs.
    fn remedy(&self) -> Option<Remedy> {
        if self.is_pinned || self.was_tooled && self.needs_tool {
            return self.refuses_thinking.then_some(Remedy::WithoutThinking);
        }
        let tooled = !self.was_tooled;
        let may_toggle = self.has_room && !(tooled && self.is_tool_forbidden);
        (may_toggle && self.is_prefix_mismatch).then_some(Remedy::Tooled(tooled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unpinned request without the tool, whose prefix does not match.
    const MISMATCH: RefusedRequest = RefusedRequest {
        is_pinned: false,
        was_tooled: false,
        needs_tool: false,
        has_room: true,
        is_tool_forbidden: false,
        refuses_thinking: true,
        is_prefix_mismatch: true,
    };

    #[test]
    fn a_mismatched_prefix_toggles_the_tool_where_the_request_may_have_it() {
        let with_tool = RefusedRequest {
            was_tooled: true,
            ..MISMATCH
        };
        let rows = [
            (MISMATCH, Some(Remedy::Tooled(true))),
            (with_tool, Some(Remedy::Tooled(false))),
            (
                RefusedRequest {
                    is_tool_forbidden: true,
                    ..MISMATCH
                },
                None,
            ),
            // It got the tool before tools were forbidden: removing the tool is still possible.
            (
                RefusedRequest {
                    is_tool_forbidden: true,
                    ..with_tool
                },
                Some(Remedy::Tooled(false)),
            ),
            (
                RefusedRequest {
                    has_room: false,
                    ..MISMATCH
                },
                None,
            ),
            (
                RefusedRequest {
                    is_prefix_mismatch: false,
                    ..MISMATCH
                },
                None,
            ),
        ];
        for (refused, remedy) in rows {
            assert_eq!(refused.remedy(), remedy, "{refused:?}");
        }
    }

    #[test]
    fn a_request_that_needs_its_tool_keeps_it_and_loses_only_refused_thinking() {
        let pinned = RefusedRequest {
            is_pinned: true,
            ..MISMATCH
        };
        let with_hidden_calls = RefusedRequest {
            was_tooled: true,
            needs_tool: true,
            ..MISMATCH
        };
        for request in [pinned, with_hidden_calls] {
            assert_eq!(request.remedy(), Some(Remedy::WithoutThinking));
            let other_error = RefusedRequest {
                refuses_thinking: false,
                ..request
            };
            assert_eq!(other_error.remedy(), None);
        }
        let lacks_it = RefusedRequest {
            was_tooled: false,
            ..with_hidden_calls
        };
        assert_eq!(lacks_it.remedy(), Some(Remedy::Tooled(true)));
    }
}
