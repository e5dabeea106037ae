//! Third stage: finds what to insert into a request's transcript, and what to leave out.

use super::active_handoff::Active;
use super::pairs::find_pairs;
use super::pin::{OriginalTranscript, Pinned, store_down};
use super::placed::{Placed, Places};
use super::request::Request;
use super::{insertions, thinking};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::fault::Fault;
use baton_core::rewrite::notes;
use baton_core::tools::RECALL_NAME;

/// Finds the places of hidden pairs and texts.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn place(app: &App, ctx: &RequestContext, pinned: Pinned) -> Result<Placed, Fault> {
    let Pinned {
        agent,
        pin,
        scope,
        ahead,
    } = pinned;
    let mut placed = Placed {
        agent,
        pin,
        places: Places::default(),
        scope,
    };
    find_pairs(app, ctx, &mut placed, ahead)
        .await
        .map_err(store_down)?;
    if !scope.has_recall(&placed.pin) && !placed.places.pairs.is_empty() {
        without_searches(&mut placed);
    }
    insertions::find(app, ctx, &mut placed)
        .await
        .map_err(store_down)?;
    placed.places.omitted = thinking::omitted_until(&placed);
    Ok(placed)
}

/// After a handoff that was undone the model sees what it searched, and has no tool to search: its searches go.
fn without_searches(placed: &mut Placed) {
    let searches = placed
        .places
        .pairs
        .extract_if(.., |pair| pair.tool == RECALL_NAME);
    let searches: Vec<_> = searches.map(|pair| pair.id).collect();
    if searches.is_empty() {
        return;
    }
    let reading = placed.agent.request.reading();
    // In front of the cut nothing is sent, and the cut is identified by its offset.
    let turn = placed.pin.active.as_ref().and_then(Active::turn);
    let from = turn.and_then(|turn| reading.view.turns.get(turn));
    let from = from.map_or(0, |turn| turn.span.end);
    if let Some(without) = notes::without_asides(placed.agent.wire, reading, &searches, from) {
        let removed = placed.agent.request.len().saturating_sub(without.view.body.len());
        if placed.pin.taken_out.original.is_none() {
            placed.pin.taken_out.original = Some(OriginalTranscript::of(reading.clone()));
        }
        placed.agent.request = Request::plain(without);
        placed.pin.taken_out.add(removed);
    }
    placed.places.without_searches = searches;
}
