//! Any events in any order: nothing is done twice, too early, or after the end.
#![no_main]

use arbitrary::Arbitrary;
use baton_core::course::{Action, Course, CourseEvent, CourseTerms, Effect, RepeatedHandoff, VerdictInput};
use baton_core::record::HiddenResult;
use baton_core::wire::{EMPTY_TURN, HiddenCall, LegReport, StopReason};
use libfuzzer_sys::fuzz_target;
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

#[derive(Arbitrary, Debug)]
struct DrawnLeg {
    /// Arguments of the hidden calls.
    hidden: Vec<String>,
    calls: u8,
    stop: u8,
    id: u8,
}

#[derive(Arbitrary, Debug)]
enum DrawnEvent {
    Ended(DrawnLeg),
    Truncated { leg: DrawnLeg, shown: bool, withheld: bool },
    Broken { shown: bool, retry: bool },
    HandoffWritten(u8),
    CallAnswered(u8),
    Written,
    NotWritten,
    Begun,
    Refused { retry: bool },
    AgentGone,
}

#[derive(Arbitrary, Debug)]
struct DrawnCourse {
    messages: u8,
    max_chain: u8,
    retries: u8,
    stops: bool,
    by_id: bool,
    pending: bool,
    structured: bool,
    opening: bool,
    opens_with_text: bool,
    events: Vec<DrawnEvent>,
}

fn report(leg: DrawnLeg) -> LegReport {
    let hidden = leg.hidden.into_iter().take(4).map(|arguments| HiddenCall {
        id: "h".into(),
        arguments,
        complete: true,
        ..HiddenCall::default()
    });
    let calls = usize::from(leg.calls % 4);
    LegReport {
        hidden: hidden.collect(),
        calls: (0..calls).map(|i| (format!("c{i}"), i)).collect(),
        parts: calls,
        stop: STOPS[usize::from(leg.stop) % STOPS.len()],
        ended: true,
        id: ["", "a", "b"][usize::from(leg.id) % 3].into(),
        ..LegReport::default()
    }
}

impl From<DrawnEvent> for CourseEvent {
    fn from(drawn: DrawnEvent) -> Self {
        match drawn {
            DrawnEvent::Ended(leg) => Self::LegEnded(report(leg)),
            DrawnEvent::Truncated { leg, shown, withheld } => Self::LegTruncated {
                report: report(leg),
                shown,
                withheld,
            },
            DrawnEvent::Broken { shown, retry } => Self::LegBroken { shown, retry },
            DrawnEvent::HandoffWritten(id) => Self::HandoffWritten {
                id: Uuid::from_u128(id.into()),
                head: id.to_string(),
                sentinel: format!("sentinel {id}"),
            },
            DrawnEvent::CallAnswered(n) => Self::CallAnswered {
                mark: format!("mark {n}"),
                more: format!("more {n}"),
                answer: HiddenResult::EMPTY_PROMPT,
            },
            DrawnEvent::Written => Self::Written,
            DrawnEvent::NotWritten => Self::NotWritten,
            DrawnEvent::Begun => Self::LegBegun,
            DrawnEvent::Refused { retry } => Self::LegRefused { retry, pause: None },
            DrawnEvent::AgentGone => Self::AgentGone,
        }
    }
}

fn terms(drawn: &DrawnCourse) -> CourseTerms {
    let opening = drawn.opening.then(|| RepeatedHandoff {
        id: Uuid::from_u128(7),
        head: "head".into(),
    });
    CourseTerms {
        first: VerdictInput {
            messages: drawn.messages.into(),
            legs: 1 + u32::from(drawn.opening),
            max_chain: 1 + u32::from(drawn.max_chain % 8),
            pending: drawn.pending.then(|| ("pending".into(), None)),
            structured: drawn.structured,
            ..VerdictInput::default()
        },
        stops: drawn.stops,
        goes_on_by_id: drawn.by_id,
        retries: u32::from(drawn.retries % 4),
        active: None,
        opening,
        opens_with_text: drawn.opens_with_text,
    }
}

/// Performs what the course wants, and checks it.
struct Driver {
    /// The effect under way.
    pending: Option<Effect>,
    reading: bool,
    /// Texts that may be shown, since their records are written.
    written: Vec<String>,
    over: bool,
    gone: bool,
}

impl Driver {
    /// Whether the event may follow: what it ends is under way.
    fn expects(&self, event: &CourseEvent) -> bool {
        match (&self.pending, event) {
            (_, CourseEvent::AgentGone) => true,
            (None, CourseEvent::LegEnded(_) | CourseEvent::LegTruncated { .. } | CourseEvent::LegBroken { .. }) => {
                self.reading
            }
            (Some(Effect::WriteHandoff { .. }), CourseEvent::HandoffWritten { .. } | CourseEvent::NotWritten) => true,
            (Some(Effect::AnswerCall(_)), CourseEvent::CallAnswered { .. } | CourseEvent::NotWritten) => true,
            (
                Some(Effect::WritePairs(_) | Effect::WriteId { .. }),
                CourseEvent::Written | CourseEvent::NotWritten,
            ) => true,
            (Some(Effect::Send { .. }), CourseEvent::LegBegun | CourseEvent::LegRefused { .. }) => true,
            _ => false,
        }
    }

    fn step(&mut self, course: &mut Course, event: CourseEvent) {
        let expected = !self.over && !self.gone && self.expects(&event);
        if expected {
            self.reading = matches!(event, CourseEvent::LegBegun);
            self.pending = None;
        }
        match &event {
            CourseEvent::HandoffWritten { sentinel, .. } if expected => self.written.push(sentinel.clone()),
            CourseEvent::CallAnswered { mark, .. } if expected => self.written.push(mark.clone()),
            CourseEvent::AgentGone => self.gone = true,
            _ => {}
        }
        course.handle_event(event);
        while let Some(action) = course.poll_action() {
            assert!(expected, "nothing ended, and {action:?} follows");
            assert!(!self.gone && !self.over, "it is over, and {action:?} follows");
            assert!(self.pending.is_none(), "a second effect: {action:?}");
            match action {
                Action::Say(text) => assert!(self.written.contains(&text), "shown before it was written: {text}"),
                Action::Perform(effect) => {
                    assert!(!self.reading, "a leg is being read, and {effect:?} begins");
                    self.pending = Some(effect);
                }
                _ => self.over = true,
            }
        }
        assert!(
            self.pending.is_some() || self.reading || self.over || self.gone,
            "nothing is under way, and the response has not ended"
        );
    }
}

fuzz_target!(|drawn: DrawnCourse| {
    let mut course = Course::new(terms(&drawn));
    let mut driver = Driver {
        pending: None,
        reading: true,
        written: vec![EMPTY_TURN.to_owned()],
        over: false,
        gone: false,
    };
    for event in drawn.events {
        driver.step(&mut course, event.into());
    }
});
