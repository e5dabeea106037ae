use super::*;
use crate::response::events::ResponseEffect;

fn call(arguments: &str) -> HiddenCall {
    HiddenCall {
        id: "h".into(),
        arguments: arguments.into(),
        complete: true,
        ..HiddenCall::default()
    }
}

fn report(hidden: &[&str], calls: usize, stop: StopReason) -> LegReport {
    LegReport {
        hidden: hidden.iter().map(|a| call(a)).collect(),
        calls: (0..calls).map(|i| (format!("c{i}"), i)).collect(),
        parts: calls,
        stop,
        ..LegReport::default()
    }
}

fn now() -> VerdictInput {
    VerdictInput {
        messages: 3,
        legs: 1,
        max_chain: 8,
        ..VerdictInput::default()
    }
}

#[test]
fn a_good_call_alone_fires_and_the_last_one_counts() {
    let report = report(
        &[r#"{"prompt":"one"}"#, r#"{"prompt":" two \n","reason":" "}"#],
        0,
        StopReason::Calls,
    );
    assert_eq!(
        judge(&report, &now()),
        Verdict::Fire {
            prompt: "two".into(),
            reason: None
        }
    );
}

#[test]
fn a_good_call_counts_though_a_bad_one_follows_and_of_bad_ones_the_first_is_answered() {
    let last_is_bad = report(
        &[r#"{"prompt":"one"}"#, r#"{"prompt":" "}"#],
        0,
        StopReason::Calls,
    );
    assert!(matches!(
        judge(&last_is_bad, &now()),
        Verdict::Fire { prompt, .. } if prompt == "one"
    ));
    let both_are = report(&[r#"{"prompt":" "}"#, "{"], 0, StopReason::Calls);
    let Verdict::AskAgain(refused) = judge(&both_are, &now()) else {
        panic!()
    };
    assert_eq!(refused.answer, Some(HiddenResult::EMPTY_PROMPT));
}

#[test]
fn refusals_have_distinct_answers() {
    let answers =
        |arguments: &str, now: &VerdictInput| match judge(&report(&[arguments], 0, StopReason::Calls), now) {
            Verdict::AskAgain(refused) => refused.answer.unwrap(),
            other => panic!("{other:?}"),
        };
    assert_eq!(answers(r#"{"prompt":"  "}"#, &now()), HiddenResult::EMPTY_PROMPT);
    assert_eq!(answers(r#"{"prompt":"#, &now()), HiddenResult::BAD_ARGUMENTS);
    assert_eq!(answers(r#"{"prompt":7}"#, &now()), HiddenResult::BAD_ARGUMENTS);
    assert_eq!(answers("", &now()), HiddenResult::BAD_ARGUMENTS);
    assert_eq!(
        answers(r#"{"prompt":"p"}"#, &VerdictInput { messages: 1, ..now() }),
        HiddenResult::NOTHING_TO_HAND_OFF
    );
    let long = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(limits::PROMPT + 1));
    assert_eq!(answers(&long, &now()), HiddenResult::TOO_LONG);
}

#[test]
fn minimum_content_is_required_of_the_first_leg_only() {
    let second = VerdictInput {
        messages: 0,
        legs: 2,
        ..now()
    };
    assert!(matches!(
        judge(&report(&[r#"{"prompt":"p"}"#], 0, StopReason::Calls), &second),
        Verdict::Fire { .. }
    ));
}

#[test]
fn nothing_fires_on_an_end_that_is_not_the_models_own() {
    for stop in [
        StopReason::Truncated,
        StopReason::Refused,
        StopReason::Paused,
        StopReason::Error,
        StopReason::Open,
    ] {
        assert_eq!(
            judge(&report(&[r#"{"prompt":"p"}"#], 0, stop), &now()),
            Verdict::End(Ending::Own)
        );
        let pending = VerdictInput {
            pending: Some(("p".into(), None)),
            ..now()
        };
        assert_eq!(judge(&report(&[], 0, stop), &pending), Verdict::End(Ending::Own));
    }
}

#[test]
fn the_chain_and_the_asking_are_bounded() {
    let full = VerdictInput { legs: 8, ..now() };
    assert_eq!(
        judge(&report(&[r#"{"prompt":"p"}"#], 0, StopReason::Calls), &full),
        Verdict::End(Ending::WithoutCall)
    );
    // Answered calls count as well, whether refused or not.
    let asked = |asked| VerdictInput {
        legs: 5,
        asked,
        ..now()
    };
    for arguments in ["{}", r#"{"prompt":"p"}"#] {
        let report = report(&[arguments], 0, StopReason::Calls);
        assert_eq!(
            judge(&report, &asked(3)),
            Verdict::End(Ending::WithoutCall),
            "{arguments}"
        );
        assert_ne!(
            judge(&report, &asked(2)),
            Verdict::End(Ending::WithoutCall),
            "{arguments}"
        );
    }
    let in_format = VerdictInput {
        structured: true,
        ..asked(3)
    };
    assert_eq!(
        judge(&report(&["{}"], 0, StopReason::Calls), &in_format),
        Verdict::End(Ending::WithoutCall)
    );
    // Earlier handoffs in a row stop further ones, but not the answer to a call.
    let chained = VerdictInput { chained: 8, ..now() };
    assert_eq!(
        judge(&report(&[r#"{"prompt":"p"}"#], 0, StopReason::Calls), &chained),
        Verdict::End(Ending::WithoutCall)
    );
    let exhausted = VerdictInput {
        refused: limits::ASK_AGAIN,
        ..now()
    };
    assert_eq!(
        judge(&report(&["{}"], 0, StopReason::Calls), &exhausted),
        Verdict::End(Ending::WithoutCall)
    );
}

#[test]
fn a_mixed_batch_waits_for_the_turns_end() {
    let report_ = report(
        &[r#"{"prompt":"one"}"#, "{", r#"{"prompt":"two"}"#],
        1,
        StopReason::Calls,
    );
    let Verdict::Mixed(all) = judge(&report_, &now()) else {
        panic!()
    };
    assert_eq!(
        all.iter().map(|r| r.answer.clone().unwrap()).collect::<Vec<_>>(),
        [
            HiddenResult::QUEUED,
            HiddenResult::BAD_ARGUMENTS,
            HiddenResult::QUEUED
        ]
    );
    assert_eq!(all.iter().filter(|r| r.pending.is_some()).count(), 1);
    let pending = VerdictInput {
        pending: all[2].pending.clone(),
        ..now()
    };
    assert_eq!(
        judge(&report(&[], 1, StopReason::Calls), &pending),
        Verdict::End(Ending::Own)
    );
    assert!(matches!(
        judge(&report(&[], 0, StopReason::Done), &pending),
        Verdict::Fire { .. }
    ));
}

#[test]
fn a_lone_surrogate_in_a_prompt_becomes_a_replacement_character() {
    let verdict = judge(
        &report(&[r#"{"prompt":"a\ud800b"}"#], 0, StopReason::Calls),
        &now(),
    );
    assert_eq!(
        verdict,
        Verdict::Fire {
            prompt: "a\u{FFFD}b".into(),
            reason: None
        }
    );
}

#[test]
fn a_hidden_call_is_placed_beside_the_nearest_sibling() {
    let mut leg = report(&[], 2, StopReason::Calls);
    let ids = ["toolu_01A09q90qw", "call_1"];
    leg.calls = vec![(ids[0].into(), 1), (ids[1].into(), 3)];
    let at = |after: usize| match place_beside(&leg, &HiddenCall { after, ..call("{}") }) {
        Some(InsertionPoint::Beside { sibling, offset }) => (sibling, offset),
        other => panic!("{other:?}"),
    };
    // An id that may repeat is completed by the number of its call.
    let numbered = in_answer(ids[1], 1);
    assert_ne!(numbered, ids[1]);
    let beside = |sibling: &str, offset| (sibling.to_owned(), offset);
    assert_eq!(
        [at(0), at(1), at(2), at(3), at(4)],
        [
            beside(ids[0], -2),
            beside(ids[0], -1),
            beside(ids[0], 0),
            beside(ids[0], 1),
            beside(&numbered, 0)
        ]
    );
}

#[test]
fn only_a_place_beside_an_id_that_may_repeat_needs_the_request() {
    for (id, needed) in [("toolu_01A09q90qw", false), ("call_0", true), ("", true)] {
        let mut leg = report(&[], 1, StopReason::Calls);
        leg.calls = vec![(id.into(), 0)];
        let hidden = HiddenCall {
            after: 1,
            ..call("{}")
        };
        let place = place_beside(&leg, &hidden);
        let answered = AnsweredCall::new(&hidden, Some(HiddenResult::QUEUED));
        let write = ResponseEffect::WritePairs(vec![(answered, place)]);
        assert_eq!(write.needs_request(), needed, "{id:?}");
    }
}
