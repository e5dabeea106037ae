//! Records an exchange: its event and its legs, log lines, and the journal's copy of the request.

use super::context::note_nudge;
use super::value::Exchange;
use crate::proxy::{RequestContext, headers};
use crate::state::journal::{PackedHeaders, ReceivedRequest};
use crate::state::session::LiveConversation;
use crate::state::telemetry::ExchangeEvent;
use baton_core::nudge::NudgeOutcome;
use baton_core::record::is_topic;
use baton_core::text::cut::cut;
use baton_core::wire::{LegReport, LocatedBody, Operation, StopReason};

/// Bytes of a model's name in a log line.
const MODEL_NAME: usize = 200;

/// Writes what is known before the request is sent into the exchange's event, and the request into the journal. `original`:
/// the transcript as the agent sent it, where baton has changed it since.
pub(super) fn begin(exchange: &Exchange, original: Option<LocatedBody>) {
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
fn received_request(exchange: &Exchange, original: Option<LocatedBody>) -> ReceivedRequest {
    let (ctx, offered) = (&exchange.ctx, &exchange.offered);
    let path = ctx.target.split('?').next().unwrap_or_default();
    let view = offered.view();
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
        received: original.unwrap_or_else(|| view.into()),
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

/// The bytes of the request that was sent last.
pub(super) fn bytes_sent(exchange: &Exchange) -> u64 {
    let sent = exchange.ctx.recorder.read(|e| e.sent_bytes.last().copied());
    sent.unwrap_or_default()
}

/// Counts a leg that has ended, and measures the context by it.
pub(super) fn count(exchange: &Exchange, report: &LegReport) {
    if let Some(thread) = &exchange.thread {
        let shown = exchange.answer.fired().last().copied();
        let cut = shown.or(exchange.offered.active_id());
        if let Some(why) = thread.measure(bytes_sent(exchange), cut, report) {
            note_nudge(&exchange.ctx, NudgeOutcome::Stopped(why));
        }
    }
    count_unmeasured(exchange, report);
}

/// Counts a leg that the agent is shown, and whether the model wrote a call of our tool as text in it, for which `writes`
/// looks.
pub(super) fn count_shown(exchange: &Exchange, report: &LegReport, writes: impl FnOnce() -> bool) {
    count(exchange, report);
    let has_call = report.stop != StopReason::Done || !report.hidden.is_empty() || !report.calls.is_empty();
    if has_call || !exchange.tooled || !writes() {
        return;
    }
    exchange.ctx.recorder.note(|e| e.written_calls += 1);
    let model = exchange.offered.view().facts.model.as_deref();
    tracing::warn!(
        exchange = exchange.ctx.id,
        model = model.map(|model| cut(model, MODEL_NAME)),
        "the model wrote a call of session_handoff as text, so nothing was handed over; `baton doctor` says what to do"
    );
}

/// Counts a leg without measuring the context by it: a draft's size is not that of the conversation.
pub(super) fn count_unmeasured(exchange: &Exchange, report: &LegReport) {
    let offered = &exchange.offered;
    if let Some(live) = offered.live.as_ref().filter(|_| !offered.call.side_call) {
        live.spoken.answered();
    }
    let (ctx, dropped) = (&exchange.ctx, report.dropped_thinking);
    ctx.recording.counted(report.usage, report.stop);
    ctx.recorder.note(|e| e.count_leg(report));
    if dropped.some().is_some() {
        tracing::warn!(
            exchange = ctx.id,
            prefix = dropped.prefix,
            other = dropped.other,
            "upstream dropped thinking from the model's view"
        );
    }
}
