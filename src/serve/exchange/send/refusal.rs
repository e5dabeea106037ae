//! Decides what a refusal by upstream means. No IO.

use baton_core::course::is_retryable;
use http::StatusCode;

/// A change with which a refused request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// With the tool, or without it.
    Tooled(bool),
    /// Without the thinking after its cut.
    WithoutThinking,
}

/// What is known of a request that upstream refused with a 400.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusedRequest {
    /// The request is cut at a handoff.
    pub(super) is_pinned: bool,
    pub(super) was_tooled: bool,
    /// The request has hidden calls or texts of ours, which exist only next to the tool.
    pub(super) needs_tool: bool,
    /// The request has room for the tool.
    pub(super) has_room: bool,
    /// The config or the request's header rules the tool out.
    pub(super) is_tool_forbidden: bool,
    /// Upstream's error refuses thinking in the request.
    pub(super) refuses_thinking: bool,
    /// Upstream's error reports that thinking does not fit its prefix.
    pub(super) is_prefix_mismatch: bool,
}

impl RefusedRequest {
    /// The change that may help; `None`: the error is passed on. The tool of a pinned request stays, since its prefix has it,
    /// and so does one that the transcript needs.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        if self.is_pinned || self.was_tooled && self.needs_tool {
            return self.refuses_thinking.then_some(Remedy::WithoutThinking);
        }
        let tooled = !self.was_tooled;
        let may_toggle = self.has_room && !(tooled && self.is_tool_forbidden);
        (may_toggle && self.is_prefix_mismatch).then_some(Remedy::Tooled(tooled))
    }
}

/// Whether a status may mean that upstream does not know the model, or does not give it to this account.
pub(super) fn refuses_model(status: StatusCode) -> bool {
    [
        StatusCode::BAD_REQUEST,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::UNPROCESSABLE_ENTITY,
    ]
    .contains(&status)
}

/// Whether the answer to a retry replaces the refusal: a retryable status lets the agent try again, and a 400 does not.
pub(super) fn replaces_refusal(status: StatusCode) -> bool {
    status.is_success() || is_retryable(status.as_u16())
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

    #[test]
    fn a_model_is_refused_by_an_error_of_the_request() {
        let refused = |code| refuses_model(StatusCode::from_u16(code).unwrap());
        assert!([400, 403, 404, 422].into_iter().all(refused));
        assert!(![200, 401, 413, 429, 500, 529].into_iter().any(refused));
    }

    #[test]
    fn only_a_status_that_helps_the_agent_more_replaces_a_400() {
        let status = |code| StatusCode::from_u16(code).unwrap();
        for code in [200, 201, 408, 429, 500, 503, 529] {
            assert!(replaces_refusal(status(code)), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 422] {
            assert!(!replaces_refusal(status(code)), "{code}");
        }
        assert!(!is_retryable(200));
    }
}
