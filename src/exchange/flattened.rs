//! Finds the active handoff in a summary request, whose transcript is flattened into one text.

use std::sync::Arc;

use super::active_handoff::{Active, MOST_CANDIDATES};
use super::heavy;
use crate::proxy::{App, RequestContext};
use crate::record::{Handoff, HandoffId};
use crate::rewrite::Reading;
use crate::rewrite::flattened::{self, Flat, FoundSentinel};
use crate::store::StoreError;

/// Sentinels looked up in one transcript where no session is named.
const MOST_IN_TEXT: usize = 1024;

/// Those that are tried as the first one of this conversation.
const MOST_FIRST: usize = 4;

/// Handoffs between two that stand in the transcript: their answers were left out of it.
const MOST_LEFT_OUT: usize = 8;

/// The last handoff of this conversation in a transcript that was flattened for a summary. `key`: the conversation's,
/// where the agent named its session.
pub(super) async fn find(
    app: &App,
    ctx: &RequestContext,
    reading: &Reading,
    key: Option<&str>,
    weight: usize,
) -> Result<Option<Active>, StoreError> {
    let Some((flat, sentinels)) = heavy::work(weight, || read(reading)) else {
        return Ok(None);
    };
    let found = match key {
        Some(key) => newest_of(app, ctx, sentinels, key).await?,
        None => last_in_line(app, ctx, &flat, sentinels, weight).await?,
    };
    Ok(found.map(|(found, handoff)| Active {
        id: handoff.id,
        prompt: handoff.prompt.clone(),
        head: handoff.head.clone(),
        spelled_out: true,
        // A summary is no request of the loop's: it calls nothing.
        recall: false,
        candidate: None,
        before: None,
        text: Some(heavy::work(weight, || flat.cut(&found, &handoff.prompt))),
    }))
}

fn read(reading: &Reading) -> Option<(Flat<'_>, Vec<FoundSentinel>)> {
    let flat = flattened::find(&reading.view)?;
    let sentinels = flat.sentinels();
    Some((flat, sentinels))
}

/// The newest handoff of a named session, where it stands first: ids sort by time, so what is quoted behind it is older
/// or the same.
async fn newest_of(
    app: &App,
    ctx: &RequestContext,
    mut all: Vec<FoundSentinel>,
    key: &str,
) -> Result<Option<(FoundSentinel, Arc<Handoff>)>, StoreError> {
    all.sort_by_key(|f| std::cmp::Reverse(f.id));
    all.dedup_by_key(|f| f.id);
    for found in all.into_iter().take(MOST_CANDIDATES) {
        let handoff = app.sessions.handoff(&ctx.principal, found.id).await?;
        if let Some(handoff) = handoff.filter(|h| h.conversation == key) {
            return Ok(Some((found, handoff)));
        }
    }
    Ok(None)
}

/// Without a name, the transcript in front of the first sentinel must be the one that its handoff was made in, and each
/// later handoff must have followed from the one before.
async fn last_in_line(
    app: &App,
    ctx: &RequestContext,
    flat: &Flat<'_>,
    sentinels: Vec<FoundSentinel>,
    weight: usize,
) -> Result<Option<(FoundSentinel, Arc<Handoff>)>, StoreError> {
    let mut last: Option<(FoundSentinel, Arc<Handoff>)> = None;
    let mut tries = 0;
    for found in sentinels.into_iter().take(MOST_IN_TEXT) {
        let Some(handoff) = app.sessions.handoff(&ctx.principal, found.id).await? else {
            continue;
        };
        let ours = match &last {
            Some((before, _)) => follows(app, ctx, &handoff, before.id).await?,
            None if tries < MOST_FIRST => {
                tries += 1;
                let store = app.sessions.store();
                let points = store.cut_points(&ctx.principal, &[found.id]).await?;
                let leads = || points.iter().any(|p| flat.leads_up_to(&found, &p.texts));
                heavy::work(weight, leads)
            }
            None => break,
        };
        if ours {
            last = Some((found, handoff));
        }
    }
    Ok(last)
}

/// Whether a handoff was made behind another one, or behind one that was left out of the transcript there.
async fn follows(
    app: &App,
    ctx: &RequestContext,
    handoff: &Handoff,
    before: HandoffId,
) -> Result<bool, StoreError> {
    let mut parent = handoff.parent;
    for _ in 0..MOST_LEFT_OUT {
        match parent {
            Some(id) if id == before => return Ok(true),
            Some(id) => {
                let found = app.sessions.handoff(&ctx.principal, id).await?;
                parent = found.and_then(|h| h.parent);
            }
            None => break,
        }
    }
    Ok(false)
}
