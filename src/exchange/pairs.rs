//! The hidden pairs that may have their place in a request's transcript.

use std::collections::HashSet;
use std::sync::Arc;

use super::active::Active;
use super::prepared::Prepared;
use super::{heavy, now_ms};
use crate::proxy::{App, RequestContext};
use crate::record::{HiddenPair, Place};
use crate::session::{LiveConversation, Transcript as Calls};
use crate::store::StoreError;
use crate::text::Span;

/// The conversation's pairs, and those that another branch or another conversation left in this transcript.
pub(super) async fn find_pairs(
    app: &App,
    ctx: &RequestContext,
    prepared: &mut Prepared,
) -> Result<(), StoreError> {
    let Some(live) = &prepared.live else {
        return Ok(());
    };
    let store = app.sessions.store();
    let mut all = app.sessions.pairs_of(live).await?;
    let cut = prepared.active.as_ref();
    // What stands before the cut is not sent.
    let from = cut.and_then(Active::turn).unwrap_or_default();
    let view = prepared.request.view();
    let unknown = heavy::work(prepared.weight, || {
        let begin = view.turns.get(from).map_or(view.list.end, |t| t.span.start);
        let transcript = Calls {
            newest_first: prepared.request.reading().call_names_back(prepared.wire, from),
            up_to: &|turn| view.text(Span::new(begin, view.turns[turn].span.end)),
        };
        live.unknown_calls(cut.map(|a| a.id), transcript, now_ms())
    });
    let mut found = Vec::new();
    if !unknown.calls().is_empty() {
        let beside = store.pairs_beside(&ctx.principal, unknown.calls()).await?;
        let beside = heavy::work(prepared.weight, || belonging(prepared, live, beside));
        found.extend(beside.into_iter().map(Arc::new));
    }
    let mut known: HashSet<_> = all.iter().map(|p| p.id).collect();
    let here = unknown.known().iter().chain(&found);
    prepared.beside_calls = here.clone().map(|p| p.id).collect();
    let new = here.filter(|p| known.insert(p.id));
    all.extend(new.cloned().collect::<Vec<_>>());
    live.looked_up(unknown, &found);
    let mut asides = heavy::work(prepared.weight, || prepared.request.reading().asides());
    asides.retain(|id| !known.contains(id));
    if !asides.is_empty() {
        let found = store.pairs(&ctx.principal, &asides).await?;
        all.extend(found.into_iter().map(Arc::new));
    }
    all.sort_by_key(|p| p.id);
    prepared.pairs = all.iter().map(|p| (**p).clone()).collect();
    Ok(())
}

/// Those of the pairs that have their place in this transcript: its calls are theirs, and they were made in this
/// conversation, or in one that proves to have had this very branch.
fn belonging(prepared: &Prepared, live: &LiveConversation, mut pairs: Vec<HiddenPair>) -> Vec<HiddenPair> {
    let (wire, view) = (prepared.wire, prepared.request.view());
    let siblings = pairs.iter().map(|pair| match &pair.place {
        Place::Beside { sibling, .. } => sibling.as_str(),
        Place::Aside | Place::Behind(_) => "",
    });
    let siblings: Vec<&str> = siblings.collect();
    let foreign = pairs.iter().any(|pair| pair.conversation != live.key());
    let proven = if foreign {
        wire.prove(view, &siblings)
    } else {
        vec![false; pairs.len()]
    };
    let here = wire.are_here(view, &siblings);
    let mut belongs = proven.into_iter().zip(here);
    pairs.retain(|pair| {
        let (proven, here) = belongs.next().unwrap_or_default();
        here && (proven || pair.conversation == live.key())
    });
    pairs
}
