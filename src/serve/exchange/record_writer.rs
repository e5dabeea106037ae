//! Writes handoffs and hidden pairs to the store, before anything of them is shown, and counts the legs of an answer.

use std::sync::Arc;

use super::context::{note_nudge, note_stopped};
use super::heavy;
use super::value::Exchange;
use crate::state::jobs::recalls::{AnswerOutcome, RecallCall};
use crate::state::journal::LiveEvent;
use crate::state::store::StoreError;
use crate::state::telemetry::{HandoffEvent, LegEnd};
use baton_core::course::AnsweredCall;
use baton_core::handoffs::carry::Carried;
use baton_core::handoffs::document::HandoffSize;
use baton_core::nudge::NudgeOutcome;
use baton_core::plan::{HandoffSource, NewHandoff};
use baton_core::record::{Handoff, HandoffId, HiddenPair, HiddenResult, InsertionPlace, RepeatedAnswer};
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
    let has_work = exchange.record.fired.list().is_empty();
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
    let live = exchange.offered.agent.live()?;
    let now = exchange.app.clock.now_ms();
    let point = exchange.plan().cut_point(handoff);
    let hash = exchange.offered.agent.hash();
    let repeat = RepeatedAnswer {
        body_hash: hash,
        handoff: handoff.id,
        replaces: exchange.record.fired.list().clone(),
        at_ms: now,
    };
    let sessions = &exchange.app.sessions;
    // Since the handoff before: this one begins anew. No handoff fails because they cannot be counted.
    let pairs = sessions.pairs_of(live).await.unwrap_or_default();
    exchange.record.fired.list().push(handoff.id);
    sessions
        .fire(live, handoff.clone(), point, Some(repeat), now)
        .await?;
    live.remember_repeat(hash, handoff.id, &exchange.record.id, now);
    live.spoken.handed_over();
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
    let (agent, live) = (&offered.agent, offered.agent.live()?);
    let model = agent.request.view().facts.model.as_deref().unwrap_or_default();
    let mut routes = app.config.handoff.routes.iter();
    let route = routes.find(|route| route.matches(model, new.reason.as_deref()));
    let source = HandoffSource {
        id,
        principal: &exchange.ctx.principal,
        conversation: live.key(),
        pins: &live.pins(),
        route: route.map(|route| route.to.as_str()),
        history_bytes: agent.request.len() as u64,
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
    exchange.ctx.recorder.note(|e| {
        e.fired.push(event.id.clone());
        e.prompt_bytes += event.prompt_bytes;
        e.lacked += event.lacked.values().sum::<u32>();
        e.relookups += event.relookups.unwrap_or_default();
        e.handoffs.push(event);
    });
}

/// Counts a leg that has ended, and measures the context by it.
pub(super) fn count(exchange: &Exchange, report: &LegReport) {
    if let Some(thread) = &exchange.thread {
        let shown = exchange.record.fired.list().last().copied();
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
    if has_call || !exchange.leg.tooled || !writes() {
        return;
    }
    exchange.ctx.recorder.note(|e| e.written_calls += 1);
    let model = exchange.offered.agent.request.view().facts.model.as_deref();
    tracing::warn!(
        exchange = exchange.ctx.id,
        model = model.map(|model| cut(model, MODEL_NAME)),
        "the model wrote a call of session_handoff as text, so nothing was handed over; `baton doctor` says what to do"
    );
}

/// Counts a leg without measuring the context by it: a draft's size is not that of the conversation.
pub(super) fn count_unmeasured(exchange: &Exchange, report: &LegReport) {
    let agent = &exchange.offered.agent;
    if let Some(live) = agent.live.as_ref().filter(|_| !agent.call.side_call) {
        live.spoken.answered();
    }
    let (usage, dropped) = (report.usage, report.dropped_thinking);
    let ctx = &exchange.ctx;
    ctx.recording.counted(usage, report.stop);
    ctx.recorder.note(|e| {
        let end = LegEnd {
            id: report.id.clone(),
            stop: report.stop,
        };
        e.count_tokens(usage, report.served.clone(), end);
        e.broken_up += u32::try_from(report.broken_up).unwrap_or_default();
        e.dropped_thinking += dropped.total();
        e.dropped_for_prefix += dropped.prefix;
    });
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
    let (app, live) = (&exchange.app, exchange.offered.agent.live()?);
    app.sessions.add_pairs(live, pairs, app.clock.now_ms()).await
}

/// A hidden call with its answer. A call without siblings has the aside's id.
pub(super) fn pair(
    exchange: &Exchange,
    answered: AnsweredCall,
    place: InsertionPlace,
) -> Result<HiddenPair, StoreError> {
    let agent = &exchange.offered.agent;
    let conversation = agent.live()?.key().to_owned();
    let call = &answered.call;
    let (answer, outcome) = match answered.answer {
        Some(answer) if answer == HiddenResult::TOO_OFTEN => (answer, AnswerOutcome::TooOften),
        Some(answer) => (answer, AnswerOutcome::BadArguments),
        None => {
            let weight = agent.weight.saturating_mul(SEARCHED);
            heavy::work(weight, || {
                exchange.app.answers.answer(&RecallCall {
                    tool: call.name(),
                    arguments: call.put_back(),
                    cut: exchange.plan().cut_part(exchange.leg.fresh),
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
        wire: agent.request.view().wire,
        tool: call.name().to_owned(),
        call: agent.wire().hidden_call(call),
        call_id: answered.call.id,
        answer,
        place,
        pending: answered.pending,
        created_ms: exchange.app.clock.now_ms(),
    })
}
