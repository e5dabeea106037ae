//! Writes handoffs and hidden pairs to the store, before anything of them is shown, and counts the legs of an answer.

use std::sync::Arc;

use super::context::{note_nudge, note_stopped};
use super::heavy;
use super::value::Exchange;
use crate::state::jobs::recalls::{AnswerOutcome, RecallCall};
use crate::state::journal::LiveEvent;
use crate::state::session::FiredHandoff;
use crate::state::store::StoreError;
use crate::state::telemetry::HandoffEvent;
use baton_core::course::AnsweredCall;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::document::HandoffSize;
use baton_core::nudge::NudgeOutcome;
use baton_core::plan::{HandoffSource, NewHandoff};
use baton_core::record::{Handoff, HandoffId, HiddenPair, HiddenResult, InsertionPlace};
use baton_core::text::cut::cut;
use baton_core::text::splice;
use baton_core::tools::RECALL_NAME;
use baton_core::wire::{LegReport, StopReason};

/// Bytes of a model's name in a log line.
const MODEL_NAME: usize = 200;

/// Weight of a byte that is searched: its words are split and looked up.
const SEARCHED: usize = 32;

/// A handoff that can be written.
pub(super) struct PreparedHandoff {
    pub(super) handoff: Handoff,
    /// The bytes of the request before and after its cut.
    pub(super) bytes: HandoffSize,
    /// Whether the leg that hands over has also worked: a later leg that hands over at once has not.
    pub(super) has_work: bool,
}

/// Writes a handoff of the model's; when this has returned, its sentinel may be shown.
pub(super) async fn write_handoff(exchange: &Exchange, new: NewHandoff) -> Result<Handoff, StoreError> {
    let prepared = prepare(exchange, new, bytes_sent(exchange))?;
    write(exchange, prepared).await
}

/// Makes a handoff of any origin, without writing it. `before`: the bytes of the request before its cut.
pub(super) fn prepare(
    exchange: &Exchange,
    new: NewHandoff,
    before: u64,
) -> Result<PreparedHandoff, StoreError> {
    let has_work = exchange.answer.fired().is_empty();
    let Carried { prompt, items } = exchange.carried(&new.prompt, new.parent, has_work);
    let id = exchange.app.clock.new_id();
    let handoff = Handoff {
        carried: items,
        ..handoff(exchange, id, NewHandoff { prompt, ..new })?
    };
    let after = splice::len(&exchange.plan().fresh(&handoff).rope) as u64;
    let bytes = HandoffSize { before, after };
    Ok(PreparedHandoff {
        handoff,
        bytes,
        has_work,
    })
}

/// The bytes of the request that was sent last.
fn bytes_sent(exchange: &Exchange) -> u64 {
    let sent = exchange.ctx.recorder.read(|e| e.sent_bytes.last().copied());
    sent.unwrap_or_default()
}

/// Writes a handoff; when this has returned, its sentinel may be shown.
pub(super) async fn write(exchange: &Exchange, prepared: PreparedHandoff) -> Result<Handoff, StoreError> {
    let handoff = &prepared.handoff;
    let live = exchange.offered.live()?;
    let now = exchange.app.clock.now_ms();
    let fired = FiredHandoff {
        handoff,
        point: exchange.plan().cut_point(handoff),
        answer: &exchange.answer,
        body_hash: exchange.offered.hash(),
    };
    let pairs = exchange.app.sessions.hand_over(live, fired, now).await?;
    if let Some(thread) = &exchange.thread {
        let (followed, stopped) = thread.handed_over(handoff.id);
        if followed {
            note_nudge(&exchange.ctx, NudgeOutcome::Followed);
        }
        note_stopped(&exchange.ctx, stopped);
    }
    exchange.app.drafting.handed_over(live.key());
    report(exchange, &prepared, &pairs);
    Ok(prepared.handoff)
}

/// Writes a handoff that waits for a person's approval: it is active in no conversation.
pub(super) async fn write_for_review(
    exchange: &Exchange,
    id: HandoffId,
    new: NewHandoff,
) -> Result<(), StoreError> {
    let handoff = handoff(exchange, id, new)?;
    exchange.app.sessions.store().put_draft(&handoff).await
}

/// A handoff of this request.
fn handoff(exchange: &Exchange, id: HandoffId, new: NewHandoff) -> Result<Handoff, StoreError> {
    let Exchange { app, offered, .. } = exchange;
    let live = offered.live()?;
    let model = offered.view().facts.model.as_deref().unwrap_or_default();
    let mut routes = app.config.handoff.routes.iter();
    let route = routes.find(|route| route.matches(model, new.reason.as_deref()));
    let source = HandoffSource {
        id,
        principal: &exchange.ctx.principal,
        conversation: live.key(),
        pins: &live.pins(),
        route: route.map(|route| route.to.as_str()),
        history_bytes: offered.request.len() as u64,
        now_ms: app.clock.now_ms(),
    };
    Ok(exchange.plan().handoff(new, &source))
}

/// Reports a handoff that is written: to the log, the journal, the event, and the writer of documents.
fn report(exchange: &Exchange, prepared: &PreparedHandoff, pairs: &[Arc<HiddenPair>]) {
    let PreparedHandoff { handoff, bytes, .. } = prepared;
    let again = handoff
        .parent
        .and_then(|parent| exchange.looked_up_again(parent, pairs));
    let event = HandoffEvent {
        relookups: again.map(|all| all.len() as u64),
        ..HandoffEvent::of(handoff, &exchange.ctx.id, *bytes, &exchange.app.redactor)
    };
    match exchange.app.config.log.json {
        true => event.log(),
        false => event.log_line(),
    }
    let told = || LiveEvent::Handoff(Box::new(event.clone()));
    exchange.app.journal.tell(told);
    exchange.write_document(prepared);
    exchange.ctx.recorder.note(|e| e.handed_over(event));
}

/// Counts a leg that has ended, and measures the context by it.
pub(super) fn count(exchange: &Exchange, report: &LegReport) {
    if let Some(thread) = &exchange.thread {
        let shown = exchange.answer.fired().last().copied();
        let cut = shown.or(exchange.offered.active_id());
        let stopped = thread.measure(bytes_sent(exchange), cut, report);
        note_stopped(&exchange.ctx, stopped);
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

/// Writes the pairs of a mixed batch, each next to its sibling; those without a place are left out.
pub(super) async fn write_beside(
    exchange: &Exchange,
    all: Vec<(AnsweredCall, Option<InsertionPlace>)>,
) -> Result<(), StoreError> {
    let placed = all.into_iter().filter_map(|(call, place)| Some((call, place?)));
    let pairs: Result<_, StoreError> = placed.map(|(call, place)| pair(exchange, call, place)).collect();
    write_pairs(exchange, pairs?).await
}

/// Writes pairs; when this has returned, their marks may be shown.
pub(super) async fn write_pairs(exchange: &Exchange, pairs: Vec<HiddenPair>) -> Result<(), StoreError> {
    let (app, live) = (&exchange.app, exchange.offered.live()?);
    app.sessions.add_pairs(live, pairs, app.clock.now_ms()).await
}

/// A hidden call with its answer. A call without siblings has the aside's id.
pub(super) fn pair(
    exchange: &Exchange,
    answered: AnsweredCall,
    place: InsertionPlace,
) -> Result<HiddenPair, StoreError> {
    let offered = &exchange.offered;
    let conversation = offered.live()?.key().to_owned();
    let call = &answered.call;
    let (answer, outcome) = match answered.answer {
        Some(answer) if answer == HiddenResult::TOO_OFTEN => (answer, AnswerOutcome::TooOften),
        Some(answer) => (answer, AnswerOutcome::BadArguments),
        None => {
            let weight = offered.weight.saturating_mul(SEARCHED);
            heavy::work(weight, || {
                exchange.app.answers.answer(&RecallCall {
                    tool: call.name(),
                    arguments: call.put_back(),
                    cut: exchange.plan().cut_part(exchange.fresh),
                })
            })
        }
    };
    let refused = u32::from(answer.is_error());
    exchange.ctx.recorder.note(|e| match call.name() {
        RECALL_NAME => e.recalls.push(outcome),
        _ => e.refused_calls += refused,
    });
    Ok(HiddenPair {
        id: exchange.app.clock.new_id(),
        principal: exchange.ctx.principal.clone(),
        conversation,
        wire: offered.view().wire,
        tool: call.name().to_owned(),
        call: offered.wire().hidden_call(call),
        call_id: answered.call.id,
        answer,
        place,
        pending: answered.pending,
        created_ms: exchange.app.clock.now_ms(),
    })
}
