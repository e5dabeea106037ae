//! Drives the course of an answer in one piece: its legs are collected, and joined into one reply.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::response::Parts;

use super::Exchange;
use super::effects::{self, Done};
use super::shaped;
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::{Action, Course, CourseEvent, Effect, RepeatedHandoff, ResponseEnd, VerdictInput};
use baton_core::record::Handoff;
use baton_core::wire::{self, Ending, Leg, LegOutput, LegReport, StopReason};

/// What an answer to an agent that asked for no stream is made of.
pub(super) struct WholeAnswer {
    pub(super) exchange: Exchange,
    /// Head and body of upstream's answer.
    pub(super) parts: Parts,
    pub(super) body: UpstreamBody,
    pub(super) now: VerdictInput,
    /// The handoff behind which a repeated request goes on.
    pub(super) opening: Option<Arc<Handoff>>,
}

/// The answer to an agent that asked for no stream.
pub(super) async fn answer(asked: Box<WholeAnswer>) -> Response<ResponseBody> {
    let WholeAnswer {
        exchange,
        parts,
        body,
        now,
        opening,
    } = *asked;
    let body = match collect(&exchange, body).await {
        Ok(body) => body,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    if wire::is_error(&body) {
        exchange.ctx.recorder.decide(ExchangeOutcome::InBandError);
    }
    let Some(report) = exchange.read_reply(&body) else {
        return shaped(parts.status, &parts.headers, ResponseBody::whole(body));
    };
    let mut reply = Reply {
        course: exchange.course(
            now,
            opening.as_ref().map(|handoff| RepeatedHandoff {
                id: handoff.id,
                head: handoff.head.clone(),
            }),
        ),
        exchange,
        legs: Vec::new(),
    };
    reply.leg_ended(body, report);
    let close = match reply.next() {
        Next::End(close) => close,
        // In a box: nearly all replies end with their first leg, and what is awaited here is as large as all of it.
        Next::Perform(effect) => Box::pin(reply.run(effect)).await,
    };
    let outcome = reply.outcome(&close);
    let joined = ResponseBody::whole(reply.joined(&close, opening.as_deref()));
    let exchange = &reply.exchange;
    let body = match outcome {
        ExchangeOutcome::Complete => match exchange.when_ended() {
            Some(then) => joined.when_handed_over(then),
            None => joined,
        },
        outcome => {
            exchange.ctx.recorder.decide(outcome);
            joined
        }
    };
    shaped(parts.status, &parts.headers, body)
}

impl Exchange {
    fn read_reply(&self, body: &Bytes) -> Option<LegReport> {
        let offered = &self.offered;
        offered
            .agent
            .wire
            .reply_to(offered.agent.request.view(), body, self.watch())
    }
}

async fn collect(exchange: &Exchange, body: UpstreamBody) -> Result<Bytes, Fault> {
    let app = &exchange.app;
    body.whole(app.config.limits.body_bytes, &app.bodies).await
}

/// One reply, and the legs that it is joined of.
struct Reply {
    exchange: Exchange,
    course: Course,
    legs: Vec<Leg>,
}

/// What comes next.
enum Next {
    Perform(Effect),
    End(ResponseEnd),
}

impl Reply {
    fn leg_ended(&mut self, body: Bytes, report: LegReport) {
        self.exchange.count(&report);
        self.legs.push(Leg {
            body,
            report: report.clone(),
            then: None,
        });
        self.course.handle_event(CourseEvent::LegEnded(report));
    }

    /// Shows what is to be shown, up to what has to be waited for.
    fn next(&mut self) -> Next {
        loop {
            match self.course.poll_action() {
                Some(Action::Say(text)) => {
                    if let Some(last) = self.legs.last_mut() {
                        last.then = Some(text);
                    }
                }
                Some(Action::Perform(effect)) => return Next::Perform(effect),
                Some(Action::End(close)) => return Next::End(close),
                // Nothing of a leg is shown before its end, so nothing is ever broken off.
                Some(Action::EndAsItIs | Action::BreakOff) | None => return Next::End(ResponseEnd::Own),
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
                Done::Event(event) => self.course.handle_event(event),
                Done::Leg(body) => {
                    self.course.handle_event(CourseEvent::LegBegun);
                    self.read_leg(body).await;
                }
            }
            match self.next() {
                Next::Perform(next) => effect = next,
                Next::End(close) => return close,
            }
        }
    }

    /// Reads a later leg.
    async fn read_leg(&mut self, body: UpstreamBody) {
        let exchange = &self.exchange.ctx.id;
        let retry = match collect(&self.exchange, body).await {
            Ok(body) => match self.exchange.read_reply(&body) {
                Some(report) if report.stop != StopReason::Error => return self.leg_ended(body, report),
                Some(report) => {
                    self.exchange.count(&report);
                    tracing::warn!(exchange, "leg answered with an error under a status of success");
                    true
                }
                None if wire::is_error(&body) => {
                    tracing::warn!(exchange, "leg answered with an error under a status of success");
                    true
                }
                None => {
                    tracing::error!(exchange, "leg answered with what is no reply of this API");
                    false
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

    fn outcome(&self, close: &ResponseEnd) -> ExchangeOutcome {
        let last = self.legs.last();
        effects::outcome(close, last.map_or(StopReason::Open, |leg| leg.report.stop))
    }

    /// The reply as the agent gets it; upstream's own bytes where nothing is to be changed.
    fn joined(&self, close: &ResponseEnd, opening: Option<&Handoff>) -> Bytes {
        let wire = self.exchange.offered.agent.wire;
        let view = self.exchange.offered.agent.request.view();
        let ending = self.exchange.ending(close);
        let opening = self.exchange.beginning(opening);
        if let ([leg], None, Ending::Own) = (&self.legs[..], &opening, ending)
            && leg.report.hidden.is_empty()
            && leg.report.broken_up == 0
        {
            return wire.shaped_for(view, leg.body.clone());
        }
        wire.shaped_for(view, wire.join(&self.legs, opening.as_deref(), ending))
    }
}
