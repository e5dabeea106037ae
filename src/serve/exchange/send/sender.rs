//! Sends the requests of an exchange, and records them.

use bytes::Bytes;
use http::Response;
use http::response::Parts;

use crate::serve::exchange::recording;
use crate::serve::exchange::value::Exchange;
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::headers::Sending;
use crate::serve::proxy::response_body::ResponseBody;
use crate::serve::proxy::route;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::UpstreamResult;
use crate::state::journal::{PackedHeaders, SentLeg};
use baton_core::course::refuses_model;
use baton_core::plan::is_model_call;
use baton_core::rewrite::RewriteOutcome;

/// A request whose first leg upstream has answered.
pub(in crate::serve::exchange) struct Sent {
    pub(in crate::serve::exchange) exchange: Exchange,
    /// The request as it was sent.
    pub(in crate::serve::exchange) request: RewriteOutcome,
    pub(in crate::serve::exchange) response: Response<UpstreamBody>,
}

/// The outcome of the first leg.
#[expect(clippy::large_enum_variant, reason = "it is destructured at once")]
pub(in crate::serve::exchange) enum FirstLeg {
    Sent(Sent),
    /// The agent's answer is known already.
    Refused(Response<ResponseBody>),
}

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
    // After a draft the agent's own message is still to be sent.
    let added = exchange
        .ctx
        .recorder
        .read(|e| e.sent_bytes.len() > e.draft_legs.len());
    or_own(exchange, make, LegKind::Later { added }).await.1
}

/// Which leg is sent.
#[derive(Clone, Copy)]
pub(super) enum LegKind {
    First,
    Later { added: bool },
}

async fn send_leg(exchange: &Exchange, leg: &RewriteOutcome, kind: LegKind) -> UpstreamResult {
    match kind {
        LegKind::First => first(exchange, leg).await,
        LegKind::Later { added } => later_to(exchange, leg, &exchange.ctx.target, added).await,
    }
}

/// Sends what `make` makes. If upstream refuses the model of a route, the agent's own model gets it, and where that answers,
/// the route's gets no request any more. Returns what was sent last, too.
pub(super) async fn or_own(
    exchange: &Exchange,
    make: impl Fn() -> RewriteOutcome,
    kind: LegKind,
) -> (RewriteOutcome, UpstreamResult) {
    let request = make();
    if let LegKind::First = kind {
        recording::note_lost(exchange, &request);
    }
    let answered = send_leg(exchange, &request, kind).await;
    let is_refused = |response: &Response<_>| refuses_model(response.status().as_u16());
    let refused = request
        .model
        .clone()
        .filter(|_| answered.as_ref().is_ok_and(is_refused));
    let Some(model) = refused else {
        return (request, answered);
    };
    let refused_models = &exchange.app.refused_models;
    refused_models.is_first(&model);
    let request = make();
    let own = send_leg(exchange, &request, kind).await;
    if own.as_ref().is_ok_and(|response| response.status().is_success()) {
        tracing::warn!(
            exchange = exchange.ctx.id,
            model,
            "upstream refuses the model of a handoff's route: the agent's own model continues (handoff.routes)"
        );
    } else {
        refused_models.forget(&model);
    }
    (request, own)
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
