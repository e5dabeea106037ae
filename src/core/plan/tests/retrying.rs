//! Requests that replace one that upstream refused.

use super::*;
use crate::rewrite::ChangeReason;

const MISMATCH: &[u8] = br#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: The `signature` of this `thinking` block is bound to a different conversation"}}"#;
const OTHER: &[u8] =
    br#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens is too large"}}"#;

fn thought() -> Value {
    let thinking = json!({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"});
    json!({"role": "assistant", "content": [thinking, {"type": "text", "text": "Yes."}]})
}

/// An uncut conversation that contains thinking.
fn outcome(tooled: bool) -> Outcome {
    let mut outcome = Script::new().plan(&[user(BEFORE), thought(), user("Go on.")]);
    outcome.plan.offer.tooled = tooled;
    outcome
}

/// The retry: whether it has the tool, if that changes, and whether it leaves thinking out.
fn retry(outcome: &Outcome, error: &[u8]) -> Option<(Option<bool>, bool)> {
    let mut found = None;
    outcome.with(|plan| {
        let sent = plan.first(plan.offer.tooled);
        found = plan.retry(error, &sent).map(|retry| {
            let is_thinking = |change: &crate::rewrite::SizeChange| change.why == ChangeReason::Thinking;
            let leaves_out = retry.request.changes.iter().any(is_thinking);
            assert_eq!(leaves_out, retry.omitted.is_some());
            (retry.tooled, leaves_out)
        });
    });
    found
}

#[test]
fn a_mismatched_prefix_toggles_the_tool_where_the_request_may_have_it() {
    for tooled in [false, true] {
        let mut outcome = outcome(tooled);
        assert_eq!(retry(&outcome, MISMATCH), Some((Some(!tooled), false)));
        assert_eq!(retry(&outcome, OTHER), None);
        // A request with the tool got it before tools were forbidden. The tool is removed all the same.
        outcome.call.forbidden = Some(ToolOmission::OffByHeader);
        let removed = tooled.then_some((Some(false), false));
        assert_eq!(retry(&outcome, MISMATCH), removed);
    }
    let without_tools = json!({"model": "m", "max_tokens": 9, "messages": [user(BEFORE)]});
    let without_room = Script::new().plan_of(without_tools, Operation::Generate);
    assert_eq!(retry(&without_room, MISMATCH), None);
}

#[test]
fn a_request_that_needs_its_tool_keeps_it_and_loses_only_refused_thinking() {
    let mut with_hidden_calls = outcome(true);
    with_hidden_calls.plan.places.pairs = vec![pair("c", "t1")];
    let mut script = Script::new();
    let shown = short(script.handoff(None));
    let pinned = script.plan(&[user(BEFORE), model(&shown), user("Go."), thought(), user("On.")]);
    for outcome in [&with_hidden_calls, &pinned] {
        assert_eq!(retry(outcome, MISMATCH), Some((None, true)));
        assert_eq!(retry(outcome, OTHER), None);
    }
    let without_thinking = script.plan(&after(&[shown]));
    assert_eq!(retry(&without_thinking, MISMATCH), None);
    with_hidden_calls.plan.offer.tooled = false;
    assert_eq!(retry(&with_hidden_calls, MISMATCH), Some((Some(true), false)));
}

#[test]
fn a_history_that_is_refused_with_the_tool_too_is_sent_with_it_and_without_its_thinking() {
    for (why, again) in [
        (ToolOmission::BoundHistory, Some((Some(true), true))),
        (ToolOmission::OffByConfig, None),
    ] {
        let mut outcome = outcome(false);
        outcome.plan.offer.untooled = Some(why);
        outcome.with(|plan| {
            let first = plan.retry(MISMATCH, &plan.first(false)).unwrap();
            assert!(first.may_be_followed());
            assert!(plan.retry_again(OTHER, &first).is_none());
            let second = plan.retry_again(MISMATCH, &first);
            assert!(second.as_ref().is_none_or(|second| !second.may_be_followed()));
            assert_eq!(
                second.map(|second| (second.tooled, second.omitted.is_some())),
                again
            );
        });
    }
}
