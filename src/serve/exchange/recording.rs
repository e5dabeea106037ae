//! Records an exchange: its event, log lines, and the journal's copy of the request.

use super::value::Exchange;
use crate::serve::proxy::{RequestContext, headers};
use crate::state::journal::{BodyLayout, PackedHeaders, ReceivedRequest};
use crate::state::session::LiveConversation;
use crate::state::telemetry::ExchangeEvent;
use baton_core::plan::OriginalTranscript;
use baton_core::record::is_topic;
use baton_core::wire::Operation;

/// Writes what is known before the request is sent into the exchange's event, and the request into the journal. `original`:
/// the transcript as the agent sent it, where baton has changed it since.
pub(super) fn begin(exchange: &Exchange, original: Option<OriginalTranscript>) {
    let Exchange { ctx, offered, .. } = exchange;
    ctx.recorder.note(|e| {
        e.model.clone_from(&offered.view().facts.model);
        e.pinned = offered.active_id().map(|id| id.to_string());
        e.tooled = offered.offer.tooled;
        e.untooled = offered.offer.untooled;
        e.unpinned = offered.pin.unpinned;
    });
    ctx.recording.begin(|| received_request(exchange, original));
    if let Some(id) = offered.pin.lost {
        tracing::warn!(
            exchange = ctx.id,
            handoff = %id,
            "unknown sentinel whose seal does not verify: not cut there"
        );
    } else if offered.pin.unpinned {
        tracing::warn!(
            exchange = ctx.id,
            "no sentinel in the transcript of a conversation that had one: sent whole"
        );
    }
}

/// The request for the journal.
fn received_request(exchange: &Exchange, original: Option<OriginalTranscript>) -> ReceivedRequest {
    let (ctx, offered) = (&exchange.ctx, &exchange.offered);
    let path = ctx.target.split('?').next().unwrap_or_default();
    let view = offered.view();
    let OriginalTranscript { text, list, turns } = original.unwrap_or_else(|| view.into());
    ReceivedRequest {
        id: ctx.id.clone(),
        at_ms: exchange.app.clock.now_ms(),
        principal: ctx.principal.clone(),
        conversation: offered.live.as_ref().map(|live| live.key().to_owned()),
        wire: view.wire,
        operation: ctx.operation.unwrap_or(Operation::Generate),
        upstream: ctx.upstream.name.clone(),
        route: format!("{} {path}", ctx.method),
        model: view.facts.model.clone(),
        headers: PackedHeaders::new(&ctx.headers),
        received: text,
        transcript: Some(BodyLayout { list, turns }),
    }
}

/// Records that `lost` of what was put into transcripts had to be left out. `field`: their number in the event.
pub(super) fn note_lost(
    ctx: &RequestContext,
    what: &str,
    lost: usize,
    field: impl FnOnce(&mut ExchangeEvent) -> &mut u32,
) {
    if lost > 0 {
        tracing::warn!(
            exchange = ctx.id,
            lost,
            "{what} have no place in the transcript any more: left out"
        );
        ctx.recorder
            .note(|e| *field(e) = u32::try_from(lost).unwrap_or(u32::MAX));
    }
}

/// The topic that a request declares.
pub(super) fn declared_topic(ctx: &RequestContext) -> Option<&str> {
    headers::text(&ctx.headers, headers::DECLARED_TOPIC).filter(|name| is_topic(name))
}

/// Records the topic of a request's conversation.
pub(super) fn note_topic(ctx: &RequestContext, live: &LiveConversation) {
    let topic = live.topic(declared_topic(ctx));
    ctx.recorder.note(|e| e.topic = topic);
}
