//! Retries a first leg that upstream refused with a 400, if there is a remedy.
//!
//! The conversation's record follows the attempt that worked.

use bytes::Bytes;
use http::Response;
use http::response::Parts;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;

use super::sender::{self, LegKind, Sent};
use crate::exchange::brake;
use crate::exchange::request::PlannedExchange;
use crate::exchange::value::Exchange;
use crate::proxy::download::UpstreamBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::relay;
use crate::proxy::response_body::AgentResponse;
use crate::state::telemetry::{ExchangeOutcome, ThinkingRetry};
use baton_core::plan::{Retry, replaces_refusal};
use baton_core::rewrite::untooled::ToolOmission;

/// Sends a refused request again, each time with another change that may help.
///
/// # Errors
/// The response to the agent: the refusal, or baton's own fault.
pub(super) async fn retry(sent: Sent) -> Result<Sent, AgentResponse> {
    let Sent {
        mut exchange,
        request,
        response,
    } = sent;
    let (parts, error) = refusal(&exchange, response).await?;
    let mut next = exchange.plan().retry(&error, &request);
    while let Some(retry) = next.take() {
        prepare(&mut exchange, &retry);
        let answered = sender::once(&exchange, &retry.request, LegKind::First).await;
        let status = answered.as_ref().map(Response::status);
        let accepted = status.is_ok_and(|status| status.is_success());
        settle(&mut exchange, &retry, accepted).await;
        // Upstream does not respond anymore, so the agent gets the first refusal.
        let Ok(answered) = answered else { break };
        if replaces_refusal(answered.status().as_u16()) {
            return Ok(Sent {
                exchange,
                request: retry.request,
                response: answered,
            });
        }
        if retry.may_be_followed()
            && let Some(error) = second_refusal(&exchange, answered).await
        {
            next = exchange.plan().retry_again(&error, &retry);
        }
    }
    if lacks_pairs(&exchange.offered) {
        tracing::error!(
            exchange = exchange.ctx.id,
            "upstream refused a request without its stored records; reporting a store failure"
        );
        return Err(exchange.ctx.refuse(Fault::from(Code::STORE)));
    }
    exchange.ctx.recorder.decide(ExchangeOutcome::UpstreamError);
    Err(relay::failed(&exchange.ctx, &parts, whole(error), true))
}

/// Relays a refusal because of a limit of the account, whose body may state when the provider opens again.
pub(super) async fn relay_limited(sent: Sent) -> AgentResponse {
    let Sent {
        exchange, response, ..
    } = sent;
    let (parts, error) = match refusal(&exchange, response).await {
        Ok(refusal) => refusal,
        Err(response) => return response,
    };
    if let Some(opens_ms) = exchange.ctx.note_limit(&parts.headers, &error) {
        brake::note_refusal(&exchange, opens_ms);
    }
    exchange.ctx.recorder.decide(ExchangeOutcome::UpstreamError);
    relay::failed(&exchange.ctx, &parts, whole(error), true)
}

/// Reads a refusal with its body. Returns the response to the agent if the body cannot be read.
async fn refusal(
    exchange: &Exchange,
    response: Response<UpstreamBody>,
) -> Result<(Parts, Bytes), AgentResponse> {
    let (parts, body) = response.into_parts();
    match sender::readable(exchange, &parts, body) {
        Ok(body) => match exchange.collect(body).await {
            Ok(error) => Ok((parts, error)),
            Err(fault) => Err(exchange.ctx.refuse(fault)),
        },
        Err(body) => {
            let response = Response::from_parts(parts, body);
            Err(relay::answer(&exchange.ctx, Ok(response)))
        }
    }
}

/// A body that was read.
fn whole(error: Bytes) -> impl Body<Data = Bytes, Error = Fault> {
    Full::new(error).map_err(|never| match never {})
}

/// Reads the body of a refused retry, which the agent does not get.
async fn second_refusal(exchange: &Exchange, response: Response<UpstreamBody>) -> Option<Bytes> {
    let (parts, body) = response.into_parts();
    let body = sender::readable(exchange, &parts, body).ok()?;
    exchange.collect(body).await.ok()
}

/// Whether hidden calls of a conversation may be missing, because the store cannot be read.
///
/// That alone may cause a refusal. The agent then gets a store failure, which it retries.
pub(super) fn lacks_pairs(offered: &PlannedExchange) -> bool {
    offered.live.is_none() && offered.view().under_way()
}

/// Applies a retry's omissions to the exchange, so that later legs leave out the same.
pub(in crate::exchange) fn prepare(exchange: &mut Exchange, retry: &Retry) {
    let id = &exchange.ctx.id;
    match retry.omitted {
        None => {
            let tooled = retry.tooled;
            tracing::warn!(
                exchange = id,
                tooled,
                "upstream refused the prefix of a request; retrying with the tool toggled"
            );
        }
        omitted => {
            tracing::warn!(
                exchange = id,
                "upstream refused the thinking of a request; retrying without it"
            );
            exchange.offered_mut().leave_out_thinking(omitted);
        }
    }
}

/// Records the result of a retry.
async fn settle(exchange: &mut Exchange, retry: &Retry, accepted: bool) {
    if retry.omitted.is_some() {
        let outcome = match accepted {
            true => ThinkingRetry::Accepted,
            false => ThinkingRetry::Refused,
        };
        exchange.ctx.recorder.note(|e| e.thinking_retry = Some(outcome));
        if accepted {
            remember_omission(exchange).await;
        }
    }
    // A retry that was refused proves nothing about the tool.
    let Some(tooled) = retry.tooled.filter(|_| accepted) else {
        return;
    };
    let app = &exchange.app;
    if let Some(live) = &exchange.offered.live
        && let Err(error) = app.sessions.decide_tooled(live, tooled, app.clock.now_ms()).await
    {
        tracing::error!(%error, "failed to record a successful retry; the next request may be refused again");
    }
    exchange.ctx.recorder.note(|e| {
        e.tooled = tooled;
        e.untooled = (!tooled).then_some(ToolOmission::PrefixRefused);
    });
    exchange.offered_mut().offer.tooled = tooled;
}

/// Records that upstream accepted the request without its thinking.
pub(in crate::exchange) async fn remember_omission(exchange: &Exchange) {
    let (app, omission) = (&exchange.app, exchange.plan().thinking_omission());
    let (Some(live), Some(omission)) = (&exchange.offered.live, omission) else {
        return;
    };
    let written = app.sessions.change(live, omission, app.clock.now_ms()).await;
    if let Err(error) = written {
        let id = &exchange.ctx.id;
        tracing::error!(exchange = id, %error, "failed to record the omitted thinking; the next request will be refused again");
    }
}
