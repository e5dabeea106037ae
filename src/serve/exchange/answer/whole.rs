//! Drives the response machine of a response in one piece: collects its legs, and joins them into one reply.

use bytes::Bytes;
use http::StatusCode;

use super::effects::{self, Answered, EffectResult};
use crate::exchange::{recording, value::Exchange};
use crate::proxy::download::UpstreamBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::response_body::{AgentResponse, ResponseBody};
use crate::proxy::{answer_form, relay};
use crate::state::telemetry::ExchangeOutcome;
use baton_core::response::{Action, JoinedAnswer, LegEvent, ResponseEnd, writes_call};
use baton_core::tools::ToolNames;
use baton_core::wire::{self, LegReport, StopReason};

/// Cause of a failure without an error that can be read.
const INVALID: &str = "invalid response";

/// Builds the response to an agent that wants it in one piece.
pub(super) async fn answer(answered: Answered) -> AgentResponse {
    let Answered {
        mut exchange,
        parts,
        body,
        machine,
        opening,
    } = answered;
    let body = match exchange.collect(body).await {
        Ok(body) => body,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    // Some upstreams send errors with a success status.
    if wire::is_error(&body) {
        exchange.ctx.recorder.decide(ExchangeOutcome::InBandError);
    }
    let Some(report) = exchange.read_reply(&body, exchange.hidden()) else {
        return relay::headed(&parts, true, ResponseBody::whole(body));
    };
    let mut answer = JoinedAnswer::new(machine);
    exchange.leg_over(&mut answer, body, report);
    let close = match exchange.run(&mut answer).await {
        Ok(close) => close,
        Err(error) => {
            exchange.ctx.recorder.decide(ExchangeOutcome::UpstreamError);
            let mut response = answer_form::own_response("application/json", ResponseBody::whole(error));
            // A reply ends with an error only if the account has no quota left.
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            return response;
        }
    };
    if let Some(note) = close.note(&exchange.app.redactor) {
        answer.say(note);
    }
    let (view, ending) = (exchange.offered.view(), exchange.ending(&close));
    // Keeps upstream's own bytes if nothing has to change.
    let joined = ResponseBody::whole(answer.joined(view, opening.as_deref(), ending));
    let outcome = effects::outcome(&close, answer.stop());
    if outcome != ExchangeOutcome::Complete {
        exchange.ctx.recorder.decide(outcome);
    }
    let body = match outcome.is_whole() {
        true => joined.on_sent(exchange.completed()),
        false => joined,
    };
    relay::headed(&parts, true, body)
}

impl Exchange {
    /// Parses a reply. Calls of these tools are hidden.
    pub(in crate::exchange) fn read_reply(&self, body: &Bytes, hide: ToolNames) -> Option<LegReport> {
        self.offered
            .wire()
            .reply(self.offered.view(), body, self.watch(hide))
    }

    /// Collects a whole body.
    pub(in crate::exchange) async fn collect(&self, body: UpstreamBody) -> Result<Bytes, Fault> {
        let limit = self.app.config.limits.body_bytes;
        body.whole(limit, &self.app.bodies).await
    }

    /// Handles a leg that was read to its end.
    fn leg_over(&self, answer: &mut JoinedAnswer, body: Bytes, report: LegReport) {
        recording::count_shown(self, &report, || writes_call(&body));
        answer.leg_over(body, report);
    }

    /// Performs effects until the reply ends, and returns how it ends.
    ///
    /// # Errors
    /// The body of an error that replaces the reply.
    async fn run(&mut self, answer: &mut JoinedAnswer) -> Result<ResponseEnd, String> {
        loop {
            let effect = match answer.poll_action() {
                Some(Action::Say(text)) => {
                    answer.say(text);
                    continue;
                }
                Some(Action::Perform(effect)) => effect,
                Some(Action::End(close)) => return Ok(close),
                Some(Action::Refuse(error)) => return Err(error),
                // A reply in one piece cannot break off: it has the legs that are complete.
                Some(Action::EndAsItIs | Action::BreakOff) | None => return Ok(ResponseEnd::Own),
            };
            let spoken = answer.spoken(&effect);
            // Boxed: nearly all replies end with their first leg.
            match Box::pin(self.perform(effect, spoken, false)).await {
                EffectResult::Event(event) => answer.performed(*event),
                EffectResult::Leg(body) => {
                    answer.performed(LegEvent::LegBegun);
                    Box::pin(self.read_leg(answer, body)).await;
                }
            }
        }
    }

    /// Reads a later leg of a reply.
    async fn read_leg(&self, answer: &mut JoinedAnswer, body: UpstreamBody) {
        let exchange = &self.ctx.id;
        let (retry, cause) = match self.collect(body).await {
            Ok(body) => match self.read_reply(&body, self.hidden()) {
                Some(report) if report.stop != StopReason::Error => {
                    return self.leg_over(answer, body, report);
                }
                None if !wire::is_error(&body) => {
                    tracing::error!(exchange, "upstream sent an invalid reply; not retrying the leg");
                    (false, INVALID.to_owned())
                }
                report => {
                    if let Some(report) = report {
                        recording::count(self, &report);
                    }
                    if let Some(error) = wire::quota_error(&body) {
                        return answer.performed(LegEvent::QuotaUsed(error));
                    }
                    tracing::warn!(
                        exchange,
                        "upstream sent an error with a success status; retrying if attempts remain"
                    );
                    let message = wire::error_message(&body);
                    (true, message.unwrap_or_else(|| INVALID.to_owned()))
                }
            },
            // The connection failed, so another attempt may succeed.
            Err(fault) if [Code::CLOSED.name, Code::SILENT.name].contains(&fault.code.name) => {
                tracing::warn!(
                    exchange,
                    fault = fault.message(),
                    "upstream ended the reply early; retrying if attempts remain"
                );
                (true, fault.cause())
            }
            Err(fault) => {
                tracing::error!(
                    exchange,
                    fault = fault.message(),
                    "failed to read the reply of a leg; not retrying"
                );
                (false, fault.cause())
            }
        };
        answer.leg_broken(retry, cause);
    }
}
