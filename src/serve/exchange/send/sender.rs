//! Sends the requests of an exchange, and records them.

use bytes::Bytes;
use http::response::Parts;

use super::refusal::refuses_model;
use crate::serve::exchange::{Exchange, is_model_call};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::headers::Sending;
use crate::serve::proxy::route;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::UpstreamResult;
use crate::state::journal::{PackedHeaders, SentLeg};
use baton_core::rewrite::RewriteOutcome;

/// Sends the first leg. A body without edits is sent as it came, in the same compression.
pub(super) async fn first(exchange: &Exchange, request: &RewriteOutcome) -> UpstreamResult {
    let offered = &exchange.offered;
    let as_it_came = offered.agent.request.as_it_came(&request.rope);
    let raw = as_it_came.filter(|_| offered.pin.taken_out.removed.is_none());
    let sending = Sending {
        read: is_model_call(exchange.ctx.operation),
        plain: raw.is_none(),
        later_leg: false,
        added: false,
    };
    let rope = match raw {
        Some(raw) => vec![raw.clone()],
        None => request.rope.clone(),
    };
    send(exchange, request, &exchange.ctx.target, rope, sending).await
}

/// Sends a later leg that `make` makes; retries with the agent's own model if upstream refuses the model of a
/// route.
pub(in crate::serve::exchange) async fn later_or_own(
    exchange: &Exchange,
    make: impl Fn() -> RewriteOutcome,
) -> UpstreamResult {
    let leg = make();
    let target = &exchange.ctx.target;
    // After a draft the agent's own message is still to be sent.
    let added = exchange
        .ctx
        .recorder
        .read(|e| e.sent_bytes.len() > e.draft_legs.len());
    let response = later_to(exchange, &leg, target, added).await?;
    let refused = leg.model.filter(|_| refuses_model(response.status()));
    let Some(model) = refused else {
        return Ok(response);
    };
    exchange.app.refused_models.is_first(&model);
    let own = later_to(exchange, &make(), target, added).await;
    settle_model(exchange, &model, &own);
    own
}

/// A request that the model of a route refused was sent to the agent's own: where that answered, the route's gets none any
/// more.
pub(super) fn settle_model(exchange: &Exchange, model: &str, own: &UpstreamResult) {
    if own.as_ref().is_ok_and(|response| response.status().is_success()) {
        tracing::warn!(
            exchange = exchange.ctx.id,
            model,
            "upstream refuses the model of a handoff's route: the agent's own model continues (handoff.routes)"
        );
    } else {
        exchange.app.refused_models.forget(model);
    }
}

/// Sends a later leg once, to this path and query. `added`: another request carries the agent's message.
pub(in crate::serve::exchange) async fn later_to(
    exchange: &Exchange,
    leg: &RewriteOutcome,
    target: &str,
    added: bool,
) -> UpstreamResult {
    let sending = Sending {
        read: true,
        plain: true,
        later_leg: true,
        added,
    };
    send(exchange, leg, target, leg.rope.clone(), sending).await
}

/// Sends `rope`, which is `leg`'s body as it goes over the wire.
async fn send(
    exchange: &Exchange,
    leg: &RewriteOutcome,
    target: &str,
    rope: Vec<Bytes>,
    sending: Sending,
) -> UpstreamResult {
    if exchange.app.config.log.requests {
        let body = rope.concat();
        tracing::info!(exchange = exchange.ctx.id, request = %String::from_utf8_lossy(&body), "rewritten request");
    }
    // Some wires name the model in the path.
    let routed = leg
        .model
        .as_deref()
        .and_then(|model| route::with_model(target, model));
    let target = routed.as_deref().unwrap_or(target);
    let body = RopeBody::new(rope);
    exchange.ctx.recorder.leg_sent(body.left());
    let headers = exchange.ctx.onward(sending);
    let method = &exchange.ctx.method;
    let recording = &exchange.ctx.recording;
    recording.sent(|| SentLeg {
        url: exchange.ctx.upstream.address(target),
        headers: PackedHeaders::without_sensitive(&headers),
        rope: leg.rope.clone(),
        changes: leg.changes.clone(),
    });
    let again = || exchange.ctx.onward(sending);
    let sent = exchange
        .ctx
        .upstream
        .send(method, target, headers, again, body)
        .await;
    match &sent {
        Ok(response) => recording.answered(response.status().as_u16(), response.headers()),
        Err(_) => recording.unanswered(),
    }
    sent
}

/// The body as plain text, copied for the journal; or unchanged where its coding is unknown.
pub(in crate::serve::exchange) fn readable(
    exchange: &Exchange,
    parts: &Parts,
    body: UpstreamBody,
) -> Result<UpstreamBody, UpstreamBody> {
    let body = body.decoded(&parts.headers)?;
    Ok(body.copied(exchange.ctx.recording.capture_leg()))
}
