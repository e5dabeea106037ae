//! Property tests: for any events in any order, a response ends and no invariant is violated.

use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::{Action, LegEvent, ResponseEffect, ResponseMachine, ResponseOptions, VerdictInput};
use crate::marker::note::BEGINS;
use crate::plan::{NextLeg, RetryPolicy};
use crate::record::HiddenResult;
use crate::wire::{EMPTY_TURN, HiddenCall, LegReport, StopReason};

const STOPS: [StopReason; 7] = [
    StopReason::Open,
    StopReason::Done,
    StopReason::Calls,
    StopReason::Truncated,
    StopReason::Refused,
    StopReason::Paused,
    StopReason::Error,
];

const ARGUMENTS: [&str; 4] = [
    r#"{"prompt":"p"}"#,
    r#"{"prompt":" "}"#,
    "{",
    r#"{"prompt":"q","reason":"r"}"#,
];

pub(super) fn report(hidden: &[usize], calls: usize, stop: StopReason, id: usize) -> LegReport {
    let hidden = hidden.iter().map(|&a| HiddenCall {
        id: "h".into(),
        arguments: ARGUMENTS[a].into(),
        complete: true,
        ..HiddenCall::default()
    });
    LegReport {
        hidden: hidden.collect(),
        calls: (0..calls).map(|i| (format!("c{i}"), i)).collect(),
        parts: calls,
        stop,
        ended: true,
        id: ["", "a", "b"][id].into(),
        ..LegReport::default()
    }
}

fn reports() -> impl Strategy<Value = LegReport> {
    let hidden = proptest::collection::vec(0..ARGUMENTS.len(), 0..3);
    let stop = prop_oneof![2 => Just(StopReason::Done), 4 => Just(StopReason::Calls), 1 => proptest::sample::select(&STOPS[..])];
    let calls = prop_oneof![4 => Just(0usize), 1 => Just(2)];
    (hidden, calls, stop, 0usize..3).prop_map(|(hidden, calls, stop, id)| report(&hidden, calls, stop, id))
}

/// Any event, with or without a pending effect.
fn events() -> impl Strategy<Value = LegEvent> {
    let ids = (0u128..4).prop_map(Uuid::from_u128);
    prop_oneof![
        6 => reports().prop_map(LegEvent::LegEnded),
        1 => (reports(), any::<bool>(), any::<bool>())
            .prop_map(|(report, shown, changed)| LegEvent::LegTruncated { report, shown, changed }),
        2 => (reports(), prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(report, shown, retry)| LegEvent::LegBroken { report, shown, retry, cause: String::new() }),
        4 => ids.prop_map(|id| LegEvent::HandoffWritten {
            next: NextLeg::after(id, id.to_string(), None),
            sentinel: format!("sentinel {id}"),
        }),
        4 => (0..9).prop_map(|n| LegEvent::CallAnswered {
            mark: format!("mark {n}"),
            more: format!("more {n}"),
            answer: HiddenResult::EMPTY_PROMPT,
        }),
        2 => Just(LegEvent::Written),
        1 => Just(LegEvent::NotWritten),
        6 => Just(LegEvent::LegBegun),
        2 => any::<bool>().prop_map(|retry| LegEvent::LegRefused { retry, pause: None, cause: String::new() }),
    ]
}

fn terms() -> impl Strategy<Value = ResponseOptions> {
    let opening = proptest::option::of(Just(NextLeg::after(Uuid::from_u128(7), "head".into(), None)));
    (0usize..4, 1u32..5, 0u32..3, any::<[bool; 5]>(), opening).prop_map(
        |(messages, max_chain, retries, [stops, by_id, pending, structured, with_text], opening)| {
            ResponseOptions {
                first: VerdictInput {
                    messages,
                    legs: 1 + u32::from(opening.is_some()),
                    max_chain,
                    refused: 0,
                    pending: pending.then(|| ("pending".into(), None)),
                    structured,
                    ..VerdictInput::default()
                },
                stops,
                goes_on_by_id: by_id,
                records_ids: false,
                retry: RetryPolicy {
                    retries,
                    pauses: Duration::from_secs(60),
                },
                active: None,
                opening,
                opens_with_text: with_text,
            }
        },
    )
}

/// A driver that performs and checks each action.
struct Watcher {
    machine: ResponseMachine,
    /// Pending effect.
    doing: Option<ResponseEffect>,
    reading: bool,
    /// Text that may be shown because its record is written.
    written: Vec<String>,
    texts: Vec<String>,
    sent: u32,
    over: Option<Action>,
}

impl Watcher {
    fn new(terms: ResponseOptions) -> Self {
        Self {
            machine: ResponseMachine::new(terms),
            doing: None,
            reading: true,
            written: vec![EMPTY_TURN.to_owned()],
            texts: Vec::new(),
            sent: 0,
            over: None,
        }
    }

    /// Whether the event ends the pending effect.
    fn fits(&self, event: &LegEvent) -> bool {
        match (&self.doing, event) {
            _ if self.over.is_some() => false,
            (None, LegEvent::LegEnded(_) | LegEvent::LegTruncated { .. } | LegEvent::LegBroken { .. }) => {
                self.reading
            }
            (
                Some(ResponseEffect::WriteHandoff(_)),
                LegEvent::HandoffWritten { .. } | LegEvent::NotWritten,
            ) => true,
            (Some(ResponseEffect::AnswerCall(_)), LegEvent::CallAnswered { .. } | LegEvent::NotWritten) => {
                true
            }
            (
                Some(ResponseEffect::WritePairs(_) | ResponseEffect::WriteId { .. }),
                LegEvent::Written | LegEvent::NotWritten,
            ) => true,
            (Some(ResponseEffect::Send { .. }), LegEvent::LegBegun | LegEvent::LegRefused { .. }) => true,
            _ => false,
        }
    }

    fn happens(&mut self, event: LegEvent) {
        let fits = self.fits(&event);
        if fits {
            self.reading = matches!(event, LegEvent::LegBegun);
            self.doing = None;
        }
        match &event {
            LegEvent::HandoffWritten { sentinel, .. } if fits => self.written.push(sentinel.clone()),
            LegEvent::CallAnswered { mark, .. } if fits => self.written.push(mark.clone()),
            _ => {}
        }
        self.machine.handle_event(event);
        let mut acted = false;
        while let Some(action) = self.machine.poll_action() {
            acted = true;
            assert!(self.over.is_none(), "it is over, and {action:?} is asked for");
            assert!(self.doing.is_none(), "two things at once: {action:?}");
            self.act(action);
        }
        assert!(fits || !acted, "nothing was done that this could be the end of");
        let waits = self.doing.is_some() || self.reading;
        assert!(
            waits || self.over.is_some(),
            "nothing is awaited, and it is not over"
        );
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Say(text) => {
                let is_said = self.written.contains(&text) || text.trim_start().starts_with(BEGINS);
                assert!(is_said, "said before it was written: {text}");
                self.texts.push(text);
            }
            Action::Perform(effect) => {
                assert!(!self.reading, "a leg is being read, and {effect:?} is asked for");
                self.sent += u32::from(matches!(effect, ResponseEffect::Send { .. }));
                self.doing = Some(effect);
            }
            over => self.over = Some(over),
        }
    }
}

proptest! {
    /// Any event at any time.
    #[test]
    fn nothing_is_done_twice_or_too_early(
        terms in terms(),
        events in proptest::collection::vec(events(), 1..60),
    ) {
        let mut watcher = Watcher::new(terms);
        for event in events {
            watcher.happens(event);
        }
    }

    /// A driver that performs every action reaches an end, whatever the outcome of each effect.
    #[test]
    fn an_answer_always_ends(terms in terms(), seed in proptest::collection::vec(events(), 20..40)) {
        let bound = terms.first.max_chain * (1 + terms.retry.retries);
        let mut watcher = Watcher::new(terms);
        let likely = |watcher: &Watcher| match &watcher.doing {
            Some(ResponseEffect::WriteHandoff(_)) => LegEvent::HandoffWritten {
                next: NextLeg::after(Uuid::from_u128(9), "head".into(), None),
                sentinel: "sentinel 9".into(),
            },
            Some(ResponseEffect::AnswerCall(_)) => LegEvent::CallAnswered {
                mark: "mark 9".into(),
                more: "more".into(),
                answer: HiddenResult::EMPTY_PROMPT,
            },
            Some(ResponseEffect::Send { failed, .. }) => match failed % 2 {
                0 => LegEvent::LegRefused { retry: true, pause: None, cause: String::new() },
                _ => LegEvent::LegBegun,
            },
            Some(_) => LegEvent::Written,
            None => LegEvent::LegEnded(report(&[watcher.sent as usize % 2], 0, StopReason::Calls, 1)),
        };
        let mut drawn = seed.iter().cycle();
        for step in 0..2000 {
            if watcher.over.is_some() {
                break;
            }
            let event = drawn.next().filter(|e| step % 3 == 0 && watcher.fits(e));
            let event = event.cloned().unwrap_or_else(|| likely(&watcher));
            watcher.happens(event);
        }
        prop_assert!(watcher.over.is_some(), "{:?}", watcher.machine);
        prop_assert!(watcher.sent <= bound, "{} legs, {bound} at most", watcher.sent);
    }
}
