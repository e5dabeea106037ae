//! Records an exchange: its event and its legs, log lines, and the journal's copy of the request.

use std::sync::Arc;

use super::value::Exchange;
use crate::proxy::stated_usage;
use baton_core::text::cut::cut;
use baton_core::wire::{LegReport, LocatedBody, StopReason};

/// Maximum length of a model's name in a log line, in bytes.
const MODEL_NAME: usize = 200;

/// Records the facts that precede sending in the exchange's event, and the request in the journal.
///
/// `original` is the transcript as the agent sent it, if baton has changed it since.
pub(super) fn begin(exchange: &Exchange, original: Option<LocatedBody>) {
    let (ctx, offered) = (&exchange.ctx, &exchange.offered);
    ctx.recorder.note(|e| {
        e.model.clone_from(&offered.view().facts.model);
        e.pinned = offered.active_id().map(|id| id.to_string());
        e.tooled = offered.offer.tooled;
        e.untooled = offered.offer.untooled;
        e.lost_sentinel = offered.pin.lost_sentinel;
        e.lapsed_handoff = offered.places.lapses;
    });
    ctx.recording.begin(|| {
        let conversation = offered.live.as_ref().map(|live| live.key().to_owned());
        ctx.received(
            offered.view(),
            conversation,
            original.map_or_else(|| offered.recorded(), |original| Arc::new(original.into())),
            exchange.app.clock.now_ms(),
        )
    });
    if let Some(id) = offered.pin.lost {
        tracing::warn!(
            exchange = ctx.id,
            handoff = %id,
            "unknown sentinel with an invalid seal; not cutting there"
        );
    } else if offered.pin.lost_sentinel {
        tracing::warn!(
            exchange = ctx.id,
            "sentinel missing from a conversation that had one; sending the full transcript"
        );
    }
}

/// Size of the request that was sent last, in bytes.
pub(super) fn bytes_sent(exchange: &Exchange) -> u64 {
    let sent = exchange.ctx.recorder.read(|e| e.sent_bytes.last().copied());
    sent.unwrap_or_default()
}

/// Counts an ended leg, and measures the context by it.
pub(super) fn count(exchange: &Exchange, report: &LegReport) {
    if let Some(branch) = &exchange.branch {
        // After a handoff in this response, the context is measured from that one.
        let shown = exchange.answer.fired().last().copied();
        let cut = shown.or(exchange.offered.active_id());
        if let Some(why) = branch.measure(bytes_sent(exchange), cut, report) {
            exchange.ctx.note_nudge(why);
        }
    }
    count_unmeasured(exchange, report);
}

/// Counts a leg that the agent is shown, and detects a call of baton's tool that the model wrote as text.
///
/// `writes` searches the leg's text for such a call.
pub(super) fn count_shown(exchange: &Exchange, report: &LegReport, writes: impl FnOnce() -> bool) {
    count(exchange, report);
    // Only complete output without calls is searched for a call written as text.
    let has_call = report.stop != StopReason::Done || !report.hidden.is_empty() || !report.calls.is_empty();
    if has_call || !exchange.tooled() || !writes() {
        return;
    }
    exchange.ctx.recorder.note(|e| e.text_tool_calls += 1);
    let model = exchange.offered.view().facts.model.as_deref();
    tracing::warn!(
        exchange = exchange.ctx.id,
        model = model.map(|model| cut(model, MODEL_NAME)),
        "the model wrote a call of session_handoff as text, so there was no handoff; use a chat template with tool calls (llama-server: `--jinja`), or `::handoff --method local`"
    );
}

/// Counts a leg without measuring the context by it, because a draft does not have the size of the
/// conversation.
pub(super) fn count_unmeasured(exchange: &Exchange, report: &LegReport) {
    let offered = &exchange.offered;
    if let Some(live) = offered.live.as_ref().filter(|_| !offered.call.side_call) {
        live.spoken.answered();
    }
    exchange.ctx.count_leg(report);
    // The agent may fetch the response of a background request later, which must not count again.
    if report.background.is_some() {
        let (store, report) = (exchange.app.sessions.store().clone(), report.clone());
        let principal = exchange.ctx.principal.clone();
        tokio::spawn(async move { stated_usage::is_first(&store, &principal, &report).await });
    }
}
