//! The handoff that a request is pinned to: found by its sentinel, by the response that the request goes on from, or by
//! where an answer was left out.

use super::heavy;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::config::{PreambleMode, TranscriptDetail};
use crate::state::store::{HandoffFilter, StoreError};
use baton_core::mark::sentinel::SealedBody;
use baton_core::record::{Handoff, HandoffId, ResponseOrigin};
use baton_core::rewrite::{Candidate, RequestReading, preamble};
use baton_core::text::splice::Edit;
use baton_core::wire::Wire;

/// Sentinels looked up in one request, last ones first; more of them are no transcript of ours.
pub(super) const MOST_CANDIDATES: usize = 64;

/// What a byte under a seal weighs: it is unescaped and hashed, twice at most.
const SEALING: usize = 16;

/// Why the line that a person resumes by leads to no handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// None with this id, or with one that begins so, is known.
    Unknown,
    /// Several ids begin so.
    Ambiguous,
}

/// The active handoff.
#[derive(Clone)]
pub(super) struct Active {
    /// Where its sentinel stands; `None` where it is not in the transcript.
    pub(super) candidate: Option<Candidate>,
    /// Without a sentinel: the turn in front of which it stands, the agent having left out the answer that showed it.
    /// `None` where the transcript before this request is stored upstream.
    pub(super) before: Option<usize>,
    /// It stands in a transcript that was flattened into one text: the cut there.
    pub(super) text: Option<Vec<Edit>>,
    pub(super) id: HandoffId,
    pub(super) prompt: String,
    /// Whether transcripts show the prompt: the text after a sentinel without it is the model's own.
    pub(super) spelled_out: bool,
    pub(super) head: String,
    /// The model that requests go to which are cut at it, where that is not the requested one.
    pub(super) routed: Option<String>,
    /// Whether the requests that are cut at it have the tool that searches what was cut. With the store lost nobody knows:
    /// then as the config has it.
    pub(super) recall: bool,
}

impl Active {
    /// Whether a person pasted its sentinel.
    pub(super) fn is_by_user(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.by_user)
    }

    /// The turn that it stands in, or in front of which.
    pub(super) fn turn(&self) -> Option<usize> {
        self.candidate.as_ref().map(|c| c.turn).or(self.before)
    }
}

/// What the agent's harness put in front of the conversation. Of one that the provider holds it is not known: what a later
/// request begins with is none.
pub(super) fn fresh_preamble(
    app: &App,
    wire: &dyn Wire,
    reading: &RequestReading,
    until: Option<(usize, usize)>,
) -> preamble::Preamble {
    if reading.view.facts.previous.is_some() {
        return preamble::Preamble::default();
    }
    match app.config.handoff.preamble {
        PreambleMode::Keep => preamble::of(wire, &reading.view, until, &app.config.handoff.preamble_tags),
        PreambleMode::Drop => preamble::Preamble::default(),
    }
}

/// A request whose handoff is looked up.
#[derive(Clone, Copy)]
pub(super) struct PinLookup<'a> {
    pub(super) app: &'a App,
    pub(super) ctx: &'a RequestContext,
    pub(super) wire: &'static dyn Wire,
    pub(super) reading: &'a RequestReading,
}

/// The last sentinel whose id the store knows or whose seal verifies.
pub(super) async fn find_active(
    lookup: PinLookup<'_>,
    candidates: Vec<Candidate>,
) -> Result<Option<Active>, StoreError> {
    let PinLookup {
        app, ctx, reading, ..
    } = lookup;
    for mut candidate in candidates.into_iter().take(MOST_CANDIDATES) {
        if let Some(ids) = candidate.id_range {
            match meant(app, ctx, ids).await?[..] {
                [only] => candidate.sentinel.id = only,
                _ => continue,
            }
        }
        let id = candidate.sentinel.id;
        if let Some(handoff) = app.sessions.handoff(&ctx.principal, id).await? {
            let head = known_head(lookup, &candidate, &handoff);
            return Ok(Some(Active {
                id,
                prompt: handoff.prompt.clone(),
                spelled_out: is_spelled_out(app, &handoff),
                head,
                routed: routed(reading, &handoff),
                recall: handoff.recall,
                candidate: Some(candidate),
                before: None,
                text: None,
            }));
        }
        let proven = candidate.sentinel.sealed.and_then(|sealed: SealedBody| {
            let keys = app.seals.now();
            let open = || sealed.opened(&reading.view.body, &keys, &ctx.principal, id);
            heavy::work(sealed.len() * SEALING * keys.count(), open)
        });
        if let Some(prompt) = proven {
            let head = new_head(lookup, &candidate, &prompt);
            return Ok(Some(Active {
                id,
                prompt,
                // What a seal proves stands there.
                spelled_out: true,
                head,
                routed: None,
                recall: app.config.recall.enabled,
                candidate: Some(candidate),
                before: None,
                text: None,
            }));
        }
    }
    Ok(None)
}

/// The model that a request goes to which is cut at this handoff. Where the person has changed the agent's model since, that choice
/// counts.
pub(super) fn routed(reading: &RequestReading, handoff: &Handoff) -> Option<String> {
    let same = reading.view.facts.model == handoff.model;
    handoff.routed.clone().filter(|_| same)
}

/// Whether transcripts show the prompt of this handoff: as it was shown, whatever the config says since.
pub(super) fn is_spelled_out(app: &App, handoff: &Handoff) -> bool {
    let now = app.config.handoff.transcript == TranscriptDetail::Full;
    handoff.spelled_out.unwrap_or(now)
}

/// Why no handoff was found by a person's line.
pub(super) async fn why_unresolved(
    app: &App,
    ctx: &RequestContext,
    candidate: &Candidate,
) -> Result<Unresolved, StoreError> {
    let found = match candidate.id_range {
        Some(ids) => meant(app, ctx, ids).await?.len(),
        None => 0,
    };
    Ok(if found > 1 {
        Unresolved::Ambiguous
    } else {
        Unresolved::Unknown
    })
}

/// The handoffs that an id may mean of which only the beginning is left: two at most.
pub(super) async fn meant(
    app: &App,
    ctx: &RequestContext,
    ids: (HandoffId, HandoffId),
) -> Result<Vec<HandoffId>, StoreError> {
    let filter = HandoffFilter {
        principal: Some(ctx.principal.clone()),
        ids: Some(ids),
        archived: true,
        limit: 2,
        ..HandoffFilter::default()
    };
    let found = app.sessions.store().handoffs(&filter).await?;
    Ok(found.iter().map(|handoff| handoff.id).collect())
}

/// The response that a request goes on from.
#[derive(Default)]
pub(super) struct ContinuedOrigin {
    /// The handoff that it ended at.
    pub(super) active: Option<Active>,
    /// `None`: nothing is stored of it.
    pub(super) origin: Option<ResponseOrigin>,
}

/// Finds the response that the request goes on from, and the handoff that it ended at. `ahead`: the stored origin of that response, where it was read.
pub(super) async fn find_previous(
    lookup: PinLookup<'_>,
    ahead: Option<Option<String>>,
) -> Result<ContinuedOrigin, StoreError> {
    let PinLookup {
        app,
        ctx,
        wire,
        reading,
    } = lookup;
    let Some(previous) = &reading.view.facts.previous else {
        return Ok(ContinuedOrigin::default());
    };
    let found = match ahead {
        Some(found) => found,
        None => {
            let store = app.sessions.store();
            store.response_id(&ctx.principal, &previous.id).await?
        }
    };
    let id = match found.as_deref().map(ResponseOrigin::read) {
        Some(ResponseOrigin::Handoff(id)) => id,
        origin => {
            return Ok(ContinuedOrigin { active: None, origin });
        }
    };
    let Some(handoff) = app.sessions.handoff(&ctx.principal, id).await? else {
        return Ok(ContinuedOrigin::default());
    };
    let head = stored_head(wire, &handoff)
        .unwrap_or_else(|| preamble::head(wire, &preamble::Preamble::default(), &handoff.prompt));
    let active = Active {
        candidate: None,
        before: None,
        text: None,
        id,
        prompt: handoff.prompt.clone(),
        spelled_out: true,
        recall: handoff.recall,
        routed: routed(reading, &handoff),
        head,
    };
    Ok(ContinuedOrigin {
        active: Some(active),
        origin: Some(ResponseOrigin::Handoff(id)),
    })
}

/// The stored head where it is of this wire; else one made of this request's preamble.
fn known_head(lookup: PinLookup<'_>, candidate: &Candidate, handoff: &Handoff) -> String {
    stored_head(lookup.wire, handoff).unwrap_or_else(|| new_head(lookup, candidate, &handoff.prompt))
}

pub(super) fn stored_head(wire: &dyn Wire, handoff: &Handoff) -> Option<String> {
    (handoff.wire == wire.id() && !handoff.head.is_empty()).then(|| handoff.head.clone())
}

fn new_head(lookup: PinLookup<'_>, candidate: &Candidate, prompt: &str) -> String {
    let PinLookup {
        app, wire, reading, ..
    } = lookup;
    let until = candidate.by_user.then_some((candidate.turn, candidate.part));
    preamble::head(wire, &fresh_preamble(app, wire, reading, until), prompt)
}
