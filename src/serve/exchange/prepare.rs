//! What is known of a request before anything is sent: its conversation, its active handoff, its hidden pairs,
//! and whether it gets the tool.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;

use super::active_handoff::{Active, why_unresolved};
use super::pairs::find_pairs;
use super::pinned_to::{Lookup, PinnedTo};
use super::prepared::{Prepared, Received};
use super::read_ahead::Ahead;
use super::request::Request;
use super::tool_offer::{forbidden, summary_class, why_untooled};
use super::{heavy, insertions, is_model_call, read_ahead, thinking};
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::route::{self, Endpoint};
use crate::serve::proxy::{App, BodyScan, RequestContext, headers};
use crate::state::session::{LiveConversation, conversation_key};
use crate::state::store::StoreError;
use baton_core::commands;
use baton_core::record::{HandoffId, ResponseOrigin};
use baton_core::rewrite::notes::{self, CleanedTranscript, NoteSearch, UndoneHandoffs};
use baton_core::rewrite::untooled::{self, ToolOmission};
use baton_core::rewrite::{Candidate, RequestReading};
use baton_core::text::json;
use baton_core::tools::{RECALL_NAME, TOOL_NAME};
use baton_core::wire::{Operation, Role, TurnPartKind, UnreadReason, Wire, wire};

/// Reads a request and everything that is known of it. `None`: it is relayed as it is. `coming`: the handoff that the answer's
/// first line will undo, or take the undo of back.
pub(super) async fn prepare(
    app: &App,
    ctx: &RequestContext,
    body: &RequestBody,
    scan: &BodyScan,
    coming: Option<HandoffId>,
) -> Result<Option<Prepared>, Fault> {
    let weight = heavy::weight(body.text().map_or(&[], |text| text), &scan.known.prescan);
    let Some((wire, mut reading)) = heavy::work(weight, || read(app, ctx, body, scan)) else {
        return Ok(None);
    };
    let (key, named) = heavy::work(weight, || key(ctx, wire, &reading));
    ctx.recorder.note(|e| e.conversation = Some(key.clone()));
    let candidates = heavy::work(weight, || reading.candidates(wire));
    let newest = candidates.first().cloned();
    app.sessions.settle_ends(&key).await;
    let (live, mut ahead) = open(app, ctx, wire, &reading, &key, newest.as_ref(), weight).await;
    let said = heavy::work(weight, || {
        without_notes(app, wire, &mut reading, body, live.as_deref(), coming)
    });
    let (candidates, newest) = match said.noted {
        None => (candidates, newest),
        // Another transcript now, with other offsets.
        Some(_) => {
            let candidates = heavy::work(weight, || reading.candidates(wire));
            let newest = candidates.first().cloned();
            let previous = ahead.previous.take();
            ahead = Ahead::default();
            ahead.previous = previous;
            (candidates, newest)
        }
    };
    let command = is_model_call(ctx.endpoint)
        .then(|| command(app, wire, &reading))
        .flatten();
    let store_down = |error: StoreError| {
        tracing::error!(%error, "a pinned request cannot be served");
        Fault::from(Code::STORE)
    };
    let lookup = Lookup {
        app,
        ctx,
        wire,
        reading: &reading,
        weight,
    };
    let session = named.then_some(key.as_str());
    let found = lookup.pinned_to(
        candidates,
        ahead.previous.take(),
        live.as_ref(),
        &said.undone,
        session,
    );
    let PinnedTo {
        active,
        by_sentinel,
        previous,
    } = found.await.map_err(store_down)?;
    let missed = newest.filter(|c| by_sentinel != Some(c.sentinel.at));
    let recalls = may_recall(app, &mut reading, active.as_ref());
    // A request that names an earlier response alone would not tell what tools that one went out with.
    let resends = !wire.goes_on_by_id() || reading.view.facts.unstored;
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
    let gone = known.is_some() && of_the_loop && named && said.undone.last.is_none();
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
        request: Request::new(said.body, reading),
        weight,
        named,
        live,
        active,
        pairs: Vec::new(),
        beside_calls: Vec::new(),
        without_searches: Vec::new(),
        insertions: Vec::new(),
        omitted: None,
        tooled: false,
        recall: false,
        recall_next: recalls && app.config.recall.enabled && resends,
        untooled: None,
        forbidden: forbidden(app, ctx),
        side_call: false,
        owed: owed(wire, previous.as_ref()),
        previous,
        unpinned,
        lost,
        noted: said.noted,
        received: said.received,
        undone: said.undone,
        resumed: false,
        asked_hash: None,
        command,
        unresolved,
    };
    prepared.side_call = prepared.request.view().facts.summary || summary_class(ctx);
    find_pairs(app, ctx, &mut prepared, &mut ahead)
        .await
        .map_err(store_down)?;
    prepared.recall = recalls && prepared.active.as_ref().is_some_and(|active| active.recall);
    if !prepared.recall && !prepared.pairs.is_empty() {
        heavy::work(weight, || without_searches(&mut prepared));
    }
    insertions::find(app, ctx, &mut prepared)
        .await
        .map_err(store_down)?;
    prepared.omitted = thinking::omitted_until(&prepared);
    prepared.untooled = why_untooled(app, ctx, &prepared).await;
    prepared.tooled = prepared.untooled.is_none();
    if let Some(active) = prepared.active.as_ref().filter(|_| of_the_loop)
        && known != Some(active.id)
        && active
            .candidate
            .as_ref()
            .is_some_and(|candidate| candidate.by_user)
    {
        app.packets.resumed(&ctx.principal, active.id);
        prepared.resumed = true;
    }
    if let Some(live) = prepared.live.as_ref().filter(|_| of_the_loop) {
        let active = prepared.active.as_ref().map(|active| active.id);
        app.sessions
            .follow(live, active, prepared.undone.now(), app.clock.now_ms());
    }
    Ok(Some(prepared))
}

/// Opens the conversation; where the store is shared, with what its request will most likely ask for. `None`: the store
/// cannot be read.
async fn open(
    app: &App,
    ctx: &RequestContext,
    wire: &'static dyn Wire,
    reading: &RequestReading,
    key: &str,
    newest: Option<&Candidate>,
    weight: usize,
) -> (Option<Arc<LiveConversation>>, Ahead) {
    let (opened, ahead) = match app.sessions.is_shared() {
        true => Box::pin(read_ahead::read(app, ctx, wire, reading, key, newest, weight)).await,
        false => {
            let opened = app.sessions.open(key, &ctx.principal, app.clock.now_ms()).await;
            (opened, Ahead::default())
        }
    };
    let live = opened.inspect_err(|error| tracing::error!(%error, "the store cannot be read"));
    (live.ok(), ahead)
}

/// A request without commands and answers to them.
struct Said {
    body: RequestBody,
    /// Bytes that went; `None`: it had none of them.
    noted: Option<usize>,
    /// As the agent sent it, where it had some.
    received: Option<Received>,
    undone: UndoneHandoffs,
}

/// Takes commands and answers to them out of the transcript.
fn without_notes(
    app: &App,
    wire: &dyn Wire,
    reading: &mut RequestReading,
    body: &RequestBody,
    live: Option<&LiveConversation>,
    coming: Option<HandoffId>,
) -> Said {
    let look = NoteSearch {
        prefix: &app.config.commands.prefix,
        tags: &app.config.handoff.preamble_tags,
        next_note: coming,
    };
    let quoted = without_quoted(app, wire, reading, live);
    let before = quoted.map(|without| std::mem::replace(reading, without));
    match notes::take_out(wire, reading, look) {
        Some(CleanedTranscript {
            reading: left,
            removed,
            undone,
        }) => Said {
            body: RequestBody::Plain(left.view.body.clone()),
            noted: Some(removed),
            received: Some(Received::of(match before {
                Some(before) => {
                    *reading = left;
                    before
                }
                None => std::mem::replace(reading, left),
            })),
            undone,
        },
        None if before.is_some() => Said {
            body: RequestBody::Plain(reading.view.body.clone()),
            noted: Some(0),
            received: before.map(Received::of),
            undone: UndoneHandoffs::default(),
        },
        None => Said {
            body: body.clone(),
            noted: None,
            received: None,
            undone: UndoneHandoffs::default(),
        },
    }
}

/// The user's last text, where it is a command.
fn command(app: &App, wire: &dyn Wire, reading: &RequestReading) -> Option<String> {
    let prefix = &app.config.commands.prefix;
    if !notes::may_say(wire, &reading.view, prefix) {
        return None;
    }
    let said = notes::last_message(wire, &reading.view, &app.config.handoff.preamble_tags)?;
    commands::parse(&said, prefix).is_some().then_some(said)
}

/// Takes the command out of a request that only quotes it: one that asks for a title or a classification. It has no tools,
/// in a session whose requests have, or asks for JSON; a text that answered it would do the command twice.
fn without_quoted(
    app: &App,
    wire: &dyn Wire,
    reading: &RequestReading,
    live: Option<&LiveConversation>,
) -> Option<RequestReading> {
    let (view, prefix) = (&reading.view, &app.config.commands.prefix);
    let look = NoteSearch {
        prefix,
        tags: &app.config.handoff.preamble_tags,
        next_note: None,
    };
    if view.tools.is_some_and(|tools| tools.client) || !notes::may_say(wire, view, prefix) {
        return None;
    }
    let beside = view.facts.structured || live.is_some_and(|live| live.tooled() == Some(true));
    let is_own = || command(app, wire, reading).is_some();
    (beside || !is_own())
        .then(|| notes::without_quoted(wire, reading, look))
        .flatten()
}

fn read(
    app: &App,
    ctx: &RequestContext,
    body: &RequestBody,
    scan: &BodyScan,
) -> Option<(&'static dyn Wire, RequestReading)> {
    let wire = wire(ctx.wire?);
    let unread = |why| ctx.recorder.note(|e| e.untooled = Some(why));
    let Some(text) = body.text() else {
        unread(ToolOmission::UnreadCoding);
        return None;
    };
    match RequestReading::scanned(wire, text, operation_of(ctx.endpoint), &scan.known) {
        // The agent's own tool has our name: another proxy of this kind, mostly, and calls are that one's.
        Ok(reading) if is_taken(app, &reading) => {
            unread(ToolOmission::NameTaken);
            None
        }
        Ok(mut reading) => {
            reading.view.shared = app.shared_turns(scan, &reading.view);
            // Some wires say in the path what others say in the body.
            let facts = &mut reading.view.facts;
            facts.stream |= route::streams(&ctx.target);
            facts.ours = app.tools.names();
            if facts.model.is_none() {
                facts.model = route::model(&ctx.target).map(str::to_owned);
            }
            Some((wire, reading))
        }
        Err(why) => {
            unread(match why {
                UnreadReason::NotJson(_) => ToolOmission::UnreadJson,
                UnreadReason::OtherShape => ToolOmission::UnreadShape,
                UnreadReason::RepeatedKey => ToolOmission::UnreadRepeatedKey,
            });
            let why = match why {
                UnreadReason::NotJson(at) => format!("not JSON at byte {at}"),
                UnreadReason::OtherShape => "JSON of another shape".to_owned(),
                UnreadReason::RepeatedKey => "a key stands there twice".to_owned(),
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

/// Whether a tool of the agent's has the name of one of ours.
fn is_taken(app: &App, reading: &RequestReading) -> bool {
    let view = &reading.view;
    let others = app.tools.names().iter().filter(|name| *name != TOOL_NAME);
    view.tools.is_some_and(|t| t.taken)
        || view.has_in_changes(TOOL_NAME)
        || others.into_iter().any(|name| view.has_beside_transcript(name))
}

/// Whether the request, or one behind a cut that is made now, may have the tool that searches what was cut. Where it may, its
/// calls are known as ours.
fn may_recall(app: &App, reading: &mut RequestReading, active: Option<&Active>) -> bool {
    if !app.config.recall.enabled && !active.is_some_and(|active| active.recall) {
        return false;
    }
    let view = &reading.view;
    let may = untooled::has_room_for_two(view) && !view.has_beside_transcript(RECALL_NAME);
    if may {
        reading.view.facts.ours = app.recall_tools.names();
    }
    may
}

/// Behind a handoff that was undone the model sees what it searched, and has no tool to search: its searches go.
fn without_searches(prepared: &mut Prepared) {
    let searches = prepared.pairs.extract_if(.., |pair| pair.tool == RECALL_NAME);
    let searches: Vec<_> = searches.map(|pair| pair.id).collect();
    if searches.is_empty() {
        return;
    }
    let reading = prepared.request.reading();
    // In front of the cut nothing is sent, and the cut is known by its offset.
    let turn = prepared.active.as_ref().and_then(Active::turn);
    let from = turn.and_then(|turn| reading.view.turns.get(turn));
    let from = from.map_or(0, |turn| turn.span.end);
    if let Some(without) = notes::without_asides(prepared.wire, reading, &searches, from) {
        let removed = prepared.request.len().saturating_sub(without.view.body.len());
        if prepared.received.is_none() {
            prepared.received = Some(Received::of(reading.clone()));
        }
        let body = RequestBody::Plain(without.view.body.clone());
        prepared.request = Request::new(body, without);
        prepared.noted = Some(prepared.noted.unwrap_or_default() + removed);
    }
    prepared.without_searches = searches;
}

/// The results that calls of ours wait for in the response which the request goes on from.
fn owed(wire: &dyn Wire, behind: Option<&ResponseOrigin>) -> Vec<String> {
    let owed = behind.and_then(ResponseOrigin::open).map(|open| open.owed.iter());
    owed.into_iter()
        .flatten()
        .filter_map(|owed| wire.lone_result(&owed.call_id, &owed.answer))
        .collect()
}

/// What a route asks for, in the wires' word.
pub(super) fn operation_of(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Count => Operation::Count,
        Endpoint::Compact => Operation::Compact,
        Endpoint::Generate | Endpoint::Other => Operation::Generate,
    }
}

/// The conversation's key, and whether the agent named its session: an opening may be another one's, too.
fn key(ctx: &RequestContext, wire: &dyn Wire, reading: &RequestReading) -> (String, bool) {
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
fn opening(wire: &dyn Wire, reading: &RequestReading) -> String {
    let view = &reading.view;
    let first_user = view
        .turns
        .iter()
        .position(|t| t.role == Role::User)
        .unwrap_or_default();
    let parts = (0..=first_user).flat_map(|turn| wire.content(view, turn).parts);
    let texts = parts
        .filter(|p| p.kind == TurnPartKind::Text)
        .filter_map(|p| Some(json::unescape(view.text(p.text?))));
    let all = texts.map(|t| t.into_owned()).collect::<Vec<_>>().join("\n");
    match &view.facts.previous {
        // What the conversation opened with is held upstream.
        Some(previous) if all.is_empty() => previous.id.clone(),
        _ => all,
    }
}

/// Hash by which the repetition of a request is recognised.
pub(super) fn body_hash(text: &Bytes) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}
