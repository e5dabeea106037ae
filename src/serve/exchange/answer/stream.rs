//! Drives the course of a streamed answer: the body that the server polls. It polls upstream itself; while an effect runs
//! between two legs it sends keep-alives to the agent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::answered::Answered;
use super::effects::{self, EffectResult};
use crate::serve::exchange::{Exchange, heavy, record_writer};
use crate::serve::proxy::download::{PolledFrame, StreamFault, UpstreamBody};
use crate::serve::proxy::relay;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::{Action, Course, CourseEvent, Effect, ResponseEnd, StreamMerge, VerdictInput};
use baton_core::record::Handoff;
use baton_core::text::splice;
use baton_core::wire::StopReason;

/// An effect in progress.
type EffectWork = heavy::OffloadedFuture<Worked>;

/// The exchange after an effect, and the effect's outcome.
struct Worked {
    exchange: Box<Exchange>,
    result: EffectResult,
}

/// The body of a streamed answer.
pub(super) struct Driver {
    exchange: Exchange,
    course: Course,
    merge: StreamMerge,
    phase: DriverPhase,
    /// What waits to be sent.
    out: Vec<Bytes>,
    /// How the present leg failed.
    fault: Option<StreamFault>,
    /// How the response ended, once it did not break off.
    outcome: Option<ExchangeOutcome>,
    quiet: Option<Pin<Box<Sleep>>>,
}

enum DriverPhase {
    Leg(UpstreamBody),
    Between(EffectWork),
    Done,
    Broken(StreamFault),
}

impl Exchange {
    /// What a streamed answer goes through.
    pub(in crate::serve::exchange) fn merge(&self) -> StreamMerge {
        let limit = self.app.config.limits.frame_bytes;
        let agent = &self.offered.agent;
        agent.merge(self.form(), self.watch(self.hidden()), limit, self.leg.tooled)
    }

    /// What an answer goes through that began with a draft as it was written: what follows is another leg of it.
    fn merge_after_shown(&self) -> Option<StreamMerge> {
        let mut merge = self.shown.as_ref()?.take_merge()?;
        merge.hide(self.hidden());
        merge.next_leg();
        Some(merge)
    }
}

/// The answer to an agent that wants a stream.
pub(super) fn answer(answered: Answered) -> Response<ResponseBody> {
    answered.exchange.ctx.recorder.note(|e| e.streamed = true);
    let Answered {
        exchange,
        parts,
        body,
        verdict,
        sentinel_of,
    } = answered;
    let driver = Driver::new(exchange, body, verdict, sentinel_of.as_deref());
    relay::headed(&parts, true, ResponseBody::stream(driver))
}

impl Driver {
    fn new(
        mut exchange: Exchange,
        body: UpstreamBody,
        verdict: VerdictInput,
        sentinel_of: Option<&Handoff>,
    ) -> Self {
        let mut merge = exchange.merge_after_shown().unwrap_or_else(|| {
            let mut merge = exchange.merge();
            if let Some(text) = exchange.first_text(sentinel_of) {
                merge.open_with(text);
            }
            merge
        });
        if verdict.pending.is_some() {
            merge.hold_ends();
        }
        exchange.spill();
        Self {
            course: exchange.course(verdict, sentinel_of),
            exchange,
            merge,
            phase: DriverPhase::Leg(body),
            out: Vec::new(),
            fault: None,
            outcome: None,
            quiet: None,
        }
    }

    fn happened(&mut self, event: CourseEvent) {
        self.course.handle_event(event);
        while let Some(action) = self.course.poll_action() {
            match action {
                Action::Say(text) => self.merge.say(&text, &mut self.out),
                Action::Perform(effect) => self.perform(effect),
                Action::End(close) => self.end(&close),
                Action::EndAsItIs => self.end_as_it_is(),
                Action::BreakOff => self.break_off(),
            }
        }
    }

    /// The leg's own end was seen.
    fn leg_ended(&mut self) {
        let report = self.merge.report().clone();
        record_writer::count(&self.exchange, &report);
        record_writer::count_written_call(&self.exchange, &report, || self.merge.writes_call());
        if !report.again {
            return self.happened(CourseEvent::LegEnded(report));
        }
        self.merge.forget_leg();
        let (shown, retry) = (false, true);
        self.happened(CourseEvent::LegBroken { shown, retry });
    }

    /// The leg cannot be read to its end.
    fn leg_broken(&mut self, fault: StreamFault, retry: bool) {
        let shown = self.leg_shown();
        self.fault = Some(fault);
        self.happened(CourseEvent::LegBroken { shown, retry });
    }

    /// Upstream's body is at its end without the leg's last event having been seen.
    fn upstream_done(&mut self) {
        self.merge.finish_leg(&mut self.out);
        let report = self.merge.report().clone();
        if report.ended || report.stop.natural() {
            return self.leg_ended();
        }
        record_writer::count(&self.exchange, &report);
        let withheld = self.merge.withholding();
        let shown = self.leg_shown();
        self.happened(CourseEvent::LegTruncated {
            report,
            shown,
            withheld,
        });
    }

    /// Whether anything of a leg that failed was shown. A later one of which nothing was is forgotten: it may be sent
    /// again.
    fn leg_shown(&mut self) -> bool {
        let shown = self.merge.leg_shown();
        if self.course.is_later_leg() && !shown {
            self.merge.forget_leg();
        }
        shown
    }

    /// The leg is over, and its connection goes back to the pool once the body's own end was read.
    fn let_go(&mut self) {
        if let DriverPhase::Leg(body) = std::mem::replace(&mut self.phase, DriverPhase::Done) {
            body.drained();
        }
    }

    /// Begins an effect.
    fn perform(&mut self, effect: Effect) {
        let asks = matches!(effect, Effect::AnswerCall(_));
        let spoken = asks.then(|| self.merge.spoken()).flatten();
        let mut exchange = Box::new(self.exchange.clone());
        let weight = exchange.offered.agent.weight;
        let work = async move {
            let result = exchange.perform(effect, spoken, true).await;
            Worked { exchange, result }
        };
        self.phase = DriverPhase::Between(heavy::offloaded(weight, Box::pin(work)));
    }

    fn worked(&mut self, Worked { exchange, result }: Worked) {
        self.exchange = *exchange;
        match result {
            EffectResult::Event(event) => self.happened(event),
            EffectResult::Leg(body) => {
                self.merge.hide(self.exchange.hidden());
                self.merge.next_leg();
                self.phase = DriverPhase::Leg(body);
                self.happened(CourseEvent::LegBegun);
            }
        }
    }

    fn end(&mut self, close: &ResponseEnd) {
        // An end that states a later leg's size rewrites the request for it.
        let Exchange { app, offered, .. } = &self.exchange;
        let size = |leg: &_| splice::len(&offered.plan(app).later_leg(leg).rope);
        let ending = heavy::work(offered.agent.weight, || effects::ending(close, size));
        self.outcome = Some(effects::outcome(close, self.merge.report().stop));
        self.merge.close(ending, &mut self.out);
        self.phase = DriverPhase::Done;
    }

    fn end_as_it_is(&mut self) {
        self.outcome = Some(match self.merge.report().stop {
            StopReason::Open => ExchangeOutcome::Truncated,
            stop => ExchangeOutcome::of_end(stop),
        });
        self.phase = DriverPhase::Done;
    }

    fn break_off(&mut self) {
        let fault = self.fault.take();
        self.phase = DriverPhase::Broken(fault.unwrap_or_else(|| {
            // Ending here in silence would look complete to some agents.
            StreamFault::Closed("the stream ended before its last event".to_owned())
        }));
    }

    /// What waits, in one piece.
    fn take(&mut self) -> Option<Bytes> {
        match self.out.len() {
            0 | 1 => self.out.pop(),
            _ => Some(std::mem::take(&mut self.out).concat().into()),
        }
    }

    /// Polls what there is to poll; `Ready` when there may be something to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.phase {
            DriverPhase::Done | DriverPhase::Broken(_) => Poll::Ready(()),
            DriverPhase::Between(work) => match work.as_mut().poll(cx) {
                Poll::Ready(done) => {
                    self.worked(done);
                    Poll::Ready(())
                }
                Poll::Pending => self.keep_alive(cx),
            },
            DriverPhase::Leg(body) => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.merge.feed(chunk, &mut self.out);
                    }
                    if self.merge.failed() {
                        let why = "an event exceeds limits.frame_bytes".to_owned();
                        self.leg_broken(StreamFault::Closed(why), false);
                    } else if self.merge.leg_ended() {
                        self.let_go();
                        self.leg_ended();
                    }
                    Poll::Ready(())
                }
                Poll::Ready(Some(Err(fault))) => {
                    let retry = fault.may_pass();
                    self.leg_broken(fault, retry);
                    Poll::Ready(())
                }
                Poll::Ready(None) => {
                    self.upstream_done();
                    Poll::Ready(())
                }
                Poll::Pending if self.merge.withholding() => self.keep_alive(cx),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Sends a keep-alive when nothing was sent for as long as the config says.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let every = self.exchange.app.config.handoff.keepalive;
        let sleep = self
            .quiet
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // A wire that has nothing to emit yet is polled again later, and not at once.
        sleep.as_mut().reset(Instant::now() + every);
        self.merge.keepalive(&mut self.out);
        Poll::Ready(())
    }

    /// The last piece is being sent: agents may disconnect before they read that there is no more.
    fn ended(&mut self) {
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        self.exchange.ctx.recorder.decide(outcome);
        if outcome == ExchangeOutcome::Complete {
            if let Some(then) = self.exchange.when_ended() {
                then();
            }
            self.exchange.watch_pause();
        }
    }
}

impl Body for Driver {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            if let Some(piece) = self.take() {
                // The next silence starts again.
                self.quiet = None;
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
        matches!(self.phase, DriverPhase::Done) && self.out.is_empty()
    }
}
