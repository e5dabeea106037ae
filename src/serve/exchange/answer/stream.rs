//! Drives the response machine of a streamed response.
//!
//! The driver is the body that the server polls, and polls upstream itself. Between two legs, while an effect
//! runs, it sends keep-alives to the agent.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::effects::{self, Answered, EffectResult};
use crate::exchange::{recording, value::Exchange};
use crate::heavy;
use crate::proxy::download::{PolledFrame, UpstreamBody};
use crate::proxy::fault::{Code, Fault};
use crate::proxy::relay;
use crate::proxy::response_body::{AgentResponse, ResponseBody};
use crate::proxy::waiting::KeepAlive;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::response::{Action, LegProgress, ResponseEffect, ResponseEnd, StreamMerge, StreamedAnswer};
use baton_core::wire::StopReason;

/// An effect in progress, which returns the exchange and the outcome.
type EffectWork = heavy::OffloadedFuture<(Box<Exchange>, EffectResult)>;

/// Body of a streamed response.
pub(super) struct Driver {
    exchange: Exchange,
    answer: StreamedAnswer,
    phase: DriverPhase,
    /// Fault of the current leg.
    fault: Option<Fault>,
    /// Outcome of the response, unless it is cut off.
    outcome: Option<ExchangeOutcome>,
    quiet: KeepAlive,
    /// Whether any piece was sent.
    sent: bool,
    /// Ends when the drain time is over.
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
}

enum DriverPhase {
    Leg(UpstreamBody),
    Between(EffectWork),
    Done,
    Broken(Fault),
}

impl Exchange {
    /// Merge of a response that began with a draft while it was being written. The next upstream response is
    /// a further leg.
    fn merge_after_shown(&self) -> Option<StreamMerge> {
        let mut merge = self.shown.as_ref()?.line().take_merge()?;
        merge.machine.hide(self.hidden());
        merge.next_leg();
        Some(merge)
    }
}

/// Builds the response to an agent that wants a stream.
pub(super) fn answer(answered: Answered) -> AgentResponse {
    let Answered {
        mut exchange,
        parts,
        body,
        machine,
        opening,
    } = answered;
    exchange.ctx.recorder.note(|e| e.streamed = true);
    let merge = exchange.merge_after_shown().unwrap_or_else(|| {
        let mut merge = exchange.merge();
        if let Some(text) = opening {
            merge.open_with(text);
        }
        merge
    });
    exchange.spill();
    let mut closing = exchange.app.closing.subscribe();
    let driver = Driver {
        answer: StreamedAnswer::new(machine, merge),
        quiet: KeepAlive::new(exchange.app.config.handoff.keepalive),
        exchange,
        phase: DriverPhase::Leg(body),
        fault: None,
        outcome: None,
        sent: false,
        closing: Box::pin(async move {
            let _ = closing.wait_for(|closing| *closing).await;
        }),
    };
    relay::headed(&parts, true, ResponseBody::stream(driver))
}

impl Driver {
    /// Performs the actions that follow from the last event.
    fn go_on(&mut self) {
        while let Some(action) = self.answer.machine.poll_action() {
            match action {
                Action::Say(text) => self.answer.merge.say(&text, &mut self.answer.out),
                Action::Perform(effect) => self.perform(effect),
                Action::End(close) => self.end(&close),
                Action::EndAsItIs => self.end_as_it_is(),
                Action::Refuse(error) => {
                    self.fail(&error);
                    self.outcome = Some(ExchangeOutcome::InBandError);
                    self.phase = DriverPhase::Done;
                }
                Action::BreakOff => {
                    // Ending here without an error would look complete to some agents.
                    let silent = || Fault::closed("the stream ended before its last event");
                    let fault = self.fault.take().unwrap_or_else(silent);
                    if self.is_begun() {
                        self.fail(&fault.body(self.exchange.ctx.shape()));
                    }
                    self.phase = DriverPhase::Broken(fault);
                }
            }
        }
    }

    /// Handles the end of a leg, complete or not.
    fn leg_over(&mut self) {
        let report = self.answer.merge.report();
        recording::count_shown(&self.exchange, report, || self.answer.merge.writes_call());
        self.answer.leg_over();
        self.go_on();
    }

    /// Handles a leg that cannot be read to its end. `retry` tells whether another attempt may succeed.
    fn leg_broken(&mut self, fault: Fault, retry: bool) {
        let cause = fault.cause();
        self.fault = Some(fault);
        self.answer.leg_broken(retry, cause);
        self.go_on();
    }

    /// Starts an effect.
    fn perform(&mut self, effect: ResponseEffect) {
        let spoken = self.answer.spoken(&effect);
        // The effect is a future of its own, so it works on a copy and returns it.
        let mut exchange = Box::new(self.exchange.clone());
        let weight = exchange.offered.weight;
        let work = async move {
            let result = exchange.perform(effect, spoken, true).await;
            (exchange, result)
        };
        self.phase = DriverPhase::Between(heavy::offloaded(weight, Box::pin(work)));
    }

    /// Handles the end of an effect.
    fn performed(&mut self, result: EffectResult) {
        match result {
            EffectResult::Event(event) => self.answer.machine.handle_event(*event),
            EffectResult::Leg(body) => {
                self.phase = DriverPhase::Leg(body);
                self.answer.leg_begun(self.exchange.hidden());
            }
        }
        self.go_on();
    }

    fn end(&mut self, close: &ResponseEnd) {
        let ending = self.exchange.ending(close);
        if let Some(note) = close.note(&self.exchange.app.redactor) {
            self.answer.merge.say(&note, &mut self.answer.out);
        }
        self.outcome = Some(effects::outcome(close, self.answer.merge.report().stop));
        self.answer.merge.close(ending, &mut self.answer.out);
        self.phase = DriverPhase::Done;
    }

    fn end_as_it_is(&mut self) {
        self.outcome = Some(match self.answer.merge.report().stop {
            StopReason::Open => ExchangeOutcome::Truncated,
            stop => ExchangeOutcome::of_end(stop),
        });
        self.phase = DriverPhase::Done;
    }

    /// Shows an error body in the form of the protocol.
    fn fail(&mut self, error: &str) {
        let wire = self.exchange.offered.wire();
        self.answer.merge.fail(wire, error, &mut self.answer.out);
    }

    /// Polls the current phase. `Ready` if there may be something to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.phase {
            DriverPhase::Done | DriverPhase::Broken(_) => Poll::Ready(()),
            DriverPhase::Between(work) => match work.as_mut().poll(cx) {
                Poll::Ready((exchange, result)) => {
                    self.exchange = *exchange;
                    self.performed(result);
                    Poll::Ready(())
                }
                Poll::Pending => self.keep_alive(cx),
            },
            DriverPhase::Leg(body) => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let chunk = frame.into_data().unwrap_or_default();
                    match self.answer.feed(chunk) {
                        LegProgress::Open => {}
                        LegProgress::TooLarge => {
                            self.leg_broken(Fault::closed("an event exceeds limits.frame_bytes"), false);
                        }
                        LegProgress::Over => {
                            // The connection returns to the pool once the body's own end is read.
                            if let DriverPhase::Leg(body) = mem::replace(&mut self.phase, DriverPhase::Done) {
                                body.drained();
                            }
                            self.leg_over();
                        }
                    }
                    Poll::Ready(())
                }
                Poll::Ready(Some(Err(fault))) => {
                    let retry = fault.may_pass();
                    self.leg_broken(fault, retry);
                    Poll::Ready(())
                }
                Poll::Ready(None) => {
                    self.answer.merge.finish_leg(&mut self.answer.out);
                    self.leg_over();
                    Poll::Ready(())
                }
                // Upstream sends output that the agent does not see, so the agent would hear nothing.
                Poll::Pending if self.answer.merge.withholding() => self.keep_alive(cx),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Ends the stream because the proxy stops.
    fn stop(&mut self) {
        let fault = Fault::from(Code::STOPPING);
        self.exchange.ctx.recorder.decide(ExchangeOutcome::Stopped);
        let wire = self.exchange.offered.wire();
        let error = fault.body(self.exchange.ctx.shape());
        let is_told = self.is_begun() && self.answer.merge.stop(wire, &error, &mut self.answer.out);
        self.phase = match is_told {
            true => DriverPhase::Done,
            false => DriverPhase::Broken(fault),
        };
    }

    /// Whether the agent has received anything. Until then a status can report the failure.
    fn is_begun(&self) -> bool {
        self.sent || !self.answer.is_drained() || self.exchange.ctx.recorder.read(|e| e.status != 0)
    }

    /// Sends a keep-alive if nothing was sent for the configured interval.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.quiet.poll(cx));
        self.answer.merge.keepalive(&mut self.answer.out);
        Poll::Ready(())
    }

    /// Records the end while the last piece is sent, because agents may disconnect before they read the end
    /// of the body.
    fn ended(&mut self) {
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        self.exchange.ctx.recorder.decide(outcome);
        // Only the end of a complete response can have been read.
        if outcome.is_whole() {
            self.exchange.completed()();
        }
    }
}

impl Body for Driver {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            if let Some(piece) = self.answer.take() {
                // A new silence begins.
                self.quiet.sent();
                self.sent = true;
                if self.is_end_stream() {
                    self.ended();
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match &self.phase {
                DriverPhase::Done => {
                    self.ended();
                    return Poll::Ready(None);
                }
                DriverPhase::Broken(fault) => {
                    let fault = fault.clone();
                    tracing::warn!(exchange = self.exchange.ctx.id, %fault, "upstream ended the response early; ending the stream with an error");
                    self.phase = DriverPhase::Done;
                    return Poll::Ready(Some(Err(fault)));
                }
                DriverPhase::Leg(_) | DriverPhase::Between(_) => {}
            }
            if self.advance(cx).is_pending() {
                // Last, so that whatever is ready is still sent.
                ready!(self.closing.as_mut().poll(cx));
                self.stop();
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.phase, DriverPhase::Done) && self.answer.is_drained()
    }
}
