//! The handoff that a request is pinned to: found by its sentinel, by the response that the request continues, or by
//! where an answer was left out.

use std::sync::Arc;

use super::heavy;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::config::{PreambleMode, TranscriptDetail};
use crate::state::session::LiveConversation;
use crate::state::store::{HandoffFilter, StoreError};
use baton_core::mark::sentinel::SealedBody;
use baton_core::record::{Handoff, HandoffId, ResponseOrigin};
use baton_core::rewrite::notes::UndoneHandoffs;
use baton_core::rewrite::{Candidate, RequestReading, left_out, preamble};
use baton_core::text::splice::Edit;
use baton_core::wire::Wire;

/// Maximum sentinels looked up in one request, last ones first; no real transcript has more.
pub(super) const MOST_CANDIDATES: usize = 64;

/// What a byte under a seal weighs: it is unescaped and hashed, twice at most.
const SEALING: usize = 16;

/// Why a person's resume line matches no handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// None with this id, or with one that begins so, is known.
    Unknown,
    /// Several ids begin so.
    Ambiguous,
}

/// The position of a request's active handoff.
#[derive(Clone)]
pub(super) enum CutPlace {
    /// At its sentinel.
    Sentinel(Candidate),
    /// In front of this turn: the agent left out the answer that showed the sentinel.
    BeforeTurn(usize),
    /// In front of the whole request: what was before it is stored upstream.
    Upstream,
    /// In a transcript that was flattened into one text: the cut there.
    Text(Vec<Edit>),
}

/// The active handoff.
#[derive(Clone)]
pub(super) struct Active {
    pub(super) place: CutPlace,
    pub(super) id: HandoffId,
    pub(super) prompt: String,
    /// Whether transcripts show the prompt: the text after a sentinel without it is the model's own.
    pub(super) spelled_out: bool,
    pub(super) head: String,
    /// The model that requests go to which are cut at it, where that is not the requested one.
    pub(super) routed: Option<String>,
    /// Whether the requests that are cut at it have the tool that searches what was cut. If the store has lost it, the
    /// config decides.
    pub(super) recall: bool,
}

impl Active {
    /// A stored handoff whose prompt transcripts show.
    pub(super) fn of(handoff: &Handoff, place: CutPlace, head: String, reading: &RequestReading) -> Self {
        Self {
            place,
            id: handoff.id,
            prompt: handoff.prompt.clone(),
            spelled_out: true,
            head,
            routed: routed(reading, handoff),
            recall: handoff.recall,
        }
    }

    /// Its sentinel in the transcript.
    pub(super) fn candidate(&self) -> Option<&Candidate> {
        match &self.place {
            CutPlace::Sentinel(candidate) => Some(candidate),
            CutPlace::BeforeTurn(_) | CutPlace::Upstream | CutPlace::Text(_) => None,
        }
    }

    /// Whether a person pasted its sentinel.
    pub(super) fn is_by_user(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.by_user)
    }

    /// The turn that it is in, or in front of which.
    pub(super) fn turn(&self) -> Option<usize> {
        match &self.place {
            CutPlace::Sentinel(candidate) => Some(candidate.turn),
            CutPlace::BeforeTurn(turn) => Some(*turn),
            CutPlace::Upstream | CutPlace::Text(_) => None,
        }
    }
}

/// The texts that the agent put in front of the conversation. Unknown for a conversation that the provider stores,
/// since a later request does not begin with them.
pub(super) fn fresh_preamble(
    app: &App,
    wire: &dyn Wire,
    reading: &RequestReading,
    until: Option<(usize, usize)>,
) -> preamble::Preamble {
    match app.config.handoff.preamble {
        PreambleMode::Keep if reading.view.facts.previous.is_none() => {
            preamble::of(wire, &reading.view, until, &app.config.handoff.preamble_tags)
        }
        PreambleMode::Keep | PreambleMode::Drop => preamble::Preamble::default(),
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

/// What a request is found to be pinned to.
pub(super) struct PinnedTo {
    /// The handoff that the request is cut at.
    pub(super) active: Option<Active>,
    /// Offset of the sentinel that the store knows or whose seal verifies.
    pub(super) by_sentinel: Option<usize>,
    /// The origin of the response that the request continues.
    pub(super) previous: Option<ResponseOrigin>,
}

impl PinLookup<'_> {
    /// The handoff of the last sentinel that counts, else of the response that the request continues. A later one whose
    /// answer the agent left out comes first. Else one in a flattened transcript. `ahead`: what was read of that
    /// response. `session`: the conversation's key, where the agent named its session.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn pinned_to(
        &self,
        candidates: Vec<Candidate>,
        ahead: Option<Option<String>>,
        live: Option<&Arc<LiveConversation>>,
        undone: &UndoneHandoffs,
        session: Option<&str>,
    ) -> Result<PinnedTo, StoreError> {
        let marked = self.active(candidates).await?;
        let continued = self.previous(ahead).await?;
        let sentinel = marked.as_ref().and_then(Active::candidate);
        let by_sentinel = sentinel.map(|candidate| candidate.sentinel.at);
        let mut active = marked.or(continued.active);
        if let Some(live) = live {
            let left_out = self.left_out(live, active.as_ref(), undone);
            active = left_out.await?.or(active);
        }
        if active.is_none() {
            active = self.flattened(session).await?;
        }
        Ok(PinnedTo {
            active,
            by_sentinel,
            previous: continued.origin,
        })
    }

    /// The last sentinel whose id the store knows or whose seal verifies.
    pub(super) async fn active(&self, candidates: Vec<Candidate>) -> Result<Option<Active>, StoreError> {
        for mut candidate in candidates.into_iter().take(MOST_CANDIDATES) {
            if let Some(ids) = candidate.id_range {
                match meant(self.app, self.ctx, ids).await?[..] {
                    [only] => candidate.sentinel.id = only,
                    _ => continue,
                }
            }
            let id = candidate.sentinel.id;
            let until = candidate.by_user.then_some((candidate.turn, candidate.part));
            if let Some(handoff) = self.handoff(id).await? {
                let head = self.head(&handoff, until);
                return Ok(Some(Active {
                    spelled_out: is_spelled_out(self.app, &handoff),
                    ..Active::of(&handoff, CutPlace::Sentinel(candidate), head, self.reading)
                }));
            }
            let proven = candidate.sentinel.sealed.and_then(|sealed: SealedBody| {
                let keys = self.app.seals.now();
                let open = || sealed.opened(&self.reading.view.body, &keys, &self.ctx.principal, id);
                heavy::work(sealed.len() * SEALING * keys.count(), open)
            });
            if let Some(prompt) = proven {
                return Ok(Some(Active {
                    id,
                    head: self.new_head(&prompt, until),
                    prompt,
                    // What a seal proves is there.
                    spelled_out: true,
                    routed: None,
                    recall: self.app.config.recall.enabled,
                    place: CutPlace::Sentinel(candidate),
                }));
            }
        }
        Ok(None)
    }

    /// Finds the response that the request continues, and the handoff that it ended at. `ahead`: the stored origin of that
    /// response, if it was read ahead.
    async fn previous(&self, ahead: Option<Option<String>>) -> Result<ContinuedOrigin, StoreError> {
        let Some(previous) = &self.reading.view.facts.previous else {
            return Ok(ContinuedOrigin::default());
        };
        let found = match ahead {
            Some(found) => found,
            None => {
                let store = self.app.sessions.store();
                store.response_id(&self.ctx.principal, &previous.id).await?
            }
        };
        let id = match found.as_deref().map(ResponseOrigin::read) {
            Some(ResponseOrigin::Handoff(id)) => id,
            origin => return Ok(ContinuedOrigin { active: None, origin }),
        };
        let Some(handoff) = self.handoff(id).await? else {
            return Ok(ContinuedOrigin::default());
        };
        let head = self.head(&handoff, None);
        Ok(ContinuedOrigin {
            active: Some(Active::of(&handoff, CutPlace::Upstream, head, self.reading)),
            origin: Some(ResponseOrigin::Handoff(id)),
        })
    }

    pub(super) async fn handoff(&self, id: HandoffId) -> Result<Option<Arc<Handoff>>, StoreError> {
        self.app.sessions.handoff(&self.ctx.principal, id).await
    }

    /// The stored head, where it is of this wire, else a new one. `until`: where this request's preamble ends.
    pub(super) fn head(&self, handoff: &Handoff, until: Option<(usize, usize)>) -> String {
        match handoff.wire == self.wire.id() && !handoff.head.is_empty() {
            true => handoff.head.clone(),
            false => self.new_head(&handoff.prompt, until),
        }
    }

    /// A head made of this request's preamble.
    fn new_head(&self, prompt: &str, until: Option<(usize, usize)>) -> String {
        let preamble = fresh_preamble(self.app, self.wire, self.reading, until);
        preamble::head(self.wire, &preamble, prompt)
    }
}

/// The model that a request goes to which is cut at this handoff. Where the person has changed the agent's model since, that choice
/// counts.
fn routed(reading: &RequestReading, handoff: &Handoff) -> Option<String> {
    let same = reading.view.facts.model == handoff.model;
    handoff.routed.clone().filter(|_| same)
}

/// Whether transcripts show the prompt of this handoff: as it was shown, whatever the config says since.
pub(super) fn is_spelled_out(app: &App, handoff: &Handoff) -> bool {
    let now = app.config.handoff.transcript == TranscriptDetail::Full;
    handoff.spelled_out.unwrap_or(now)
}

/// Why no handoff was found by a person's line, where there is one.
pub(super) async fn why_unresolved(
    app: &App,
    ctx: &RequestContext,
    line: Option<Candidate>,
) -> Result<Option<Unresolved>, StoreError> {
    let Some(line) = line else { return Ok(None) };
    let found = match line.id_range {
        Some(ids) => meant(app, ctx, ids).await?.len(),
        None => 0,
    };
    Ok(Some(match found {
        0 | 1 => Unresolved::Unknown,
        _ => Unresolved::Ambiguous,
    }))
}

/// The handoffs that a truncated id may mean: two at most.
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

/// The response that a request continues.
#[derive(Default)]
struct ContinuedOrigin {
    /// The handoff that it ended at.
    active: Option<Active>,
    /// `None`: nothing is stored of it.
    origin: Option<ResponseOrigin>,
}

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
