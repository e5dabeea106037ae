//! Context use in one branch of a conversation, and its consequences: a notice to the model, or an automatic
//! handoff.

use std::sync::Arc;

use super::value::Exchange;
use crate::app::App;
use crate::proxy::{RequestContext, headers};
use crate::state::session::ContextBranch;
use crate::state::store::StoreResult;
use crate::state::sync::OnceLog;
use baton_core::bill::RequestCosts;
use baton_core::nudge::{NudgeOutcome, WindowQuery, compaction_point};
use baton_core::plan::FreeCutPolicy;
use baton_core::record::{Insertion, InsertionContent, InsertionPoint};
use baton_core::rewrite::insertions;

/// Models whose window is unknown, to log each once.
static UNKNOWN: OnceLog = OnceLog::new();

/// Finds the branch of the request, and sets it in the exchange, if notices or cuts may depend on it.
///
/// Returns the branch unless the request repeats the newest one of the branch.
pub(super) fn enter(exchange: &mut Exchange) -> Option<ContextBranch> {
    let (app, ctx, offered) = (&exchange.app, &exchange.ctx, &exchange.offered);
    let policy = &app.config.handoff;
    let thresholds = policy.thresholds_of(headers::is_of_subagent(&ctx.headers));
    let plan = exchange.plan();
    // Without notices, cuts or usage limits may still depend on the branch.
    let may_cut = app.is_shadow(ctx) || policy.when_cache_cold != FreeCutPolicy::Off || policy.nudge_limit;
    if !plan.is_in_the_loop(app.is_shadow(ctx)) || (thresholds.are_off() && !may_cut) {
        return None;
    }
    let live = offered.live.as_ref()?;
    let model = plan.model();
    let window = window_of(app, ctx, model);
    // Logged once per model, because every request would repeat it.
    if window.is_none() && thresholds.nudge_at > 0.0 && UNKNOWN.is_first(model) {
        tracing::info!(
            model,
            "the window of this model is unknown; applying only handoff.nudge_tokens (to set it: handoff.windows)"
        );
    }
    let (named, cut) = (offered.call.named, offered.active_id());
    let (branch, is_new) = live.context_exchange(offered.view(), named, cut, plan.is_notified());
    let branch = ContextBranch {
        live: Arc::clone(live),
        branch,
        limits: thresholds.of(window),
        window,
        nudge_pays: thresholds.nudge_pays,
        wording: policy.nudge_wording,
        costs: costs(exchange, window).map(Arc::new),
    };
    exchange.branch = Some(branch.clone());
    is_new.then_some(branch)
}

/// Inserts a notice after the request before anything is sent.
pub(super) async fn nudge(branch: &ContextBranch, exchange: &mut Exchange, text: &str) {
    let appended = append(exchange, text).await;
    let ctx = &exchange.ctx;
    match appended {
        Ok(true) => {
            branch.notified();
            ctx.note_nudge(NudgeOutcome::Notified);
            tracing::debug!(exchange = ctx.id, "telling the model how full its context is");
        }
        // This request has no room for a notice, but the next one may have.
        Ok(false) => {}
        Err(error) => {
            ctx.note_nudge(NudgeOutcome::NotWritten);
            tracing::error!(exchange = ctx.id, %error, "failed to store nudge; sending the request without it");
        }
    }
}

/// Appends a notice to the request.
///
/// It is stored first, and then part of this request and of every later one of its transcript. Returns
/// `false` if there is no room for it, or if another notice is already there.
///
/// # Errors
/// The store cannot be written. The request is sent without the notice.
pub(super) async fn append(exchange: &mut Exchange, text: &str) -> StoreResult<bool> {
    let (app, ctx, offered) = (&exchange.app, &exchange.ctx, &exchange.offered);
    let Some(place) = exchange.plan().place_at_end() else {
        return Ok(false);
    };
    let live = offered.live()?;
    let now = app.clock.now_ms();
    let insertion = Insertion {
        id: app.clock.new_id(),
        principal: ctx.principal.clone(),
        conversation: live.key().to_owned(),
        wire: offered.view().wire,
        place: InsertionPoint::After(place),
        content: InsertionContent::Text(text.to_owned()),
        created_ms: now,
    };
    // Stored before it is sent, so that later requests insert the same notice at the same point.
    app.sessions.insert(live, insertion.clone(), now).await?;
    let (placed, _) = insertions::find(offered.view(), [&insertion]);
    exchange.offered_mut().insert(placed);
    Ok(true)
}

/// Costs of a request to a model with this window.
///
/// `None` if no cut depends on them, if a subscription pays, or if the model has no price.
fn costs(exchange: &Exchange, window: Option<u64>) -> Option<RequestCosts> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let policy = &app.config.handoff;
    let is_wanted =
        app.is_shadow(ctx) || policy.when_cache_cold != FreeCutPolicy::Off || policy.thresholds.nudge_pays;
    if !is_wanted || ctx.recorder.read(|e| e.subscription) {
        return None;
    }
    let agent = ctx.recorder.read(|e| e.agent.clone()).unwrap_or_default();
    // Agents compact their own history at different points of the window.
    let limit = window.map(|window| compaction_point(&agent, window));
    let (host, now_ms) = (ctx.upstream.config.host(), app.clock.now_ms());
    let (plan, lifetime) = (exchange.plan(), policy.cache_lifetime);
    app.prices.request_costs(&plan, &host, limit, lifetime, now_ms)
}

/// Window of this model, if it is known from the request, the config or the model's name.
pub(super) fn window_of(app: &App, ctx: &RequestContext, model: &str) -> Option<u64> {
    let text = |name| headers::text(&ctx.headers, name).unwrap_or_default();
    app.config.handoff.windows.of(&WindowQuery {
        model,
        betas: text("anthropic-beta"),
        user_agent: text("user-agent"),
        declared: text(headers::DECLARED_WINDOWS),
    })
}
