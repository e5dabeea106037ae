//! Drives the course of an answer in one piece: its legs are collected, and joined into one reply.

use bytes::Bytes;
use http::Response;

use super::answered::Answered;
use super::effects::{self, EffectResult};
use crate::serve::exchange::{Exchange, record_writer};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::relay;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::{Action, Course, CourseEvent, Effect, ResponseEnd, writes_call};
use baton_core::record::Handoff;
use baton_core::text::splice;
use baton_core::tools::ToolNames;
use baton_core::wire::{self, Ending, Leg, LegOutput, LegReport, StopReason};

/// The answer to an agent that wants it in one piece.
pub(super) async fn answer(answered: Answered) -> Response<ResponseBody> {
    let Answered {
        exchange,
        parts,
        body,
        verdict,
        sentinel_of,
    } = answered;
    let body = match exchange.collect(body).await {
        Ok(body) => body,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    if wire::is_error(&body) {
        exchange.ctx.recorder.decide(ExchangeOutcome::InBandError);
    }
    let Some(report) = exchange.read_reply(&body, exchange.hidden()) else {
        return relay::headed(&parts, true, ResponseBody::whole(body));
    };
    let mut reply = JoinedReply {
        course: exchange.course(verdict, sentinel_of.as_deref()),
        exchange,
        legs: Vec::new(),
    };
    reply.leg_ended(body, report);
    let close = match reply.next() {
        NextStep::End(close) => close,
        // In a box: nearly all replies end with their first leg, and what is awaited here is as large as all of it.
        NextStep::Perform(effect) => Box::pin(reply.run(effect)).await,
    };
    let last = reply.legs.last().map_or(StopReason::Open, |leg| leg.report.stop);
    let outcome = effects::outcome(&close, last);
    let joined = ResponseBody::whole(reply.joined(&close, sentinel_of.as_deref()));
    let exchange = &reply.exchange;
    let body = match outcome {
        ExchangeOutcome::Complete => {
            exchange.watch_pause();
            match exchange.when_ended() {
                Some(then) => joined.when_handed_over(then),
                None => joined,
            }
        }
        outcome => {
            exchange.ctx.recorder.decide(outcome);
            joined
        }
    };
    relay::headed(&parts, true, body)
}

impl Exchange {
    /// Reads a reply, from which calls of these tools are hidden.
    pub(in crate::serve::exchange) fn read_reply(&self, body: &Bytes, hide: ToolNames) -> Option<LegReport> {
        let agent = &self.offered.agent;
        agent.wire.reply(agent.request.view(), body, self.watch(hide))
    }

    /// All of an answer.
    pub(in crate::serve::exchange) async fn collect(&self, body: UpstreamBody) -> Result<Bytes, Fault> {
        let limit = self.app.config.limits.body_bytes;
        body.whole(limit, &self.app.bodies.budget).await
    }
}

/// One reply, and the legs that it is joined of.
struct JoinedReply {
    exchange: Exchange,
    course: Course,
    legs: Vec<Leg>,
}

/// The next step of a reply.
enum NextStep {
    Perform(Effect),
    End(ResponseEnd),
}

impl JoinedReply {
    fn leg_ended(&mut self, body: Bytes, report: LegReport) {
        record_writer::count(&self.exchange, &report);
        record_writer::count_written_call(&self.exchange, &report, || writes_call(&body));
        self.legs.push(Leg {
            body,
            report: report.clone(),
            then: None,
        });
        self.course.handle_event(CourseEvent::LegEnded(report));
    }

    /// Shows what is to be shown, up to what has to be waited for.
    fn next(&mut self) -> NextStep {
        loop {
            match self.course.poll_action() {
                Some(Action::Say(text)) => {
                    if let Some(last) = self.legs.last_mut() {
                        last.then = Some(text);
                    }
                }
                Some(Action::Perform(effect)) => return NextStep::Perform(effect),
                Some(Action::End(close)) => return NextStep::End(close),
                // Nothing of a leg is shown before its end, so nothing is ever broken off.
                Some(Action::EndAsItIs | Action::BreakOff) | None => return NextStep::End(ResponseEnd::Own),
            }
        }
    }

    /// Performs effect after effect. Returns how the reply ends.
    async fn run(&mut self, mut effect: Effect) -> ResponseEnd {
        loop {
            let asks = matches!(effect, Effect::AnswerCall(_));
            let last = self.legs.last().filter(|_| asks);
            let spoken = last.map(|leg| LegOutput::Reply(leg.body.clone()));
            match self.exchange.perform(effect, spoken, false).await {
                EffectResult::Event(event) => self.course.handle_event(event),
                EffectResult::Leg(body) => {
                    self.course.handle_event(CourseEvent::LegBegun);
                    self.read_leg(body).await;
                }
            }
            match self.next() {
                NextStep::Perform(next) => effect = next,
                NextStep::End(close) => return close,
            }
        }
    }

    /// Reads a later leg.
    async fn read_leg(&mut self, body: UpstreamBody) {
        let exchange = &self.exchange.ctx.id;
        let retry = match self.exchange.collect(body).await {
            Ok(body) => match self.exchange.read_reply(&body, self.exchange.hidden()) {
                Some(report) if report.stop != StopReason::Error => return self.leg_ended(body, report),
                None if !wire::is_error(&body) => {
                    tracing::error!(exchange, "leg answered with an invalid reply");
                    false
                }
                report => {
                    if let Some(report) = report {
                        record_writer::count(&self.exchange, &report);
                    }
                    tracing::warn!(exchange, "leg answered with an error under a status of success");
                    true
                }
            },
            Err(fault) if [Code::CLOSED.name, Code::SILENT.name].contains(&fault.code.name) => {
                tracing::warn!(exchange, fault = fault.message(), "leg broke off");
                true
            }
            Err(fault) => {
                tracing::error!(exchange, fault = fault.message(), "leg cannot be read");
                false
            }
        };
        let shown = false;
        self.course.handle_event(CourseEvent::LegBroken { shown, retry });
    }

    /// The reply as the agent gets it; upstream's own bytes where nothing is to be changed.
    fn joined(&self, close: &ResponseEnd, sentinel_of: Option<&Handoff>) -> Bytes {
        let wire = self.exchange.offered.agent.wire;
        let view = self.exchange.offered.agent.request.view();
        let size = |leg: &_| splice::len(&self.exchange.offered.plan(&self.exchange.app).later_leg(leg).rope);
        let ending = effects::ending(close, size);
        let opening = self.exchange.first_text(sentinel_of);
        if let ([leg], None, Ending::Own) = (&self.legs[..], &opening, ending)
            && leg.report.hidden.is_empty()
            && leg.report.broken_up == 0
        {
            return wire.shaped_for(view, leg.body.clone());
        }
        wire.shaped_for(view, wire.join(&self.legs, opening.as_deref(), ending))
    }
}
