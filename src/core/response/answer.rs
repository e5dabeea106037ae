//! An answer to the agent, driven: its legs' bytes go in, the agent's bytes and what is to be done come out. Two forms, one
//! response machine: a stream, and a reply in one piece.

use bytes::Bytes;

use super::events::{Action, LegEvent, ResponseEffect};
use super::machine::ResponseMachine;
use super::merge::StreamMerge;
use crate::tools::ToolNames;
use crate::wire::{Ending, Leg, LegOutput, LegReport, StopReason, View};

/// How far a leg has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegProgress {
    Open,
    /// Its own end was seen.
    Over,
    /// A frame exceeds the limit, and cannot be passed on unread.
    TooLarge,
}

/// An answer as a stream.
pub struct StreamedAnswer {
    pub machine: ResponseMachine,
    pub merge: StreamMerge,
    /// What waits to be sent.
    pub out: Vec<Bytes>,
}

impl StreamedAnswer {
    /// The first leg is about to be read. A handoff may be pending until its end.
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

    /// Takes the leg's next bytes.
    pub fn feed(&mut self, chunk: Bytes) -> LegProgress {
        if !chunk.is_empty() {
            self.merge.feed(chunk, &mut self.out);
        }
        if self.merge.failed {
            LegProgress::TooLarge
        } else if self.merge.leg_ended() {
            LegProgress::Over
        } else {
            LegProgress::Open
        }
    }

    /// The leg is over: by its own end, or because there is no more of it.
    pub fn leg_over(&mut self) {
        let report = self.merge.report().clone();
        let event = if report.again {
            self.merge.machine.forget_leg();
            let (shown, retry) = (false, true);
            match report.quota.clone() {
                Some(error) => LegEvent::QuotaUsed(error),
                None => LegEvent::LegBroken { report, shown, retry },
            }
        } else if report.ended || report.stop.natural() {
            LegEvent::LegEnded(report)
        } else {
            let withheld = self.merge.withholding();
            let shown = self.leg_shown();
            LegEvent::LegTruncated {
                report,
                shown,
                withheld,
            }
        };
        self.machine.handle_event(event);
    }

    /// The leg cannot be read to its end. `retry`: another try may succeed.
    pub fn leg_broken(&mut self, retry: bool) {
        let shown = self.leg_shown();
        let report = self.merge.report().clone();
        self.machine
            .handle_event(LegEvent::LegBroken { report, shown, retry });
    }

    /// Whether anything of a leg that failed was shown. A later one of which nothing was is forgotten: it may be sent
    /// again.
    fn leg_shown(&mut self) -> bool {
        let shown = self.merge.leg_shown;
        if self.machine.is_later_leg() && !shown {
            self.merge.machine.forget_leg();
        }
        shown
    }

    /// Upstream answers the leg that was sent, which was offered these tools of ours.
    pub fn leg_begun(&mut self, offered: ToolNames) {
        self.merge.machine.hide(offered);
        self.merge.next_leg();
        self.machine.handle_event(LegEvent::LegBegun);
    }

    /// The model's output in the leg that has ended, where this effect asks the model again. `None`: too large to keep.
    pub fn spoken(&self, effect: &ResponseEffect) -> Option<LegOutput> {
        effect.asks_again().then(|| self.merge.spoken()).flatten()
    }

    /// Whether nothing waits to be sent.
    pub fn is_drained(&self) -> bool {
        self.out.is_empty()
    }

    /// What waits to be sent, in one piece.
    pub fn take(&mut self) -> Option<Bytes> {
        match self.out.len() {
            0 | 1 => self.out.pop(),
            _ => Some(std::mem::take(&mut self.out).concat().into()),
        }
    }
}

/// An answer in one piece, and the legs that it is joined of.
pub struct JoinedAnswer {
    machine: ResponseMachine,
    legs: Vec<Leg>,
}

impl JoinedAnswer {
    /// The first leg is about to be read.
    pub fn new(machine: ResponseMachine) -> Self {
        Self {
            machine,
            legs: Vec::new(),
        }
    }

    /// A leg was read to its end.
    pub fn leg_over(&mut self, body: Bytes, report: LegReport) {
        self.legs.push(Leg {
            body,
            report: report.clone(),
            then: None,
        });
        self.machine.handle_event(LegEvent::LegEnded(report));
    }

    /// A leg cannot be read. `retry`: another try may succeed.
    pub fn leg_broken(&mut self, retry: bool) {
        self.machine.handle_event(LegEvent::LegBroken {
            report: LegReport::default(),
            shown: false,
            retry,
        });
    }

    /// An effect was performed, or could not be.
    pub fn performed(&mut self, event: LegEvent) {
        self.machine.handle_event(event);
    }

    /// What is to be done next. Nothing of a leg is shown before its end, so nothing is ever broken off.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.machine.poll_action()
    }

    /// The model's output in the leg that has ended, where this effect asks the model again.
    pub fn spoken(&self, effect: &ResponseEffect) -> Option<LegOutput> {
        let last = self.legs.last().filter(|_| effect.asks_again());
        last.map(|leg| LegOutput::Reply(leg.body.clone()))
    }

    /// Shows a text of ours behind the last leg.
    pub fn say(&mut self, text: String) {
        if let Some(last) = self.legs.last_mut() {
            last.then = Some(text);
        }
    }

    /// How the last leg ended.
    pub fn stop(&self) -> StopReason {
        self.legs.last().map_or(StopReason::Open, |leg| leg.report.stop)
    }

    /// The reply as the agent gets it; upstream's own bytes where nothing is to be changed. `opening`: what it begins with.
    pub fn joined(&self, view: &View, opening: Option<&str>, ending: Ending) -> Bytes {
        if let ([leg], None, Ending::Own) = (&self.legs[..], opening, ending)
            && leg.report.hidden.is_empty()
            && leg.report.escaped_sentinels == 0
        {
            return view.shaped_for(leg.body.clone());
        }
        view.shaped_for(view.wire().join(&self.legs, opening, ending))
    }
}
