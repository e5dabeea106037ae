//! Any events in any order: nothing is done twice, too early, or after the end.

use std::time::Duration;

use baton_core::marker::note::BEGINS;
use baton_core::plan::{NextLeg, RetryPolicy};
use baton_core::record::HiddenResult;
use baton_core::response::{
    Action, LegEvent, ResponseEffect, ResponseMachine, ResponseOptions, VerdictInput,
};
use baton_core::wire::{EMPTY_TURN, HiddenCall, LegReport, StopReason};
use uuid::Uuid;

const STOPS: [StopReason; 7] = [
    StopReason::Open,
    StopReason::Done,
    StopReason::Calls,
    StopReason::Truncated,
    StopReason::Refused,
    StopReason::Paused,
    StopReason::Error,
];

/// Bytes that choose; behind their end, zeros.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn text(&mut self) -> String {
        let (text, rest) = self.0.split_at(usize::from(self.byte()).min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn report(&mut self) -> LegReport {
        let hidden = (0..self.below(4)).map(|_| HiddenCall {
            id: "h".into(),
            arguments: self.text(),
            complete: true,
            ..HiddenCall::default()
        });
        let hidden = hidden.collect();
        let calls = usize::from(self.below(4));
        LegReport {
            hidden,
            calls: (0..calls).map(|i| (format!("c{i}"), i)).collect(),
            parts: calls,
            stop: STOPS[usize::from(self.byte()) % STOPS.len()],
            ended: true,
            id: ["", "a", "b"][usize::from(self.below(3))].into(),
            ..LegReport::default()
        }
    }

    fn event(&mut self) -> LegEvent {
        match self.below(9) {
            0 => LegEvent::LegEnded(self.report()),
            1 => LegEvent::LegTruncated {
                report: self.report(),
                shown: self.flag(),
                changed: self.flag(),
            },
            2 => LegEvent::LegBroken {
                report: self.report(),
                shown: self.flag(),
                retry: self.flag(),
                cause: String::new(),
            },
            3 => {
                let id = self.byte();
                LegEvent::HandoffWritten {
                    next: NextLeg::after(Uuid::from_u128(id.into()), id.to_string(), None),
                    sentinel: format!("sentinel {id}"),
                }
            }
            4 => {
                let n = self.byte();
                LegEvent::CallAnswered {
                    mark: format!("mark {n}"),
                    more: format!("more {n}"),
                    answer: HiddenResult::EMPTY_PROMPT,
                }
            }
            5 => LegEvent::Written,
            6 => LegEvent::NotWritten,
            7 => LegEvent::LegBegun,
            _ => LegEvent::LegRefused {
                retry: self.flag(),
                pause: None,
                cause: String::new(),
            },
        }
    }

    fn terms(&mut self) -> ResponseOptions {
        let opening = self
            .flag()
            .then(|| NextLeg::after(Uuid::from_u128(7), "head".into(), None));
        ResponseOptions {
            first: VerdictInput {
                messages: self.byte().into(),
                legs: 1 + u32::from(opening.is_some()),
                max_chain: 1 + u32::from(self.below(8)),
                pending: self.flag().then(|| ("pending".into(), None)),
                structured: self.flag(),
                ..VerdictInput::default()
            },
            stops: self.flag(),
            goes_on_by_id: self.flag(),
            records_ids: false,
            retry: RetryPolicy {
                retries: u32::from(self.below(4)),
                pauses: Duration::from_secs(60),
            },
            active: None,
            opening,
            opens_with_text: self.flag(),
        }
    }
}

/// Performs what the response machine wants, and checks it.
struct Driver {
    /// The effect under way.
    pending: Option<ResponseEffect>,
    reading: bool,
    /// Texts that may be shown, since their records are written.
    written: Vec<String>,
    over: bool,
}

impl Driver {
    /// Whether the event may follow: what it ends is under way.
    fn expects(&self, event: &LegEvent) -> bool {
        match (&self.pending, event) {
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

    fn step(&mut self, machine: &mut ResponseMachine, event: LegEvent) {
        let expected = !self.over && self.expects(&event);
        if expected {
            self.reading = matches!(event, LegEvent::LegBegun);
            self.pending = None;
        }
        match &event {
            LegEvent::HandoffWritten { sentinel, .. } if expected => self.written.push(sentinel.clone()),
            LegEvent::CallAnswered { mark, .. } if expected => self.written.push(mark.clone()),
            _ => {}
        }
        machine.handle_event(event);
        while let Some(action) = machine.poll_action() {
            assert!(expected, "nothing ended, and {action:?} follows");
            assert!(!self.over, "it is over, and {action:?} follows");
            assert!(self.pending.is_none(), "a second effect: {action:?}");
            match action {
                Action::Say(text) => assert!(
                    self.written.contains(&text) || text.trim_start().starts_with(BEGINS),
                    "shown before it was written: {text}"
                ),
                Action::Perform(effect) => {
                    assert!(!self.reading, "a leg is being read, and {effect:?} begins");
                    self.pending = Some(effect);
                }
                _ => self.over = true,
            }
        }
        assert!(
            self.pending.is_some() || self.reading || self.over,
            "nothing is under way, and the response has not ended"
        );
    }
}

pub fn check(input: &[u8]) {
    let mut choices = Choices(input);
    let mut machine = ResponseMachine::new(choices.terms());
    let mut driver = Driver {
        pending: None,
        reading: true,
        written: vec![EMPTY_TURN.to_owned()],
        over: false,
    };
    while !choices.0.is_empty() {
        driver.step(&mut machine, choices.event());
    }
}
