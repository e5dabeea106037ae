//! Finds the active handoff if the agent left the answer with its sentinel out of its next request.

use std::sync::Arc;

use super::active_handoff::{Active, CutPlace, PinLookup, fresh_preamble, stored_head};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::rewrite::notes::UndoneHandoffs;
use baton_core::rewrite::{left_out, preamble};

/// The handoff whose answer the agent interrupted and left out, if it is after `found`: the transcript continues the
/// request in which it fired, with new text.
pub(super) async fn find(
    lookup: PinLookup<'_>,
    live: &Arc<LiveConversation>,
    found: Option<&Active>,
    undone: &UndoneHandoffs,
) -> Result<Option<Active>, StoreError> {
    let PinLookup {
        app,
        ctx,
        wire,
        reading,
    } = lookup;
    let view = &reading.view;
    let after = found.and_then(Active::candidate).map(|c| c.turn);
    if live.tooled().is_none() && view.under_way() {
        let missing = left_out::missing_answers(wire, view, after);
        copied_from(app, ctx, live, missing).await?;
    }
    let points = app.sessions.left_out(live, app.clock.now_ms()).await?;
    let known = points
        .iter()
        .map(|p| &**p)
        .filter(|p| !undone.is_undone(p.handoff));
    let last = left_out::last_in(wire, view, known, after);
    let Some((turn, point)) = last else {
        return Ok(None);
    };
    let Some(handoff) = app.sessions.handoff(&ctx.principal, point.handoff).await? else {
        return Ok(None);
    };
    app.sessions.keep_cut_point(live, handoff.id);
    let fresh_head = || preamble::head(wire, &fresh_preamble(app, wire, reading, None), &handoff.prompt);
    let head = stored_head(wire, &handoff).unwrap_or_else(fresh_head);
    Ok(Some(Active::of(
        &handoff,
        CutPlace::BeforeTurn(turn),
        head,
        reading,
    )))
}

/// A conversation that is new here and has a history may be a copy of one with a left-out answer.
async fn copied_from(
    app: &App,
    ctx: &RequestContext,
    live: &Arc<LiveConversation>,
    missing: Vec<String>,
) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    let known = live.record().left_out;
    let store = app.sessions.store();
    for point in store.cut_points_at(&ctx.principal, &missing).await? {
        if !known.contains(&point.handoff) {
            app.sessions.take_over(live, &point, app.clock.now_ms()).await?;
        }
    }
    Ok(())
}
