//! Driver of request planning: reads the records that the plan lacks, and performs its writes.

use super::read::ParsedRequest;
use super::request::PlannedExchange;
use crate::app::App;
use crate::heavy;
use crate::proxy::RequestContext;
use crate::proxy::fault::{Code, Fault};
use crate::state::session::Reader;
use crate::state::store::StoreError;
use baton_core::plan::Planner;

/// Plans a request and performs the writes that must precede sending it.
///
/// # Errors
/// The store cannot be read or written, and the request cannot be served without it.
pub(super) async fn plan(
    app: &App,
    ctx: &RequestContext,
    received: ParsedRequest,
) -> Result<PlannedExchange, Fault> {
    let ParsedRequest { call, body, weight } = received;
    let policy = app.policy();
    let mut planning = Planner::new(call, &policy);
    let mut reader = Reader::new(&app.sessions, &app.seals, &ctx.principal, app.clock.now_ms());
    reader.open(&planning.call, planning.needs()).await;
    if let Some(live) = &reader.live {
        ctx.note_topic(live);
    }
    loop {
        let sealing = reader.sealing_weight(planning.call.reading.view.body.len());
        match heavy::work(sealing, || planning.advance(&reader.records, &policy)) {
            Ok(()) => break,
            // The stage has changed nothing, and runs again with these records.
            Err(needs) => reader.read_for(&planning.call, needs).await.map_err(store_down)?,
        }
    }
    let (call, mut plan) = planning.done();
    if reader.live.is_none() && plan.pin.active.is_some() {
        // Cut without its hidden pairs and the tool, the prefix would differ from the one that the model has
        // seen.
        return Err(Fault::from(Code::STORE));
    }
    // Written before the request is sent, so that no later request can decide otherwise.
    let lost = reader.write(&mut plan).await.map_err(store_down)?;
    ctx.note_lost("inserted notices", lost, |e| &mut e.lost_insertions);
    let resumed = plan.pin.active_id().filter(|_| plan.pin.resumed);
    if let Some(handoff) = resumed {
        app.documents.resumed(&ctx.principal, handoff);
    }
    Ok(PlannedExchange::new(
        ParsedRequest { call, body, weight },
        reader.live,
        plan,
    ))
}

/// Logs a store failure, and returns the fault of a request that needs the store.
fn store_down(error: StoreError) -> Fault {
    tracing::error!(%error, "failed to read or write the store; refusing the request");
    Fault::from(Code::STORE)
}
