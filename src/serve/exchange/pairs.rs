//! Finds the hidden pairs that belong in a request's transcript.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Timestamp;

use super::active_handoff::Active;

use super::placed::Placed;
use super::read_ahead::{Ahead, pairs_beside, unknown_calls};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::session::{LiveConversation, NewCalls};
use crate::state::store::StoreError;
use baton_core::record::HiddenPair;
use baton_core::rewrite::notes::NoteSearch;
use baton_core::rewrite::undone_pairs;

/// The conversation's pairs, and those that another branch or another conversation left in this transcript.
pub(super) async fn find_pairs(
    app: &App,
    ctx: &RequestContext,
    placed: &mut Placed,
    ahead: Ahead,
) -> Result<(), StoreError> {
    let Some(live) = &placed.agent.live else {
        return Ok(());
    };
    let store = app.sessions.store();
    let mut all = app.sessions.pairs_of(live).await?;
    let (unknown, beside) = pairs_of_unknown_calls(app, ctx, placed, live, ahead).await?;
    let found = match beside.is_empty() {
        true => Vec::new(),
        false => belonging(placed, live, beside)
            .into_iter()
            .map(Arc::new)
            .collect(),
    };
    let mut known: HashSet<_> = all.iter().map(|p| p.id).collect();
    let here = unknown.known().iter().chain(&found);
    placed.places.beside_calls = here.clone().map(|p| p.id).collect();
    let new = here.filter(|p| known.insert(p.id));
    all.extend(new.cloned().collect::<Vec<_>>());
    live.record_lookup(unknown, &found);
    let mut asides = placed.agent.request.reading().asides();
    asides.retain(|id| !known.contains(id));
    if !asides.is_empty() {
        let found = store.pairs(&ctx.principal, &asides).await?;
        all.extend(found.into_iter().map(Arc::new));
    }
    let look = app.note_search();
    let of_then = keys_of_then(placed, look);
    let mut uncertain = HashSet::new();
    if !of_then.is_empty() {
        let mut beside = store.pairs_beside(&ctx.principal, &of_then).await?;
        beside.retain(|pair| pair.conversation == live.key() && known.insert(pair.id));
        uncertain.extend(beside.iter().map(|pair| pair.id));
        all.extend(beside.into_iter().map(Arc::new));
    }
    all.sort_by_key(|p| p.id);
    placed.places.pairs = all.iter().map(|p| (**p).clone()).collect();
    let mut settled = settle_undone(placed, look).into_iter();
    placed.places.pairs.retain(|pair| {
        let stands_here = settled.next().unwrap_or(true);
        stands_here || !uncertain.contains(&pair.id)
    });
    Ok(())
}

/// The calls that are not known yet, and what is next to them, read ahead or from the store.
async fn pairs_of_unknown_calls(
    app: &App,
    ctx: &RequestContext,
    placed: &Placed,
    live: &LiveConversation,
    ahead: Ahead,
) -> Result<(NewCalls, Vec<HiddenPair>), StoreError> {
    // What is before the cut is not sent.
    let turn = placed.pin.active.as_ref().and_then(Active::turn);
    let (reading, now) = (placed.agent.request.reading(), app.clock.now_ms());
    let (cut, from) = (placed.pin.active_id(), turn.unwrap_or_default());
    let unknown = unknown_calls(placed.agent.wire, reading, live, cut, from, now);
    let found = match ahead.beside(unknown.calls()) {
        Some(found) => found,
        None => pairs_beside(app, ctx, unknown.calls()).await?,
    };
    Ok((unknown, found))
}

/// Keys that the calls had while other handoffs were active, if any was ever undone.
fn keys_of_then(placed: &Placed, look: NoteSearch<'_>) -> Vec<String> {
    let Some(received) = placed.pin.original_with_undos() else {
        return Vec::new();
    };
    let (wire, now) = (placed.agent.wire, placed.agent.request.view());
    undone_pairs::other_keys(wire, &received.text, now, look)
}

/// A handoff that was undone, and every call that waited in front of it, must not fire again. Nor is a call bound to a
/// prefix that is gone. Returns for each pair whether it is in the transcript.
fn settle_undone(placed: &mut Placed, look: NoteSearch<'_>) -> Vec<bool> {
    let undone = placed.pin.undone.ever().iter();
    let Some(last) = undone.filter_map(|id| id.get_timestamp()).map(millis).max() else {
        return vec![true; placed.places.pairs.len()];
    };
    let wire = placed.agent.wire;
    let (undone, pairs, now) = (
        &placed.pin.undone,
        &mut placed.places.pairs,
        placed.agent.request.view(),
    );
    let settled = match &placed.pin.taken_out.original {
        Some(received) => undone_pairs::settle(wire, &received.text, now, look, undone, pairs),
        None => vec![false; pairs.len()],
    };
    // A pair that is not in the transcript is judged by its time alone, since clocks of several machines differ.
    let unsettled = pairs.iter_mut().zip(&settled).filter(|(_, settled)| !**settled);
    for (pair, _) in unsettled.filter(|(pair, _)| pair.created_ms <= last) {
        pair.pending = None;
    }
    settled
}

fn millis(stamp: Timestamp) -> u64 {
    let (seconds, nanos) = stamp.to_unix();
    seconds * 1000 + u64::from(nanos) / 1_000_000
}

/// The pairs whose calls are in this transcript. They were made in this conversation, or in one that verifiably had this
/// very branch.
fn belonging(placed: &Placed, live: &LiveConversation, mut pairs: Vec<HiddenPair>) -> Vec<HiddenPair> {
    let (wire, view) = (placed.agent.wire, placed.agent.request.view());
    let siblings: Vec<&str> = pairs.iter().map(|pair| pair.place.sibling()).collect();
    let foreign = pairs.iter().any(|pair| pair.conversation != live.key());
    let proven = match foreign {
        true => wire.prove(view, &siblings),
        false => vec![false; pairs.len()],
    };
    let here = wire.are_here(view, &siblings);
    let mut belongs = proven.into_iter().zip(here);
    pairs.retain(|pair| {
        let (proven, here) = belongs.next().unwrap_or_default();
        here && (proven || pair.conversation == live.key())
    });
    pairs
}
