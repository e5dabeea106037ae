//! Shadow mode (`handoff.inject = "shadow"`): relays requests and responses byte for byte, and records where
//! a handoff would have been due.
//!
//! The agent's history stays whole, so these moments are those of a session without baton.

use std::sync::Arc;

use http::Response;

use super::context;
use super::read::ParsedRequest;
use super::request::PlannedExchange;
use super::value::Exchange;
use super::{drafts, recording};
use crate::app::App;
use crate::proxy::RequestContext;
use crate::proxy::response_body::ResponseBody;
use baton_core::nudge::{NudgeOutcome, ShadowMoment};
use baton_core::plan::{Plan, ShadowDecision};
use baton_core::rewrite::untooled::ToolOmission;

/// Relays a request and its response, and records the moment.
pub(super) async fn relayed(
    app: Arc<App>,
    ctx: RequestContext,
    received: ParsedRequest,
) -> Response<ResponseBody> {
    let call = &received.call;
    let opened = app.sessions.open(&call.key, &ctx.principal, app.clock.now_ms());
    let opened = opened.await.inspect(|live| ctx.note_topic(live));
    let opened = opened.inspect_err(
        |error| tracing::error!(%error, "failed to read the store; relaying without its records"),
    );
    // An empty plan sends the request unchanged.
    let mut plan = Plan::default();
    plan.offer
        .set(Some(call.forbidden.unwrap_or(ToolOmission::Shadow)));
    let mut exchange = Exchange::new(app, ctx, PlannedExchange::new(received, opened.ok(), plan));
    recording::begin(&exchange, None);
    note_moment(&mut exchange);
    exchange.begin().await
}

/// Records the decision that baton would have made about this request, and the text that it would have sent.
fn note_moment(exchange: &mut Exchange) {
    let Some(branch) = context::enter(exchange) else {
        return;
    };
    let now_ms = exchange.app.clock.now_ms();
    let state = branch.state();
    let moment = state.and_then(|state| exchange.plan().watched_moment(&state, now_ms));
    let Some(ShadowDecision {
        outcome,
        notice,
        saved,
    }) = moment
    else {
        return;
    };
    match outcome {
        NudgeOutcome::WouldNotify => branch.notified(),
        // As after a failed draft, the next automatic handoff is due only when the context has grown further.
        NudgeOutcome::WouldHandOver => branch.draft_failed(),
        _ => {}
    }
    let text = notice.or_else(|| drafts::local_prompt(exchange));
    let text = text.unwrap_or_default();
    exchange.ctx.note_nudge(outcome);
    let what = outcome.name().to_owned();
    let moment = ShadowMoment { what, text, saved };
    exchange.ctx.recorder.note(|e| e.shadow = Some(moment));
}
