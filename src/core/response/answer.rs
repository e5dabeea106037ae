//! Drives one response: consumes upstream bytes, yields agent bytes and actions.
//!
//! There are two forms, a stream and a complete reply, with the same machine.

use bytes::Bytes;

use super::events::{Action, LegEvent, ResponseEffect};
use super::machine::{ENDED_EARLY, ResponseMachine};
use super::merge::StreamMerge;
use crate::tools::ToolNames;
use crate::wire::{Ending, Leg, LegOutput, LegReport, StopReason, View, error_message, quota_error};

/// Progress of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegProgress {
    Open,
    /// The leg's own end arrived.
    Over,
    /// A frame exceeds the limit and cannot be forwarded unread.
    TooLarge,
}

/// A streamed response.
pub struct StreamedAnswer {
    pub machine: ResponseMachine,
    pub merge: StreamMerge,
    /// Bytes to send to the agent.
    pub out: Vec<Bytes>,
}

impl StreamedAnswer {
    /// Starts before the first leg is read. A handoff may be pending until the end of that leg.
    pub fn new(machine: ResponseMachine, mut merge: StreamMerge) -> Self {
        if machine.waits() {
            merge.machine.hold_ends();
        }
        Self {
            machine,
            merge,
            out: Vec::new(),
        }
    }

    /// Reads the next bytes of the leg.
    pub fn feed(&mut self, chunk: Bytes) -> LegProgress {
        if !chunk.is_empty() {
            self.merge.feed(chunk, &mut self.out);
        }
        if self.merge.failed {
            // Before the end: a frame that was too large may hide the leg's own end.
            LegProgress::TooLarge
        } else if self.merge.leg_ended() {
            LegProgress::Over
        } else {
            LegProgress::Open
        }
    }

    /// Ends the leg, after its terminal frame or at the end of its bytes.
    pub fn leg_over(&mut self) {
        let report = self.merge.report().clone();
        // An error before any output: the leg is treated as if it had not begun.
        let event = if report.again {
            self.merge.machine.forget_leg();
            let message = || error_message(&report.error).unwrap_or_else(|| ENDED_EARLY.to_owned());
            match quota_error(&report.error) {
                Some(error) => LegEvent::QuotaUsed(error),
                None => LegEvent::LegBroken {
                    cause: message(),
                    report,
                    shown: false,
                    retry: true,
                },
            }
        } else if report.ended || report.stop.natural() {
            LegEvent::LegEnded(report)
        } else {
            // Read before `leg_shown`, which discards the leg.
            let changed = self.merge.is_changed();
            let shown = self.leg_shown();
            LegEvent::LegTruncated {
                report,
                shown,
                changed,
            }
        };
        self.machine.handle_event(event);
    }

    /// Reports that reading the leg failed before its end, and why. `retry` tells whether another attempt may
    /// succeed.
    ///
    /// Another attempt follows only if the agent has seen no output of the leg.
    pub fn leg_broken(&mut self, retry: bool, cause: String) {
        let shown = self.leg_shown();
        let report = self.merge.report().clone();
        self.machine.handle_event(LegEvent::LegBroken {
            report,
            shown,
            retry,
            cause,
        });
    }

    /// Whether the agent saw any output of a failed leg.
    ///
    /// A later leg without visible output is discarded, so that it may be retried.
    fn leg_shown(&mut self) -> bool {
        let shown = self.merge.leg_shown;
        if self.machine.is_later_leg() && !shown {
            self.merge.machine.forget_leg();
        }
        shown
    }

    /// Starts reading the leg that was sent with these tools of baton.
    pub fn leg_begun(&mut self, offered: ToolNames) {
        self.merge.machine.hide(offered);
        self.merge.next_leg();
        self.machine.handle_event(LegEvent::LegBegun);
    }

    /// Returns the model's output of the last leg if the effect sends it back to the model. `None` if the
    /// output was too large to keep.
    pub fn spoken(&self, effect: &ResponseEffect) -> Option<LegOutput> {
        effect.asks_again().then(|| self.merge.spoken()).flatten()
    }

    /// Whether no bytes are waiting to be sent.
    pub fn is_drained(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes the bytes to send, as one buffer.
    pub fn take(&mut self) -> Option<Bytes> {
        // Most reads give one buffer, which is passed on without a copy.
        match self.out.len() {
            0 | 1 => self.out.pop(),
            _ => Some(std::mem::take(&mut self.out).concat().into()),
        }
    }
}

/// A complete response, joined from legs.
pub struct JoinedAnswer {
    machine: ResponseMachine,
    legs: Vec<Leg>,
}

impl JoinedAnswer {
    /// Starts before the first leg is read.
    pub fn new(machine: ResponseMachine) -> Self {
        Self {
            machine,
            legs: Vec::new(),
        }
    }

    /// Reports a leg that was read completely.
    pub fn leg_over(&mut self, body: Bytes, report: LegReport) {
        self.legs.push(Leg {
            body,
            report: report.clone(),
            then: Vec::new(),
        });
        self.machine.handle_event(LegEvent::LegEnded(report));
    }

    /// Reports a leg that cannot be read, and why. `retry` tells whether a retry may succeed.
    pub fn leg_broken(&mut self, retry: bool, cause: String) {
        self.machine.handle_event(LegEvent::LegBroken {
            report: LegReport::default(),
            shown: false,
            retry,
            cause,
        });
    }

    /// Reports the outcome of an effect.
    pub fn performed(&mut self, event: LegEvent) {
        self.machine.handle_event(event);
    }

    /// Returns the next action. A leg is shown only after its end, so the response is never aborted midway.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.machine.poll_action()
    }

    /// Returns the model's output of the last leg if the effect sends it back to the model.
    pub fn spoken(&self, effect: &ResponseEffect) -> Option<LegOutput> {
        let last = self.legs.last().filter(|_| effect.asks_again());
        last.map(|leg| LegOutput::Reply(leg.body.clone()))
    }

    /// Shows text from baton after the last leg.
    pub fn say(&mut self, text: String) {
        if let Some(last) = self.legs.last_mut() {
            last.then.push(text);
        }
    }

    /// How the last leg ended.
    pub fn stop(&self) -> StopReason {
        self.legs.last().map_or(StopReason::Open, |leg| leg.report.stop)
    }

    /// Returns the reply for the agent. Without changes these are upstream's own bytes.
    ///
    /// `opening` is the text that begins the reply.
    pub fn joined(&self, view: &View, opening: Option<&str>, ending: Ending) -> Bytes {
        // Nothing was hidden, escaped or added, so the agent gets upstream's own bytes.
        if let ([leg], None, Ending::Own) = (&self.legs[..], opening, ending)
            && leg.report.hidden.is_empty()
            && leg.report.escaped_sentinels == 0
        {
            return view.shaped_for(leg.body.clone());
        }
        view.shaped_for(view.wire().join(&self.legs, opening, ending))
    }
}
