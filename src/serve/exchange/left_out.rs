//! Finds the active handoff if the agent left the answer with its sentinel out of its next request.

use std::sync::Arc;

use super::active_handoff::{Active, CutPlace, PinLookup};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::rewrite::left_out;
use baton_core::rewrite::notes::UndoneHandoffs;

impl PinLookup<'_> {
    /// The handoff whose answer the agent interrupted and left out, if it is after `found`: the transcript continues the
    /// request in which it fired, with new text.
    pub(super) async fn left_out(
        &self,
        live: &Arc<LiveConversation>,
        found: Option<&Active>,
        undone: &UndoneHandoffs,
    ) -> Result<Option<Active>, StoreError> {
        let (sessions, view) = (&self.app.sessions, &self.reading.view);
        let after = found.and_then(Active::candidate).map(|c| c.turn);
        if live.tooled().is_none() && view.under_way() {
            let missing = left_out::missing_answers(self.wire, view, after);
            copied_from(self.app, self.ctx, live, missing).await?;
        }
        let points = sessions.left_out(live, self.app.clock.now_ms()).await?;
        let points = points.iter().map(|p| &**p);
        let known = points.filter(|p| !undone.is_undone(p.handoff));
        let Some((turn, point)) = left_out::last_in(self.wire, view, known, after) else {
            return Ok(None);
        };
        let Some(handoff) = self.handoff(point.handoff).await? else {
            return Ok(None);
        };
        sessions.keep_cut_point(live, handoff.id);
        let (place, head) = (CutPlace::BeforeTurn(turn), self.head(&handoff, None));
        Ok(Some(Active::of(&handoff, place, head, self.reading)))
    }
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
