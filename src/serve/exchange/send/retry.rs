//! Retries a first leg that upstream refused with a 400, where a remedy is known. The conversation's record follows what
//! worked.

use std::sync::Arc;

use http::Response;

use super::refusal::{RefusedRequest, Remedy, replaces_refusal};
use super::sender;
use super::sent::{FirstLeg, Sent};
use crate::serve::exchange::offer::Offered;
use crate::serve::exchange::{Exchange, thinking};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::relay;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::{ExchangeOutcome, ThinkingRetry};
use baton_core::rewrite::RewriteOutcome;
use baton_core::rewrite::untooled::{self, ToolOmission};

/// A request that is sent again.
struct Retry {
    request: RewriteOutcome,
    /// Whether it has the tool, where that is a change.
    tooled: Option<bool>,
    leaves_thinking_out: bool,
}

/// Sends a refused request again where that may help; else passes the refusal on.
pub(super) async fn retry(sent: Sent) -> FirstLeg {
    let Sent {
        mut exchange,
        request,
        response,
    } = sent;
    let (parts, body) = response.into_parts();
    let body = match sender::readable(&exchange, &parts, body) {
        Ok(body) => body,
        Err(body) => {
            let response = Response::from_parts(parts, body);
            return FirstLeg::Refused(relay::answer(&exchange.ctx, Ok(response)));
        }
    };
    let error = match exchange.collect(body).await {
        Ok(error) => error,
        Err(fault) => return FirstLeg::Refused(exchange.ctx.refuse(fault)),
    };
    let mut next = changed(&mut exchange, &error, &request);
    while let Some(retry) = next.take() {
        let answered = sender::first(&exchange, &retry.request).await;
        let accepted = answered
            .as_ref()
            .is_ok_and(|answered| answered.status().is_success());
        settle(&mut exchange, &retry, accepted).await;
        let Ok(answered) = answered else { break };
        if replaces_refusal(answered.status()) {
            return FirstLeg::Sent(Sent {
                exchange,
                request: retry.request,
                response: answered,
            });
        }
        if retry.tooled == Some(true) && !retry.leaves_thinking_out {
            next = without_thinking_as_well(&mut exchange, answered, &retry.request).await;
        }
    }
    if lacks_pairs(&exchange.offered) {
        tracing::error!(
            exchange = exchange.ctx.id,
            "upstream refuses a request that was sent without its stored records"
        );
        return FirstLeg::Refused(exchange.ctx.refuse(Fault::from(Code::STORE)));
    }
    exchange.ctx.recorder.decide(ExchangeOutcome::UpstreamError);
    FirstLeg::Refused(relay::headed(&parts, true, ResponseBody::whole(error)))
}

/// Whether hidden calls of a conversation may be missing, since the store cannot be read: a refusal may be of that alone, and the
/// agent then sends the request again.
pub(super) fn lacks_pairs(offered: &Offered) -> bool {
    offered.agent.live.is_none() && offered.agent.request.view().under_way()
}

/// The request with the change that may help against this error.
fn changed(exchange: &mut Exchange, error: &[u8], first: &RewriteOutcome) -> Option<Retry> {
    let offered = &exchange.offered;
    let wire = offered.agent.wire;
    let refused = RefusedRequest {
        is_pinned: offered.pin.active.is_some(),
        was_tooled: offered.offer.tooled,
        needs_tool: offered.places.are_any(),
        has_room: untooled::no_room(offered.agent.request.view()).is_none(),
        is_tool_forbidden: offered.agent.call.forbidden.is_some(),
        refuses_thinking: wire.facts().refuses_thinking(error),
        is_prefix_mismatch: wire.facts().is_prefix_mismatch(error),
    };
    match refused.remedy()? {
        Remedy::WithoutThinking => Some(Retry {
            request: leave_thinking_out(exchange, first)?,
            tooled: None,
            leaves_thinking_out: true,
        }),
        Remedy::Tooled(tooled) => {
            tracing::warn!(
                exchange = exchange.ctx.id,
                tooled,
                "the prefix does not match: retried with the tool toggled"
            );
            Some(Retry {
                request: offered.plan(&exchange.app).first(tooled),
                tooled: Some(tooled),
                leaves_thinking_out: false,
            })
        }
    }
}

/// The request of a conversation that baton did not know, which upstream refuses without the tool and with it. Its thinking
/// is bound to hidden calls that were lost with the store. Sent with the tool, so that the conversation has it again.
async fn without_thinking_as_well(
    exchange: &mut Exchange,
    refusal: Response<UpstreamBody>,
    tooled: &RewriteOutcome,
) -> Option<Retry> {
    let (parts, body) = refusal.into_parts();
    let body = sender::readable(exchange, &parts, body).ok()?;
    let error = exchange.collect(body).await.ok()?;
    let is_bound = exchange.offered.offer.untooled == Some(ToolOmission::BoundHistory);
    if !is_bound || !exchange.offered.agent.wire.facts().is_prefix_mismatch(&error) {
        return None;
    }
    Arc::make_mut(&mut exchange.offered).offer.tooled = true;
    Some(Retry {
        request: leave_thinking_out(exchange, tooled)?,
        tooled: Some(true),
        leaves_thinking_out: true,
    })
}

fn leave_thinking_out(exchange: &mut Exchange, sent: &RewriteOutcome) -> Option<RewriteOutcome> {
    let offered = Arc::make_mut(&mut exchange.offered);
    let request = thinking::leave_out(&exchange.app, offered, sent)?;
    tracing::warn!(
        exchange = exchange.ctx.id,
        "upstream refuses the thinking of a request: retried without it"
    );
    Some(request)
}

/// Records what a retry has shown.
async fn settle(exchange: &mut Exchange, retry: &Retry, accepted: bool) {
    if retry.leaves_thinking_out {
        settle_thinking(exchange, accepted).await;
    }
    if let Some(tooled) = retry.tooled.filter(|_| accepted) {
        settle_tool(exchange, tooled).await;
    }
}

async fn settle_thinking(exchange: &Exchange, accepted: bool) {
    let outcome = match accepted {
        true => ThinkingRetry::Accepted,
        false => ThinkingRetry::Refused,
    };
    exchange.ctx.recorder.note(|e| e.thinking_retry = Some(outcome));
    if accepted {
        thinking::remember_omission(exchange).await;
    }
}

async fn settle_tool(exchange: &mut Exchange, tooled: bool) {
    let app = &exchange.app;
    if let Some(live) = &exchange.offered.agent.live
        && let Err(error) = app.sessions.decide_tooled(live, tooled, app.clock.now_ms()).await
    {
        tracing::error!(%error, "the successful retry could not be recorded");
    }
    exchange.ctx.recorder.note(|e| {
        e.tooled = tooled;
        e.untooled = (!tooled).then_some(ToolOmission::PrefixRefused);
    });
    exchange.leg.tooled = tooled;
}
