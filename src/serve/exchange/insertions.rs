//! Texts of ours in the model's view, appended to a request. Later requests find them again.

use std::sync::Arc;

use super::Exchange;
use crate::state::store::StoreError;
use baton_core::record::{Insertion, InsertionContent, InsertionPlace};
use baton_core::rewrite::{insertions, positions};

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
    if is_taken || turn < offered.pin.kept_from() {
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
