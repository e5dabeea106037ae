//! The agent's request, parsed and planned.
//!
//! The text is in memory until the response streams, then spilled, and read back if a later leg is built from
//! it.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use twox_hash::XxHash3_128;

use super::read::ParsedRequest;
use crate::app::App;
use crate::heavy;
use crate::proxy::RequestContext;
use crate::proxy::body::RequestBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::spill::Spill;
use crate::state::journal::RecordedBody;
use crate::state::session::{LiveConversation, Reader};
use crate::state::store::{StoreError, StoreResult};
use baton_core::plan::{
    self, CallFacts, CutTarget, InsertionPoints, Plan, PlannedRequest, Planner, ToolOffer,
};
use baton_core::record::HandoffId;
use baton_core::rewrite::{PlacedInsertion, RequestReading};
use baton_core::wire::{LocatedBody, View, Wire};

/// The agent's request with everything that is settled before it is sent.
#[derive(Clone)]
pub(super) struct PlannedExchange {
    /// Body, in memory or spilled.
    pub(super) body: RequestBody,
    /// Structure of the body. While the body is spilled, only its facts are available.
    pub(super) reading: RequestReading,
    /// Cost of one pass over the request.
    pub(super) weight: usize,
    /// Facts of the call that carried the request.
    pub(super) call: CallFacts,
    /// Conversation. `None` while the store cannot be reached.
    pub(super) live: Option<Arc<LiveConversation>>,
    /// Hash of the request as the agent sent it, if commands were removed. Without them two requests may be
    /// alike.
    pub(super) original_hash: Option<u64>,
    pub(super) pin: CutTarget,
    pub(super) places: InsertionPoints,
    pub(super) offer: ToolOffer,
    /// Text and structure as the journal's notes share them. Empty while the body is spilled.
    recorded: OnceLock<Arc<RecordedBody>>,
}

impl PlannedExchange {
    /// Creates a planned request in this conversation.
    pub(super) fn new(received: ParsedRequest, live: Option<Arc<LiveConversation>>, plan: Plan) -> Self {
        let ParsedRequest { call, body, weight } = received;
        let taken_out = &plan.pin.taken_out;
        let original = taken_out.original.as_ref();
        Self {
            call: call.facts(),
            // A changed transcript is sent from its own text, not from the body that arrived.
            body: match taken_out.removed {
                Some(_) => RequestBody::Plain(call.reading.view.body.clone()),
                None => body,
            },
            reading: call.reading,
            weight,
            live,
            original_hash: original.map(|original| body_hash(&original.text)),
            pin: plan.pin,
            places: plan.places,
            offer: plan.offer,
            recorded: OnceLock::new(),
        }
    }

    /// Structure of the request, as the wires read it.
    pub(super) fn view(&self) -> &View {
        &self.reading.view
    }

    /// Text and structure for the journal.
    pub(super) fn recorded(&self) -> Arc<RecordedBody> {
        let recorded = || Arc::new(LocatedBody::from(self.view()).into());
        Arc::clone(self.recorded.get_or_init(recorded))
    }

    /// Plain text. Empty while it is spilled.
    pub(super) fn text(&self) -> &Bytes {
        &self.view().body
    }

    /// Length of the plain text, in bytes.
    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    /// Returns the body as it arrived, if `rope` is the unchanged text.
    pub(super) fn raw(&self, rope: &[Bytes]) -> Option<&Bytes> {
        let [only] = rope else { return None };
        let text = self.text();
        // Compares addresses instead of bytes: an unchanged rope is a slice of the text itself.
        let same = only.as_ptr() == text.as_ptr() && only.len() == text.len();
        self.body.raw().filter(|_| same)
    }

    pub(super) fn spill(&mut self, spill: &Spill) {
        self.reading.unload();
        self.recorded.take();
        self.body.spill(spill);
    }

    pub(super) async fn reclaim(&mut self) -> io::Result<()> {
        self.body.reclaim().await?;
        let reading = self.body.text().and_then(|text| self.reading.again(text));
        self.recorded.take();
        self.reading = reading.ok_or_else(|| io::Error::other("it is not what was spilled"))?;
        Ok(())
    }

    /// Adds notices that were stored after planning.
    pub(super) fn insert(&mut self, placed: Vec<PlacedInsertion>) {
        self.places.insertions.extend(placed);
    }

    /// Leaves out thinking up to a turn.
    pub(super) fn leave_out_thinking(&mut self, until: Option<usize>) {
        self.places.omitted = until;
    }

    /// Replaces the request by one without the command that ends it.
    pub(super) fn remove_command(&mut self, left: RequestReading) {
        // Agents repeat the request with the command, so its hash stays that of the original.
        self.original_hash = Some(self.hash());
        let removed = self.len().saturating_sub(left.view.body.len());
        self.pin.taken_out.add(removed);
        self.pin.taken_out.is_last = true;
        self.pin.command = None;
        self.body = RequestBody::Plain(left.view.body.clone());
        self.reading = left;
        self.recorded.take();
    }

    pub(super) fn wire(&self) -> &'static Wire {
        self.view().wire()
    }

    /// Returns the conversation.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(super) fn live(&self) -> StoreResult<&Arc<LiveConversation>> {
        let live = self.live.as_ref();
        live.ok_or_else(|| StoreError::new("the store could not be read"))
    }

    /// Hash that identifies a repetition of this request.
    pub(super) fn hash(&self) -> u64 {
        self.original_hash.unwrap_or_else(|| body_hash(self.text()))
    }

    /// Whether the agent sends its whole history with each request, instead of continuing by an id.
    pub(super) fn resends(&self) -> bool {
        plan::resends(self.view())
    }

    /// Returns the plan under the current policy.
    pub(super) fn plan<'a>(&'a self, app: &'a App) -> PlannedRequest<'a> {
        PlannedRequest {
            reading: &self.reading,
            call: self.call,
            pin: &self.pin,
            places: &self.places,
            offer: &self.offer,
            policy: app.policy(),
        }
    }

    /// Handoff at which the request is cut.
    pub(super) fn active_id(&self) -> Option<HandoffId> {
        self.pin.active_id()
    }
}

/// Hash that identifies a repetition of a request in every replica.
fn body_hash(text: &Bytes) -> u64 {
    XxHash3_128::oneshot(text) as u64
}

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
    let received = ParsedRequest { call, body, weight };
    Ok(PlannedExchange::new(received, reader.live, plan))
}

/// Logs a store failure, and returns the fault of a request that needs the store.
pub(super) fn store_down(error: StoreError) -> Fault {
    tracing::error!(%error, "failed to read or write the store; refusing the request");
    Fault::because(Code::STORE, error.cause())
}
