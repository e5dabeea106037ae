//! Drives the response machine of a streamed answer: the body that the server polls. It polls upstream itself; while an effect runs
//! between two legs it sends keep-alives to the agent.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame};

use super::effects::{self, Answered, EffectResult};
use crate::exchange::{recording, value::Exchange};
use crate::heavy;
use crate::proxy::download::{PolledFrame, UpstreamBody};
use crate::proxy::fault::Fault;
use crate::proxy::keepalive::KeepAlive;
use crate::proxy::relay;
use crate::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::response::{Action, LegProgress, ResponseEffect, ResponseEnd, StreamMerge, StreamedAnswer};
use baton_core::wire::StopReason;

/// An effect in progress: the exchange after it, and its outcome.
type EffectWork = heavy::OffloadedFuture<(Box<Exchange>, EffectResult)>;

/// The body of a streamed answer.
pub(super) struct Driver {
    exchange: Exchange,
    answer: StreamedAnswer,
    phase: DriverPhase,
    /// How the present leg failed.
    fault: Option<Fault>,
    /// How the response ended, once it did not break off.
    outcome: Option<ExchangeOutcome>,
    quiet: KeepAlive,
    /// Whether any piece was sent.
    sent: bool,
}

enum DriverPhase {
    Leg(UpstreamBody),
    Between(EffectWork),
    Done,
    Broken(Fault),
}

impl Exchange {
    /// What an answer goes through that began with a draft as it was written: what follows is another leg of it.
    fn merge_after_shown(&self) -> Option<StreamMerge> {
        let mut merge = self.shown.as_ref()?.line().take_merge()?;
        merge.machine.hide(self.hidden());
        merge.next_leg();
        Some(merge)
    }
}

/// The answer to an agent that wants a stream.
pub(super) fn answer(answered: Answered) -> Response<ResponseBody> {
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
    let driver = Driver {
        answer: StreamedAnswer::new(machine, merge),
        quiet: KeepAlive::new(exchange.app.config.handoff.keepalive),
        exchange,
        phase: DriverPhase::Leg(body),
        fault: None,
        outcome: None,
        sent: false,
    };
    relay::headed(&parts, true, ResponseBody::stream(driver))
}

impl Driver {
    /// Does what follows from the last event.
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
                    // Ending here in silence would look complete to some agents.
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

    /// The leg is over, whole or not.
    fn leg_over(&mut self) {
        let report = self.answer.merge.report();
        recording::count_shown(&self.exchange, report, || self.answer.merge.writes_call());
        self.answer.leg_over();
        self.go_on();
    }

    /// The leg cannot be read to its end.
    fn leg_broken(&mut self, fault: Fault, retry: bool) {
        self.fault = Some(fault);
        self.answer.leg_broken(retry);
        self.go_on();
    }

    /// Begins an effect.
    fn perform(&mut self, effect: ResponseEffect) {
        let spoken = self.answer.spoken(&effect);
        let mut exchange = Box::new(self.exchange.clone());
        let weight = exchange.offered.weight;
        let work = async move {
            let result = exchange.perform(effect, spoken, true).await;
            (exchange, result)
        };
        self.phase = DriverPhase::Between(heavy::offloaded(weight, Box::pin(work)));
    }

    /// An effect is over.
    fn performed(&mut self, result: EffectResult) {
        match result {
            EffectResult::Event(event) => self.answer.machine.handle_event(event),
            EffectResult::Leg(body) => {
                self.phase = DriverPhase::Leg(body);
                self.answer.leg_begun(self.exchange.hidden());
            }
        }
        self.go_on();
    }

    fn end(&mut self, close: &ResponseEnd) {
        let ending = self.exchange.ending(close);
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

    /// Shows an error, the body of one, in the protocol's own form.
    fn fail(&mut self, error: &str) {
        let wire = self.exchange.offered.wire();
        self.answer.merge.fail(wire, error, &mut self.answer.out);
    }

    /// Polls what there is to poll; `Ready` when there may be something to send.
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
                            // The connection goes back to the pool once the body's own end was read.
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
                Poll::Pending if self.answer.merge.withholding() => self.keep_alive(cx),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Whether the agent has got anything: until then a status says how the answer failed.
    fn is_begun(&self) -> bool {
        self.sent || !self.answer.is_drained() || self.exchange.ctx.recorder.read(|e| e.status != 0)
    }

    /// Sends a keep-alive when nothing was sent for as long as the config says.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.quiet.poll(cx));
        self.answer.merge.keepalive(&mut self.answer.out);
        Poll::Ready(())
    }

    /// The last piece is being sent: agents may disconnect before they read that there is no more.
    fn ended(&mut self) {
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        self.exchange.ctx.recorder.decide(outcome);
        if outcome == ExchangeOutcome::Complete {
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
                // The next silence starts again.
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
                    tracing::warn!(exchange = self.exchange.ctx.id, %fault, "upstream broke off");
                    self.phase = DriverPhase::Done;
                    return Poll::Ready(Some(Err(fault)));
                }
                DriverPhase::Leg(_) | DriverPhase::Between(_) => {}
            }
            if self.advance(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.phase, DriverPhase::Done) && self.answer.is_drained()
    }
}
