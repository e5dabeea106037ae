//! Whether a request gets the tool.

use super::active_handoff::PinLookup;
use super::is_model_call;
use super::placed::Placed;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::config::InjectPolicy;
use baton_core::agents::tools::{context_resets, resets_context};
use baton_core::rewrite::RequestReading;
use baton_core::rewrite::untooled::{self, ToolOmission};
use baton_core::transcript::Transcript;
use baton_core::wire::{Operation, View};

/// Why the request does not get the tool; `None`: it gets it. The conversation's decision, made once and kept.
pub(super) async fn why_untooled(app: &App, ctx: &RequestContext, placed: &Placed) -> Option<ToolOmission> {
    let view = placed.agent.request.view();
    if let Some(why) = placed.agent.forbidden.or(untooled::no_room(view)) {
        return Some(why);
    }
    if ctx.operation == Some(Operation::Compact) {
        return Some(ToolOmission::Summary);
    }
    // Claude Code sizes its tools this way, one by one, and sums up: each number would have ours in it.
    if ctx.operation == Some(Operation::Count) && placed.pin.active.is_none() && view.is_lone_message() {
        return Some(ToolOmission::CountProbe);
    }
    let Some(live) = &placed.agent.live else {
        return Some(ToolOmission::StoreDown);
    };
    let unfit = untooled::unfit(view);
    let unfit = unfit.or(placed.agent.side_call.then_some(ToolOmission::Summary));
    let bound = || placed.agent.wire.bound(view);
    // A conversation that has the tool keeps it: its history is bound to the list of tools.
    let resets = || {
        let own = app.config.handoff.inject == InjectPolicy::Auto && has_reset(view);
        own.then_some(ToolOmission::AgentResets)
    };
    let ours = placed.places.are_any();
    let decision = match live.tooled() {
        _ if placed.pin.active.is_some() => None,
        Some(true) => return unfit.filter(|_| !view.under_way()),
        Some(false) if !ours => unfit
            .or_else(resets)
            .or_else(|| bound().then_some(ToolOmission::BoundHistory)),
        _ if unfit.is_some() => return unfit,
        _ if ours => None,
        _ => {
            let why =
                resets().or_else(|| (view.under_way() && bound()).then_some(ToolOmission::BoundHistory));
            match why {
                Some(_) if view.under_way() && had_handoff(app, ctx, placed).await => None,
                why => why,
            }
        }
    };
    if !is_model_call(ctx.operation) {
        return decision;
    }
    let tooled = decision.is_none();
    let is_proven = ours || placed.pin.active.is_some();
    match app.sessions.decide_tooled(live, tooled, app.clock.now_ms()).await {
        // Another process has decided otherwise meanwhile. A sentinel, hidden calls or insertions prove that the tool was offered.
        Ok(stands) if stands != tooled && !is_proven => (!stands).then_some(ToolOmission::BoundHistory),
        Ok(_) => decision,
        Err(error) => {
            // Without a record the next request might decide otherwise: better no tool than one that comes and goes.
            let why = (!is_proven).then_some(ToolOmission::StoreDown);
            tracing::error!(%error, tool = why.is_none(), "the decision on the tool cannot be recorded");
            why
        }
    }
}

/// Whether the agent offers the model a tool of its own that starts a new context.
fn has_reset(view: &View) -> bool {
    // The names are looked for as bytes first: the list of tools is long, and most requests have none of them.
    context_resets().any(|name| view.has_beside_transcript(name))
        && Transcript::of(view)
            .tool_names()
            .iter()
            .any(|name| resets_context(&name.get()))
}

/// Whether a handoff that was undone proves that the conversation has the tool, though the store has lost it: by its seal.
async fn had_handoff(app: &App, ctx: &RequestContext, placed: &Placed) -> bool {
    let Some(received) = placed.pin.original_with_undos() else {
        return false;
    };
    let wire = placed.agent.wire;
    let Ok(reading) = RequestReading::new(wire, &received.text, Operation::Generate) else {
        return false;
    };
    let mut candidates = reading.candidates(wire);
    candidates.retain(|candidate| placed.pin.undone.ever().contains(&candidate.sentinel.id));
    let lookup = PinLookup {
        app,
        ctx,
        wire,
        reading: &reading,
    };
    let found = lookup.active(candidates).await;
    found.is_ok_and(|found| found.is_some())
}
