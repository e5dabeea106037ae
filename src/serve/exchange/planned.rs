//! Plans a request: reads what the plan lacks until it is made, and makes its writes.

use super::heavy;
use super::read::Received;
use super::recording::{note_lost, note_topic};
use super::request::{AgentRequest, Offered, Request};
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::fault::{Code, Fault};
use crate::state::session::{NewCalls, Reader};
use crate::state::store::StoreError;
use baton_core::plan::{Effect, Plan, Planning};

/// Plans a request, and writes what is to be written before it is sent.
///
/// # Errors
/// The store cannot be read or written, and the request cannot be served without it.
pub(super) async fn plan(app: &App, ctx: &RequestContext, received: Received) -> Result<Offered, Fault> {
    let Received { call, body, weight } = received;
    let policy = app.policy();
    let mut planning = Planning::new(call, &policy);
    let mut reader = Reader::new(&app.sessions, &app.seals, &ctx.principal, app.clock.now_ms());
    reader.open(&planning.call, planning.needs()).await;
    if let Some(live) = &reader.live {
        note_topic(ctx, live);
    }
    loop {
        let sealing = reader.sealing_weight(planning.call.reading.view.body.len());
        match heavy::work(sealing, || planning.advance(&reader.records, &policy)) {
            Ok(()) => break,
            Err(needs) => reader.read_for(&planning.call, needs).await.map_err(store_down)?,
        }
    }
    let (call, plan) = planning.done();
    let Plan {
        pin,
        places,
        offer,
        effects,
    } = plan;
    let live = reader.live.take();
    if live.is_none() && pin.active.is_some() {
        // Cut without its hidden pairs and the tool, it would be another prefix than the model's.
        return Err(Fault::from(Code::STORE));
    }
    let request = |reading| match pin.taken_out.removed {
        Some(_) => Request::plain(reading),
        None => Request::new(body, reading),
    };
    let original = pin.taken_out.original.as_ref().map(|original| &original.text);
    let mut offered = Offered {
        agent: AgentRequest::new(call, request, weight, live, original),
        pin,
        places,
        offer,
    };
    let done = perform(app, ctx, &mut offered, effects, reader.into_calls()).await;
    done.map_err(store_down)?;
    Ok(offered)
}

/// Makes the writes of a plan. `calls`: those that it looked for pairs of.
async fn perform(
    app: &App,
    ctx: &RequestContext,
    offered: &mut Offered,
    effects: Vec<Effect>,
    mut calls: Option<NewCalls>,
) -> Result<(), StoreError> {
    let Some(live) = &offered.agent.live else {
        return Ok(());
    };
    let (sessions, now) = (&app.sessions, app.clock.now_ms());
    for effect in effects {
        match effect {
            Effect::TakeOverCutPoint(point) => sessions.take_over(live, point, now).await?,
            Effect::KeepCutPoint(handoff) => sessions.keep_cut_point(live, handoff),
            Effect::KnowPairs(found) => {
                if let Some(calls) = calls.take() {
                    live.record_lookup(calls, &found);
                }
            }
            Effect::TakeOverInsertions(found) => {
                live.copy_checked();
                sessions.take_over_insertions(live, found, now).await?;
            }
            Effect::LoseInsertions(lost) => {
                let lost = live.newly_lost(&lost);
                note_lost(ctx, "inserted texts", lost, |e| &mut e.lost_insertions);
            }
            Effect::DecideTool(decision) => {
                let written = sessions.decide_tooled(live, decision.tooled(), now).await;
                offered.offer.set(match written {
                    Ok(stands) => decision.written(stands),
                    Err(error) => {
                        let why = decision.unwritten();
                        tracing::error!(%error, tool = why.is_none(), "the decision on the tool cannot be recorded");
                        why
                    }
                });
            }
            Effect::Resume(handoff) => app.documents.resumed(&ctx.principal, handoff),
            Effect::Follow(active) => sessions.follow(live, active, now),
        }
    }
    Ok(())
}

/// Fault of a request that the store is needed for.
fn store_down(error: StoreError) -> Fault {
    tracing::error!(%error, "a pinned request cannot be served");
    Fault::from(Code::STORE)
}
