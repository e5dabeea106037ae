//! Sends the requests of an exchange, and records them.

use http::Response;
use http::response::Parts;

use crate::exchange::brake;
use crate::exchange::value::Exchange;
use crate::proxy::download::UpstreamBody;
use crate::proxy::headers::Sending;
use crate::proxy::route;
use crate::proxy::upload::RopeBody;
use crate::proxy::upstream::UpstreamResult;
use crate::state::journal::{PackedHeaders, SentLeg};
use baton_core::plan::{is_model_call, refuses_model};
use baton_core::rewrite::RewriteOutcome;

/// An exchange whose first leg upstream has answered.
pub(in crate::exchange) struct Sent {
    pub(in crate::exchange) exchange: Exchange,
    /// The request as it was sent.
    pub(in crate::exchange) request: RewriteOutcome,
    pub(in crate::exchange) response: Response<UpstreamBody>,
}

/// Kind of request within an exchange.
#[derive(Clone, Copy)]
pub(in crate::exchange) enum LegKind<'t> {
    First,
    /// A request to this path and query. `added` is true if another request carries the agent's message.
    Later {
        target: &'t str,
        added: bool,
    },
}

/// Sends the request that `make` builds, and falls back to the agent's model if upstream rejects the routed
/// one.
///
/// If the agent's model works, the routed one gets no further requests. Also returns the request that was sent
/// last.
pub(super) async fn or_own(
    exchange: &Exchange,
    make: impl Fn() -> RewriteOutcome,
    kind: LegKind<'_>,
) -> (RewriteOutcome, UpstreamResult) {
    let request = make();
    if matches!(kind, LegKind::First) && is_model_call(exchange.ctx.operation) {
        let lost = exchange.plan().lost(&request);
        exchange
            .ctx
            .note_lost("hidden calls", lost, |e| &mut e.lost_pairs);
    }
    let answered = once(exchange, &request, kind).await;
    let is_refused = |response: &Response<_>| refuses_model(response.status().as_u16());
    let is_refused = answered.as_ref().is_ok_and(is_refused);
    let refused = request.model.clone().filter(|_| is_refused);
    let Some(model) = refused else {
        return (request, answered);
    };
    let refused_models = &exchange.app.refused_models;
    // Remembered before the request is built again, so that the plan uses the agent's model.
    refused_models.is_first(&model);
    let request = make();
    let own = once(exchange, &request, kind).await;
    if own.as_ref().is_ok_and(|response| response.status().is_success()) {
        tracing::warn!(
            exchange = exchange.ctx.id,
            model,
            "upstream refused the model of a handoff's route; continuing with the agent's model (handoff.routes)"
        );
    } else {
        // The agent's model failed as well, so the routed one was not the reason.
        refused_models.forget(&model);
    }
    (request, own)
}

/// Sends a request once.
pub(in crate::exchange) async fn once(
    exchange: &Exchange,
    leg: &RewriteOutcome,
    kind: LegKind<'_>,
) -> UpstreamResult {
    let (ctx, offered) = (&exchange.ctx, &exchange.offered);
    let (raw, target, sending) = match kind {
        LegKind::First => {
            // A body without edits is sent as it arrived, in the same compression.
            let raw = offered.raw(&leg.rope);
            // The body that arrived still contains the removed commands.
            let raw = raw.filter(|_| offered.pin.taken_out.removed.is_none());
            let sending = Sending {
                read: is_model_call(ctx.operation),
                plain: raw.is_none(),
                ..Sending::default()
            };
            (raw, &*ctx.target, sending)
        }
        LegKind::Later { target, added } => (None, target, Sending::later(added)),
    };
    let rope = raw.map_or_else(|| leg.rope.clone(), |raw| vec![raw.clone()]);
    if exchange.app.config.log.requests {
        // The plain body: the one that is sent may be compressed.
        let body = leg.rope.concat();
        let body = exchange.app.redactor.json(&body);
        tracing::info!(exchange = ctx.id, request = %String::from_utf8_lossy(&body), "rewritten request");
    }
    // Some wires name the model in the path.
    let model = leg.model.as_deref();
    let routed = model.and_then(|model| route::with_model(target, model));
    let target = routed.as_deref().unwrap_or(target);
    let body = RopeBody::new(rope);
    ctx.recorder.leg_sent(body.left());
    let headers = ctx.onward(sending);
    let (method, recording) = (&ctx.method, &ctx.recording);
    recording.sent(|| SentLeg {
        url: ctx.upstream.address(target),
        headers: PackedHeaders::without_sensitive(&headers),
        rope: leg.rope.clone(),
        request: exchange.offered.recorded(),
        changes: leg.changes.clone(),
    });
    let again = || ctx.onward(sending);
    let sent = ctx.upstream.send(method, target, headers, again, body).await;
    match &sent {
        Ok(response) => {
            recording.answered(response.status().as_u16(), response.headers());
            brake::note_windows(exchange, response.headers());
        }
        Err(_) => recording.unanswered(),
    }
    sent
}

/// Returns the body as plain text, copied for the journal, or unchanged if its coding is unknown.
pub(in crate::exchange) fn readable(
    exchange: &Exchange,
    parts: &Parts,
    body: UpstreamBody,
) -> Result<UpstreamBody, UpstreamBody> {
    let body = body.decoded(&parts.headers)?;
    Ok(body.copied(exchange.ctx.recording.capture_leg()))
}
