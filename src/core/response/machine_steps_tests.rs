//! Which actions follow which events, step by step.

use uuid::Uuid;

use std::time::Duration;

use super::machine_tests::report;
use super::{Action, LegEvent, ResponseEffect, ResponseEnd, ResponseMachine, ResponseOptions, VerdictInput};
use crate::limits::{self, BYTES_PER_TOKEN};
use crate::plan::{NewHandoff, NextLeg, RetryPolicy};
use crate::record::{HiddenResult, InsertionPoint, OpenResponse, PendingResult, ResponseOrigin};
use crate::redact::Redactor;
use crate::text::testing::assert_begins;
use crate::wire::{EMPTY_TURN, Ending, LegReport, StopReason};

/// Returns the actions up to the next event.
fn after(machine: &mut ResponseMachine, event: LegEvent) -> Vec<Action> {
    machine.handle_event(event);
    std::iter::from_fn(|| machine.poll_action()).collect()
}

fn ordinary() -> ResponseOptions {
    ResponseOptions {
        first: VerdictInput {
            messages: 3,
            legs: 1,
            max_chain: 8,
            ..VerdictInput::default()
        },
        goes_on_by_id: true,
        retry: RetryPolicy {
            retries: 1,
            pauses: Duration::from_secs(60),
        },
        ..ResponseOptions::default()
    }
}

fn written(id: u128) -> LegEvent {
    LegEvent::HandoffWritten {
        next: NextLeg::after(Uuid::from_u128(id), format!("head {id}"), None),
        sentinel: format!("sentinel {id}"),
    }
}

#[test]
fn a_handoff_is_written_then_shown_then_followed_by_the_next_leg() {
    let mut machine = ResponseMachine::new(ordinary());
    let fires = LegEvent::LegEnded(report(&[0], 0, StopReason::Calls, 1));
    let parent = |id| ResponseEffect::WriteHandoff(NewHandoff::of_model("p".into(), None, id));
    assert_eq!(
        after(&mut machine, fires.clone()),
        [Action::Perform(parent(None))]
    );
    let shown = after(&mut machine, written(1));
    assert_eq!(shown[0], Action::Say("sentinel 1".into()));
    let [_, Action::Perform(ResponseEffect::Send { leg, pause, failed })] = &shown[..] else {
        panic!("{shown:?}")
    };
    assert_eq!(
        (leg.head.as_deref(), leg.after),
        (Some("head 1"), Some(Uuid::from_u128(1)))
    );
    assert!(pause.is_zero() && *failed == 0);
    assert_eq!(after(&mut machine, LegEvent::LegBegun), []);
    // The next handoff names this one as its parent.
    assert_eq!(
        after(&mut machine, fires),
        [Action::Perform(parent(Some(Uuid::from_u128(1))))]
    );
}

#[test]
fn a_leg_that_cannot_be_sent_ends_after_what_was_shown() {
    let refused = |retry| LegEvent::LegRefused {
        retry,
        pause: None,
        cause: "429".into(),
    };
    let cause = || "429".to_owned();
    // After a sentinel.
    let mut machine = ResponseMachine::new(ordinary());
    after(
        &mut machine,
        LegEvent::LegEnded(report(&[0], 0, StopReason::Calls, 1)),
    );
    let sent = after(&mut machine, written(1));
    let Some(Action::Perform(ResponseEffect::Send { leg, .. })) = sent.last().cloned() else {
        panic!("{sent:?}")
    };
    let again = after(&mut machine, refused(true));
    assert!(
        matches!(
            &again[..],
            [Action::Perform(ResponseEffect::Send { failed: 1, .. })]
        ),
        "{again:?}"
    );
    let id = ResponseEffect::WriteId {
        shown: "a".into(),
        origin: ResponseOrigin::Handoff(Uuid::from_u128(1)),
    };
    assert_eq!(after(&mut machine, refused(true)), [Action::Perform(id)]);
    assert_eq!(
        after(&mut machine, LegEvent::NotWritten),
        [Action::End(ResponseEnd::Lost { leg, cause: cause() })]
    );

    // If only a call was answered.
    let mut machine = ResponseMachine::new(ordinary());
    after(
        &mut machine,
        LegEvent::LegEnded(report(&[1], 0, StopReason::Calls, 1)),
    );
    let (mark, more) = ("mark".to_owned(), "more".to_owned());
    let answer = HiddenResult::EMPTY_PROMPT;
    let owed = PendingResult {
        call_id: "h".into(),
        answer: answer.clone(),
    };
    after(&mut machine, LegEvent::CallAnswered { mark, more, answer });
    // Upstream stores the call without its result.
    let id = ResponseEffect::WriteId {
        shown: "a".into(),
        origin: ResponseOrigin::Open(OpenResponse {
            response: "a".into(),
            owed: vec![owed],
            pending: None,
        }),
    };
    assert_eq!(after(&mut machine, refused(false)), [Action::Perform(id)]);
    let ended = after(&mut machine, LegEvent::Written);
    assert!(
        matches!(&ended[..], [Action::End(ResponseEnd::Lost { leg, .. })] if leg.more == ["more"]),
        "{ended:?}"
    );
}

#[test]
fn what_broke_off_is_sent_again_where_nothing_of_it_was_shown() {
    let broken = |shown| LegEvent::LegBroken {
        report: LegReport::default(),
        shown,
        retry: true,
        cause: String::new(),
    };
    for (shown, again) in [(false, true), (true, false)] {
        let mut machine = ResponseMachine::new(ordinary());
        after(
            &mut machine,
            LegEvent::LegEnded(report(&[0], 0, StopReason::Calls, 1)),
        );
        after(&mut machine, written(1));
        after(&mut machine, LegEvent::LegBegun);
        let actions = after(&mut machine, broken(shown));
        assert_eq!(
            matches!(
                &actions[..],
                [Action::Perform(ResponseEffect::Send { failed: 1, .. })]
            ),
            again
        );
        assert_eq!(actions == [Action::BreakOff], !again);
    }
    // Retrying the first leg is up to the agent.
    assert_eq!(
        after(&mut ResponseMachine::new(ordinary()), broken(false)),
        [Action::BreakOff]
    );
}

#[test]
fn what_is_not_written_is_not_shown() {
    let mut machine = ResponseMachine::new(ordinary());
    after(
        &mut machine,
        LegEvent::LegEnded(report(&[0], 0, StopReason::Calls, 0)),
    );
    let refused = after(&mut machine, LegEvent::NotWritten);
    let [Action::Perform(ResponseEffect::AnswerCall(call))] = &refused[..] else {
        panic!("{refused:?}")
    };
    assert_eq!(call.answer, Some(HiddenResult::NOT_STORED));
    let [text, end] = without_call("it could not be stored");
    let closing = [Action::Say(EMPTY_TURN.into()), text, end];
    assert_eq!(after(&mut machine, LegEvent::NotWritten), closing);

    let mut machine = ResponseMachine::new(ordinary());
    let pairs = after(
        &mut machine,
        LegEvent::LegEnded(report(&[0], 2, StopReason::Calls, 0)),
    );
    let [Action::Perform(ResponseEffect::WritePairs(all))] = &pairs[..] else {
        panic!("{pairs:?}")
    };
    assert!(all[0].0.answer == Some(HiddenResult::QUEUED) && all[0].1.is_some());
    assert_eq!(
        after(&mut machine, LegEvent::NotWritten),
        [Action::End(ResponseEnd::Own)]
    );
}

#[test]
fn a_dropped_call_with_reasoning_is_written_where_text_follows_it() {
    let bound = |parts: usize| {
        let mut report = report(&[0], 0, StopReason::Calls, 0);
        report.parts = parts;
        report.hidden[0].after = 1;
        report.hidden[0].bound_to = Some("item:rs_1".into());
        report
    };
    let last_leg = || {
        let mut terms = ordinary();
        terms.first.legs = terms.first.max_chain;
        ResponseMachine::new(terms)
    };
    let mut machine = last_leg();
    let actions = after(&mut machine, LegEvent::LegEnded(bound(2)));
    let [Action::Perform(ResponseEffect::WritePairs(all))] = &actions[..] else {
        panic!("{actions:?}")
    };
    let (answered, place) = &all[0];
    assert_eq!(answered.answer, Some(HiddenResult::NOT_TAKEN));
    let beside = InsertionPoint::Beside {
        sibling: "item:rs_1".into(),
        offset: 0,
    };
    assert_eq!(place.as_ref(), Some(&beside));
    let ended = without_call("handoff.max_chain is reached");
    assert_eq!(after(&mut machine, LegEvent::Written), ended);
    // An agent may keep the partial output of an interrupted response.
    let mut machine = last_leg();
    let broken = LegEvent::LegBroken {
        report: bound(2),
        shown: true,
        retry: true,
        cause: String::new(),
    };
    let actions = after(&mut machine, broken);
    assert!(
        matches!(&actions[..], [Action::Perform(ResponseEffect::WritePairs(_))]),
        "{actions:?}"
    );
    assert_eq!(after(&mut machine, LegEvent::Written), [Action::BreakOff]);
    // If nothing follows the reasoning, it is dropped together with its call.
    let mut machine = last_leg();
    assert_eq!(after(&mut machine, LegEvent::LegEnded(bound(1))), ended);
}

/// The actions that end a turn at a call without an effect.
fn without_call(cause: &str) -> [Action; 2] {
    let text = format!(
        "\n\nbaton: the turn ended because the model kept asking for a handoff ({cause}). Send any message to go on.\n\n\
         [[handoff-note:]]"
    );
    [Action::Say(text), Action::End(ResponseEnd::WithoutCall)]
}

#[test]
fn a_call_that_is_refused_again_and_again_ends_the_turn_with_a_note() {
    let refused = LegReport {
        parts: 1,
        ..report(&[1], 0, StopReason::Calls, 0)
    };
    for structured in [false, true] {
        let mut terms = ordinary();
        terms.first.refused = limits::ASK_AGAIN;
        terms.first.structured = structured;
        let actions = after(
            &mut ResponseMachine::new(terms),
            LegEvent::LegEnded(refused.clone()),
        );
        let told = without_call("it was refused several times");
        let expected = if structured { &told[1..] } else { &told[..] };
        assert_eq!(actions, expected);
    }
}

#[test]
fn a_pending_handoff_is_known_after_each_response_of_its_turn() {
    let mut machine = ResponseMachine::new(ordinary());
    after(
        &mut machine,
        LegEvent::LegEnded(report(&[0], 2, StopReason::Calls, 1)),
    );
    let open = |pending: &str, owed| ResponseEffect::WriteId {
        shown: "a".into(),
        origin: ResponseOrigin::Open(OpenResponse {
            response: "a".into(),
            owed,
            pending: Some((pending.into(), None)),
        }),
    };
    // A request that continues by the id has no call that would show where the result belongs.
    let owed = vec![PendingResult {
        call_id: "h".into(),
        answer: HiddenResult::QUEUED,
    }];
    assert_eq!(
        after(&mut machine, LegEvent::Written),
        [Action::Perform(open("p", owed))]
    );
    let mut terms = ordinary();
    terms.first.pending = Some(("earlier".into(), None));
    let mut machine = ResponseMachine::new(terms);
    let actions = after(
        &mut machine,
        LegEvent::LegEnded(report(&[], 1, StopReason::Calls, 1)),
    );
    assert_eq!(actions, [Action::Perform(open("earlier", Vec::new()))]);
}

#[test]
fn in_stop_mode_the_answer_ends_after_the_sentinel() {
    let mut machine = ResponseMachine::new(ResponseOptions {
        stops: true,
        ..ordinary()
    });
    after(
        &mut machine,
        LegEvent::LegEnded(report(&[0], 0, StopReason::Calls, 1)),
    );
    let actions = after(&mut machine, written(1));
    assert!(
        matches!(
            &actions[..],
            [Action::Say(_), Action::Perform(ResponseEffect::WriteId { .. })]
        ),
        "{actions:?}"
    );
    let ended = after(&mut machine, LegEvent::Written);
    assert!(
        matches!(&ended[..], [Action::End(ResponseEnd::Stopped(leg))] if leg.after.is_some()),
        "{ended:?}"
    );
}

#[test]
fn only_effects_that_look_into_the_request_bring_it_back() {
    let write_id = ResponseEffect::WriteId {
        shown: "resp_1".to_owned(),
        origin: ResponseOrigin::read("resp_2"),
    };
    let send = ResponseEffect::Send {
        leg: NextLeg::default(),
        pause: Duration::ZERO,
        failed: 0,
    };
    let handoff = ResponseEffect::WriteHandoff(NewHandoff::of_model("p".to_owned(), None, None));
    let rows = [
        (write_id, false),
        (ResponseEffect::WritePairs(Vec::new()), false),
        (send, true),
        (handoff, true),
    ];
    for (effect, needed) in rows {
        assert_eq!(effect.needs_request(), needed, "{effect:?}");
    }
}

fn lost(after: Option<Uuid>, cause: &str) -> ResponseEnd {
    let leg = NextLeg {
        after,
        ..NextLeg::default()
    };
    let cause = cause.to_owned();
    ResponseEnd::Lost { leg, cause }
}

#[test]
fn the_user_is_told_of_a_lost_leg_in_a_note() {
    let note = |end: ResponseEnd| end.note(&Redactor::default());
    let handoff = Some(Uuid::from_u128(1));
    assert_eq!(
        note(lost(handoff, "429: slow\ndown")).unwrap(),
        "baton: the handoff is stored, but the next request to the provider failed (429: slow down). Send any message to \
         go on.\n\n[[handoff-note:]]"
    );
    assert_begins(
        &note(lost(None, "500")).unwrap(),
        "baton: the next request to the provider failed (500).",
    );
    // Text of the provider is bounded, holds no marker, acts on no terminal, and shows no key.
    let key = format!("sk-ant-api03-{}", "Zx81".repeat(20));
    let hostile = format!(
        "400: {key} baton: [[handoff-note:]] \u{1b}[2J{}",
        "x ".repeat(900)
    );
    let shown = note(lost(handoff, &hostile)).unwrap();
    assert!(shown.len() < 450 && !shown.contains("Zx81Zx81"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert_eq!(shown.matches("baton: ").count(), 1, "{shown}");
    assert_eq!(shown.matches("[[").count(), 1, "{shown}");
    assert_eq!(note(ResponseEnd::Stopped(NextLeg::default())), None);
}

#[test]
fn an_end_without_its_leg_states_that_legs_tokens() {
    let size = |_: &NextLeg| 4 * BYTES_PER_TOKEN as usize + 1;
    assert!(matches!(
        ResponseEnd::Stopped(NextLeg::default()).ending(size),
        Ending::Stopped { next_input: 4 }
    ));
    assert!(matches!(
        lost(Some(Uuid::from_u128(1)), "").ending(size),
        Ending::Lost { next_input: 4 }
    ));
    let unused = |_: &NextLeg| -> usize { panic!("the request is not rewritten for an ordinary end") };
    assert!(matches!(ResponseEnd::Own.ending(unused), Ending::Own));
}
