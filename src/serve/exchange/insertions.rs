//! Texts of ours in the model's view: found again on later requests, and appended to a request.

use std::sync::Arc;

use super::Exchange;
use super::placed::Placed;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::record::{Insertion, InsertionContent, InsertionPlace};
use baton_core::rewrite::{insertions, positions};

/// Finds the insertions that have their place in the request. A conversation without any costs a look at its record.
pub(super) async fn find(app: &App, ctx: &RequestContext, placed: &mut Placed) -> Result<(), StoreError> {
    let Some(live) = &placed.agent.live else {
        return Ok(());
    };
    if app.sessions.store().may_have_insertions() && live.may_be_copy() {
        copied_from(app, ctx, placed, live).await?;
    }
    if !live.has_insertions() {
        return Ok(());
    }
    let (known, mut lost) = app.sessions.insertions_of(live, app.clock.now_ms()).await?;
    let view = placed.agent.request.view();
    let known = known.iter().map(|insertion| &**insertion);
    let (found, misplaced) = insertions::find(view, known);
    // Side calls share a session's id but not its transcript; a transcript that upstream stores has its insertions.
    lost.extend(misplaced);
    if placed.agent.is_of_the_loop(ctx.operation) {
        note_lost(ctx, live.newly_lost(&lost));
    }
    placed.places.insertions = found;
    Ok(())
}

fn note_lost(ctx: &RequestContext, lost: usize) {
    if lost > 0 {
        tracing::warn!(
            exchange = ctx.id,
            lost,
            "inserted texts have no place in the transcript any more: left out"
        );
        ctx.recorder
            .note(|e| e.lost_insertions = u32::try_from(lost).unwrap_or(u32::MAX));
    }
}

/// A conversation that is new here and has a history may be the copy of one with insertions.
async fn copied_from(
    app: &App,
    ctx: &RequestContext,
    placed: &Placed,
    live: &Arc<LiveConversation>,
) -> Result<(), StoreError> {
    let view = placed.agent.request.view();
    let positions = insertions::positions(view);
    if positions.is_empty() {
        return Ok(());
    }
    let store = app.sessions.store();
    let found = store.insertions_at(&ctx.principal, &positions).await?;
    if found.is_empty() {
        return Ok(());
    }
    app.sessions
        .take_over_insertions(live, found, app.clock.now_ms())
        .await
}

/// Puts a text after all that this request has: written first, then part of this request and of every later one of its
/// transcript. `false`: it has no place there, or another text of ours has that place already.
///
/// # Errors
/// The store cannot be written: the request is sent without it.
pub(super) async fn append(exchange: &mut Exchange, text: &str) -> Result<bool, StoreError> {
    let (app, ctx, offered) = (&exchange.app, &exchange.ctx, &exchange.offered);
    let view = offered.agent.request.view();
    let Some(turn) = insertions::last(view) else {
        return Ok(false);
    };
    // A turn that is cut, in part too, keeps no text of ours.
    let is_taken = offered.places.insertions.iter().any(|placed| placed.turn == turn);
    if is_taken || turn < offered.kept_from() {
        return Ok(false);
    }
    let live = offered.agent.live()?;
    let now = app.clock.now_ms();
    let insertion = Insertion {
        id: app.clock.new_id(),
        principal: ctx.principal.clone(),
        conversation: live.key().to_owned(),
        wire: offered.agent.wire.id(),
        place: InsertionPlace::After(positions::of(view)),
        content: InsertionContent::Text(text.to_owned()),
        created_ms: now,
    };
    app.sessions.insert(live, insertion.clone(), now).await?;
    let (placed, _) = insertions::find(view, [&insertion]);
    let offered = Arc::make_mut(&mut exchange.offered);
    offered.places.insertions.extend(placed);
    Ok(true)
}
