//! What is known of a request before anything is sent: its conversation, its active handoff, its hidden pairs,
//! and whether it gets the tool.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::request::Request;
use super::{flattened, heavy, is_model_call, left_out, now_ms};
use crate::config::{Inject, Preamble, Transcript};
use crate::mark::sentinel::Sealed;
use crate::proxy::body::RequestBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::route::{self, Endpoint};
use crate::proxy::{App, RequestContext, headers};
use crate::record::{Handoff, HandoffId, HiddenPair, Place};
use crate::rewrite::preamble;
use crate::rewrite::untooled::{self, Untooled};
use crate::rewrite::{Candidate, Cut, Reading, Rewrite, Rewritten, lost, rewrite};
use crate::session::{LiveConversation, Transcript as Calls, conversation_key};
use crate::store::{HandoffFilter, StoreError};
use crate::text::prescan::Prescan;
use crate::text::{Span, json};
use crate::wire::{Call, PartKind, Role, Unread, Wire, wire};

/// Sentinels looked up in one request, last ones first; more of them are no transcript of ours.
pub(super) const MOST_CANDIDATES: usize = 64;

/// What a byte under a seal weighs: it is unescaped and hashed, twice at most.
const SEALING: usize = 16;

/// A request that is understood.
#[derive(Clone)]
pub(super) struct Prepared {
    /// Its wire.
    pub(super) wire: &'static dyn Wire,
    /// The request.
    pub(super) request: Request,
    /// How much work it is.
    pub(super) weight: usize,
    /// Its conversation; `None` while the store cannot be reached.
    pub(super) live: Option<Arc<LiveConversation>>,
    /// What it is pinned to.
    pub(super) active: Option<Active>,
    /// Hidden pairs that may have their place in it.
    pub(super) pairs: Vec<HiddenPair>,
    /// Those of them that stand beside calls of this very transcript: others are of branches that it may not have.
    pub(super) beside_calls: Vec<Uuid>,
    /// Whether it gets the tool.
    pub(super) tooled: bool,
    /// Why not.
    pub(super) untooled: Option<Untooled>,
    /// The tool is ruled out, by the config or for this request.
    pub(super) forbidden: Option<Untooled>,
    /// A summary, or another request beside the conversation: no handoff fires in its answer.
    pub(super) side_call: bool,
    /// Upstream's own id of the response that the request goes on from, where the agent knows another.
    pub(super) previous: Option<String>,
    /// The conversation was pinned before and this transcript holds no sentinel, or none that can be read.
    pub(super) unpinned: bool,
    /// A sentinel of ours in form, whose handoff is neither in the store nor under its seal.
    pub(super) lost: Option<HandoffId>,
    /// The agent's last message begins with the line of a handoff that cannot be told: it is told so.
    pub(super) unresolved: Option<Unresolved>,
}

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
    /// `None` where the transcript before this request is held upstream.
    pub(super) before: Option<usize>,
    /// It stands in a transcript that was flattened into one text: the cut there.
    pub(super) text: Option<(Span, String)>,
    pub(super) id: HandoffId,
    pub(super) prompt: String,
    /// Whether transcripts show the prompt: what stands behind a sentinel without it is the model's own.
    pub(super) spelled_out: bool,
    pub(super) head: String,
}

impl Active {
    /// The turn that it stands in, or in front of which.
    pub(super) fn turn(&self) -> Option<usize> {
        self.candidate.as_ref().map(|c| c.turn).or(self.before)
    }
}

impl Prepared {
    /// The request as it goes upstream for the first leg.
    pub(super) fn first(&self, app: &App, tooled: bool) -> Rewritten {
        self.rewritten(app, self.cut(), tooled, &[])
            .cut_at(self.active.as_ref().map(|active| active.id))
    }

    /// How many pairs found no place in the request, though it was theirs before.
    pub(super) fn lost(&self, first: &Rewritten) -> usize {
        let (pairs, here) = (&self.pairs, &self.beside_calls);
        let lost = || {
            lost(
                self.wire,
                self.request.reading(),
                self.cut(),
                pairs,
                here,
                &first.placed,
            )
            .len()
        };
        heavy::work(self.weight, lost)
    }

    /// Where the transcript is cut.
    pub(super) fn cut(&self) -> Cut<'_> {
        let Some(active) = &self.active else {
            return Cut::None;
        };
        let head = &active.head;
        if let Some((span, with)) = &active.text {
            return Cut::Text { span: *span, with };
        }
        match (&active.candidate, active.before) {
            (Some(candidate), _) => Cut::At {
                candidate,
                prompt: Some(&*active.prompt).filter(|_| active.spelled_out),
                head,
            },
            (None, Some(turn)) => Cut::Behind { turn, head },
            (None, None) => Cut::Before { head },
        }
    }

    /// The request with `head` in place of everything before, and `more` behind.
    pub(super) fn rewritten(&self, app: &App, cut: Cut<'_>, tooled: bool, more: &[String]) -> Rewritten {
        let what = Rewrite {
            cut,
            tool: tooled.then_some(app.tool.as_str()),
            pairs: &self.pairs,
            more,
            previous: self.previous.as_deref(),
            tags: &app.config.handoff.preamble_tags,
        };
        heavy::work(self.weight, || rewrite(self.wire, self.request.reading(), &what))
    }

    /// Preamble and carry-over prompt for a new handoff: the active one's preamble where there is one, so that
    /// a chain keeps what its first cut kept.
    pub(super) fn head_for(&self, app: &App, prompt: &str) -> String {
        heavy::work(self.weight, || {
            let found = match &self.active {
                Some(active) => preamble::of_head(self.wire, self.request.view(), &active.head),
                None => fresh_preamble(app, self.wire, self.request.reading(), None),
            };
            preamble::head(self.wire, &found, prompt)
        })
    }
}

pub(super) fn fresh_preamble(
    app: &App,
    wire: &dyn Wire,
    reading: &Reading,
    until: Option<(usize, usize)>,
) -> preamble::Preamble {
    match app.config.handoff.preamble {
        Preamble::Keep => preamble::of(wire, &reading.view, until, &app.config.handoff.preamble_tags),
        Preamble::Drop => preamble::Preamble::default(),
    }
}

/// Reads a request and everything that is known of it. `None`: it is relayed as it is.
pub(super) async fn prepare(
    app: &App,
    ctx: &RequestContext,
    body: &RequestBody,
    prescan: &Prescan,
) -> Result<Option<Prepared>, Fault> {
    let weight = heavy::weight(body.text().map_or(&[], |text| text), prescan);
    let Some((wire, reading)) = heavy::work(weight, || read(ctx, body, prescan)) else {
        return Ok(None);
    };
    let (key, named) = heavy::work(weight, || key(ctx, wire, &reading));
    ctx.recorder.note(|e| e.conversation = Some(key.clone()));
    let live = match app.sessions.open(&key, &ctx.principal, now_ms()).await {
        Ok(live) => Some(live),
        Err(error) => {
            tracing::error!(%error, "the store cannot be read");
            None
        }
    };
    let store_down = |error: StoreError| {
        tracing::error!(%error, "a pinned request cannot be served");
        Fault::from(Code::STORE)
    };
    let candidates = heavy::work(weight, || reading.candidates(wire));
    let newest = candidates.first().cloned();
    let mut active = find_active(app, ctx, wire, &reading, candidates, weight)
        .await
        .map_err(store_down)?;
    let (behind, previous) = find_previous(app, ctx, wire, &reading)
        .await
        .map_err(store_down)?;
    let missed = newest.filter(|c| {
        active
            .as_ref()
            .and_then(|a| a.candidate.as_ref())
            .is_none_or(|a| a.sentinel.at != c.sentinel.at)
    });
    active = active.or(behind);
    if let Some(live) = &live {
        let left_out = left_out::find(app, ctx, wire, &reading, live, active.as_ref(), weight);
        active = left_out.await.map_err(store_down)?.or(active);
    }
    if active.is_none() {
        let key = named.then_some(key.as_str());
        active = flattened::find(app, ctx, &reading, key, weight)
            .await
            .map_err(store_down)?;
    }
    if live.is_none() && active.is_some() {
        // Cut without its hidden pairs and the tool, it would be another prefix than the model's.
        return Err(Fault::from(Code::STORE));
    }
    let known = live.as_ref().and_then(|l| l.active());
    // Side calls (titles, probes) share a session's id and not its transcript: they say nothing of it. Nor does
    // a request whose transcript is held upstream.
    let of_the_loop = is_model_call(ctx.endpoint)
        && reading.view.tools.is_some_and(|t| t.client)
        && reading.view.facts.previous.is_none();
    let lost = missed.as_ref().filter(|c| !c.by_user).map(|c| c.sentinel.id);
    // Without a name, another conversation that opens alike may be the one that had a handoff.
    let gone = known.is_some() && of_the_loop && named;
    let unpinned = active.is_none() && (gone || lost.is_some() && is_model_call(ctx.endpoint));
    let is_last = |turn: usize| {
        let mut later = reading.view.turns[turn + 1..].iter();
        later.all(|t| matches!(t.role, Role::System | Role::Tools))
    };
    let asks_for = missed.filter(|c| is_model_call(ctx.endpoint) && c.by_user && is_last(c.turn));
    let unresolved = match asks_for {
        Some(candidate) => Some(why_unresolved(app, ctx, &candidate).await.map_err(store_down)?),
        None => None,
    };
    let mut prepared = Prepared {
        wire,
        request: Request::new(body.clone(), reading),
        weight,
        live,
        active,
        pairs: Vec::new(),
        beside_calls: Vec::new(),
        tooled: false,
        untooled: None,
        forbidden: forbidden(app, ctx),
        side_call: false,
        previous,
        unpinned,
        lost,
        unresolved,
    };
    prepared.side_call = prepared.request.view().facts.summary || summary_class(ctx);
    find_pairs(app, ctx, &mut prepared).await.map_err(store_down)?;
    prepared.untooled = untooled(app, ctx, &prepared).await;
    prepared.tooled = prepared.untooled.is_none();
    if let Some(live) = prepared.live.as_ref().filter(|_| of_the_loop) {
        app.sessions
            .follow(live, prepared.active.as_ref().map(|a| a.id), now_ms());
    }
    Ok(Some(prepared))
}

fn read(ctx: &RequestContext, body: &RequestBody, prescan: &Prescan) -> Option<(&'static dyn Wire, Reading)> {
    let wire = wire(ctx.wire?);
    let unread = |why| ctx.recorder.note(|e| e.untooled = Some(why));
    let Some(text) = body.text() else {
        unread(Untooled::UnreadCoding);
        return None;
    };
    match Reading::prescanned(wire, text, wire_call(ctx.endpoint), prescan) {
        // The agent's own tool has our name: another proxy of this kind, mostly, and calls are that one's.
        Ok(reading) if reading.view.tools.is_some_and(|t| t.taken) => {
            unread(Untooled::NameTaken);
            None
        }
        Ok(mut reading) => {
            // Some wires say in the path what others say in the body.
            let facts = &mut reading.view.facts;
            facts.stream |= route::streams(&ctx.target);
            if facts.model.is_none() {
                facts.model = route::model(&ctx.target).map(str::to_owned);
            }
            Some((wire, reading))
        }
        Err(why) => {
            unread(match why {
                Unread::NotJson(_) => Untooled::UnreadJson,
                Unread::OtherShape => Untooled::UnreadShape,
                Unread::RepeatedKey => Untooled::UnreadRepeatedKey,
            });
            let why = match why {
                Unread::NotJson(at) => format!("not JSON at byte {at}"),
                Unread::OtherShape => "JSON of another shape".to_owned(),
                Unread::RepeatedKey => "a key stands there twice".to_owned(),
            };
            tracing::warn!(
                exchange = ctx.id,
                wire = wire.id().name(),
                why,
                "request relayed as it is"
            );
            None
        }
    }
}

/// What a route asks for, in the wires' word.
pub(super) fn wire_call(endpoint: Endpoint) -> Call {
    match endpoint {
        Endpoint::Count => Call::Count,
        Endpoint::Compact => Call::Compact,
        Endpoint::Generate | Endpoint::Other => Call::Generate,
    }
}

/// The conversation's key, and whether the agent named its session: an opening may be another one's, too.
fn key(ctx: &RequestContext, wire: &dyn Wire, reading: &Reading) -> (String, bool) {
    let named = Cell::new(true);
    let header = |name: &str| {
        headers::value(&ctx.headers, name)?
            .to_str()
            .ok()
            .map(str::to_owned)
    };
    let session = reading.view.facts.session.as_deref();
    let key = conversation_key(&ctx.principal, wire.id(), header, session, &|| {
        named.set(false);
        opening(wire, reading)
    });
    (key, named.get())
}

/// The texts that a conversation opens with, for agents that name no session. Cache breakpoints move from
/// request to request and are no part of it.
fn opening(wire: &dyn Wire, reading: &Reading) -> String {
    let view = &reading.view;
    let first_user = view
        .turns
        .iter()
        .position(|t| t.role == Role::User)
        .unwrap_or_default();
    let parts = (0..=first_user).flat_map(|turn| wire.anatomy(view, turn).parts);
    let texts = parts
        .filter(|p| p.kind == PartKind::Text)
        .filter_map(|p| Some(json::unescape(view.text(p.text?))));
    let all = texts.map(|t| t.into_owned()).collect::<Vec<_>>().join("\n");
    match &view.facts.previous {
        // What the conversation opened with is held upstream.
        Some(previous) if all.is_empty() => previous.id.clone(),
        _ => all,
    }
}

/// The last sentinel whose id the store knows or whose seal verifies.
async fn find_active(
    app: &App,
    ctx: &RequestContext,
    wire: &'static dyn Wire,
    reading: &Reading,
    candidates: Vec<Candidate>,
    weight: usize,
) -> Result<Option<Active>, StoreError> {
    let spelled_out = app.config.handoff.transcript == Transcript::Full;
    for mut candidate in candidates.into_iter().take(MOST_CANDIDATES) {
        if let Some(ids) = candidate.cut_off {
            match meant(app, ctx, ids).await?[..] {
                [only] => candidate.sentinel.id = only,
                _ => continue,
            }
        }
        let id = candidate.sentinel.id;
        if let Some(handoff) = app.sessions.handoff(&ctx.principal, id).await? {
            let head = heavy::work(weight, || known_head(app, wire, reading, &candidate, &handoff));
            return Ok(Some(Active {
                id,
                prompt: handoff.prompt.clone(),
                spelled_out,
                head,
                candidate: Some(candidate),
                before: None,
                text: None,
            }));
        }
        let sealed = candidate.sentinel.sealed;
        let open = |sealed: Sealed| sealed.opened(&reading.view.body, &app.seal, &ctx.principal, id);
        let proven = sealed.and_then(|sealed| heavy::work(sealed.len() * SEALING, || open(sealed)));
        if let Some(prompt) = proven {
            let head = heavy::work(weight, || new_head(app, wire, reading, &candidate, &prompt));
            return Ok(Some(Active {
                id,
                prompt,
                spelled_out,
                head,
                candidate: Some(candidate),
                before: None,
                text: None,
            }));
        }
    }
    Ok(None)
}

/// Why no handoff was found by a person's line.
async fn why_unresolved(
    app: &App,
    ctx: &RequestContext,
    candidate: &Candidate,
) -> Result<Unresolved, StoreError> {
    let found = match candidate.cut_off {
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
async fn meant(
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

/// What stands behind the response that the request goes on from: a handoff that ended that response, or
/// upstream's own id of it.
async fn find_previous(
    app: &App,
    ctx: &RequestContext,
    wire: &dyn Wire,
    reading: &Reading,
) -> Result<(Option<Active>, Option<String>), StoreError> {
    let Some(previous) = &reading.view.facts.previous else {
        return Ok((None, None));
    };
    let found = app
        .sessions
        .store()
        .response_id(&ctx.principal, &previous.id)
        .await?;
    let Some(id) = found.as_deref().and_then(super::store_writes::handoff_behind) else {
        return Ok((None, found));
    };
    let Some(handoff) = app.sessions.handoff(&ctx.principal, id).await? else {
        return Ok((None, None));
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
        head,
    };
    Ok((Some(active), None))
}

/// The stored head where it is of this wire; else one made of this request's preamble.
fn known_head(
    app: &App,
    wire: &dyn Wire,
    reading: &Reading,
    candidate: &Candidate,
    handoff: &Handoff,
) -> String {
    stored_head(wire, handoff).unwrap_or_else(|| new_head(app, wire, reading, candidate, &handoff.prompt))
}

pub(super) fn stored_head(wire: &dyn Wire, handoff: &Handoff) -> Option<String> {
    (handoff.wire == wire.id() && !handoff.head.is_empty()).then(|| handoff.head.clone())
}

fn new_head(app: &App, wire: &dyn Wire, reading: &Reading, candidate: &Candidate, prompt: &str) -> String {
    let until = candidate.by_user.then_some((candidate.turn, candidate.part));
    preamble::head(wire, &fresh_preamble(app, wire, reading, until), prompt)
}

/// The conversation's pairs, and those that another branch or another conversation left in this transcript.
async fn find_pairs(app: &App, ctx: &RequestContext, prepared: &mut Prepared) -> Result<(), StoreError> {
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
        Place::Aside => "",
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

/// Why the request does not get the tool; `None`: it gets it. The conversation's decision, made once and kept.
async fn untooled(app: &App, ctx: &RequestContext, prepared: &Prepared) -> Option<Untooled> {
    let view = prepared.request.view();
    if let Some(why) = prepared.forbidden.or(untooled::no_room(view)) {
        return Some(why);
    }
    if ctx.endpoint == Endpoint::Compact {
        return Some(Untooled::Summary);
    }
    let Some(live) = &prepared.live else {
        return Some(Untooled::StoreDown);
    };
    let unfit = untooled::unfit(view);
    let unfit = unfit.or(prepared.side_call.then_some(Untooled::Summary));
    let bound = || heavy::work(prepared.weight, || prepared.wire.bound(view));
    let decision = match live.tooled() {
        _ if prepared.active.is_some() => None,
        Some(true) => return unfit.filter(|_| !view.under_way()),
        Some(false) => unfit.or(bound().then_some(Untooled::BoundHistory)),
        None if unfit.is_some() => return unfit,
        None => {
            let bound = view.under_way() && prepared.pairs.is_empty() && bound();
            bound.then_some(Untooled::BoundHistory)
        }
    };
    if is_model_call(ctx.endpoint)
        && let Err(error) = app
            .sessions
            .decide_tooled(live, decision.is_none(), now_ms())
            .await
    {
        // Without a record the next request might decide otherwise: better no tool than one that comes and goes.
        tracing::error!(%error, "no tool, since that it was given cannot be written down");
        return prepared.active.is_none().then_some(Untooled::StoreDown);
    }
    decision
}

/// Why nobody may be offered the tool, or not in this request.
fn forbidden(app: &App, ctx: &RequestContext) -> Option<Untooled> {
    let header = headers::value(&ctx.headers, "x-baton-handoff");
    let off = header.is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"off"));
    // A chain of one leg is the first leg alone: a handoff would have none to go on in.
    let never = app.config.handoff.inject == Inject::Never || app.config.handoff.max_chain < 2;
    never
        .then_some(Untooled::OffByConfig)
        .or(off.then_some(Untooled::OffByHeader))
}

/// Claude Code's own word for a side call, where it is told to send it.
fn summary_class(ctx: &RequestContext) -> bool {
    let class = headers::value(&ctx.headers, "x-claude-code-request-class").and_then(|v| v.to_str().ok());
    matches!(class, Some("compaction" | "auxiliary"))
}

/// Hash by which the repetition of a request is recognised.
pub(super) fn body_hash(text: &Bytes) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}
