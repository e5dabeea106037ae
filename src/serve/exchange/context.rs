//! The context use of a model in one thread of a conversation, and its consequence: a notice to the model, or an
//! automatic handoff.

use std::sync::Arc;

use http::HeaderMap;

use super::once::OnceLog;
use super::{Exchange, insertions, is_model_call};
use crate::serve::proxy::{RequestContext, headers};
use crate::state::keyed_hash;
use crate::state::session::{LiveConversation, ThreadId, ThreadTurns};
use baton_core::bill::{CutLedger, PriceQuery};
use baton_core::nudge::{
    self, AnswerUsage, ContextUse, HandoffLoop, ModelThresholds, NudgeOutcome, NudgeWording, WindowQuery,
    compaction_point,
};
use baton_core::plan::{self, FreeCutPolicy, RequestCosts, ThreadState};
use baton_core::record::{HandoffId, ReadyDraft};
use baton_core::rewrite::positions::without_breakpoints;
use baton_core::wire::{LegReport, Usage, View};
use tokio::sync::oneshot;

/// Turns at a transcript's end by which its thread is found again.
const TAIL: usize = 4;

/// The thread of an exchange, and its thresholds.
#[derive(Clone)]
pub(super) struct ContextThread {
    live: Arc<LiveConversation>,
    thread: ThreadId,
    limits: ModelThresholds,
    window: Option<u64>,
    nudge_pays: bool,
    wording: NudgeWording,
    costs: Option<Arc<RequestCosts>>,
}

/// A thread that a request belongs to.
pub(super) struct EnteredThread {
    pub(super) thread: ContextThread,
    /// The request was not sent before in this thread.
    pub(super) is_new: bool,
}

/// Finds the request's thread; `None` where its model gets no notices.
pub(super) fn enter(exchange: &Exchange) -> Option<EnteredThread> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let policy = &app.config.handoff;
    let thresholds = policy.thresholds_of(headers::is_of_subagent(&ctx.headers));
    let view = offered.agent.request.view();
    let facts = &view.facts;
    let in_the_loop = (offered.offer.tooled || app.is_shadow(ctx))
        && is_model_call(ctx.operation)
        && !offered.agent.call.side_call
        && !facts.structured
        // The size of a transcript that upstream stores is unknown here.
        && facts.previous.is_none();
    let may_cut = app.is_shadow(ctx) || policy.free != FreeCutPolicy::Off || policy.nudge_limit;
    if !in_the_loop || (thresholds.are_off() && !may_cut) {
        return None;
    }
    let live = offered.agent.live.as_ref()?;
    let model = exchange.plan().model();
    let window = policy.windows.of(&window_query(ctx, model));
    if window.is_none() && thresholds.nudge_at > 0.0 {
        note_unknown(model);
    }
    let from = offered.pin.kept_from();
    let mut visible = offered
        .places
        .insertions
        .iter()
        .filter(|placed| placed.turn >= from);
    let notified = visible.any(|placed| nudge::is_nudge(&placed.text));
    let request = ThreadTurns {
        turns: view.turns.len(),
        digest: &|last| tail_digest(view, last),
        named: offered.agent.call.named,
    };
    let (thread, is_new) = live.context_exchange(&request, offered.active_id(), notified);
    let thread = ContextThread {
        live: Arc::clone(live),
        thread,
        limits: thresholds.of(window),
        window,
        nudge_pays: thresholds.nudge_pays,
        wording: policy.nudge_wording,
        costs: costs(exchange, window).map(Arc::new),
    };
    Some(EnteredThread { thread, is_new })
}

impl ContextThread {
    /// The thread as it is now. `ready`: a draft by which another process knew what it has cost.
    pub(super) fn state(&self, ready: Option<&ReadyDraft>) -> Option<ThreadState<'_>> {
        let context = self.with(|context| context.clone())?;
        let costs = self.live.costs(self.thread, |costs| {
            if let Some(draft) = ready.filter(|_| costs.ledger.history().is_none()) {
                costs.ledger = CutLedger::resumed(&draft.last);
            }
            costs.clone()
        })?;
        Some(ThreadState {
            context,
            limits: self.limits,
            window: self.window,
            wording: self.wording,
            nudge_pays: self.nudge_pays,
            bill: self.costs(),
            costs,
        })
    }

    /// Takes in what an answer's headers say of usage limits.
    pub(super) fn note_limit(&self, headers: &HeaderMap, now_ms: u64) {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let limit = nudge::near_limit(header, now_ms);
        self.live.costs(self.thread, |costs| costs.limit = limit);
    }

    /// Puts a notice after the request, before anything is sent.
    pub(super) async fn nudge(&self, exchange: &mut Exchange, text: &str) {
        let appended = insertions::append(exchange, text).await;
        let ctx = &exchange.ctx;
        match appended {
            Ok(true) => {
                self.notified();
                note_nudge(ctx, NudgeOutcome::Notified);
                tracing::debug!(exchange = ctx.id, "the model is notified how full its context is");
            }
            // There is no place for it here; the next request may have one.
            Ok(false) => {}
            Err(error) => {
                note_nudge(ctx, NudgeOutcome::NotWritten);
                tracing::error!(exchange = ctx.id, %error, "a nudge was not written: not sent");
            }
        }
    }

    /// A notice is given.
    pub(super) fn notified(&self) {
        self.with(ContextUse::nudged);
        self.live.costs(self.thread, |costs| {
            costs.notified_limit = costs.limit.map(|limit| limit.resets_ms);
        });
    }

    /// Measures the context by the usage of a leg that was answered, in a request cut at `cut`.
    pub(super) fn measure(&self, ctx: &RequestContext, cut: Option<HandoffId>, leg: &LegReport) {
        if let Some(request) = self.costs() {
            let bytes = ctx.recorder.read(|e| e.sent_bytes.last().copied());
            self.live.costs(self.thread, |costs| {
                costs.offered = false;
                request.answered(&mut costs.ledger, leg, bytes.unwrap_or_default());
            });
        }
        let answer = answer_usage(cut, leg.usage);
        let stopped = self.with(|context| context.measured(answer, &self.limits));
        note_stopped(ctx, stopped.flatten());
    }

    /// By what its request is billed; `None` where no cut depends on it.
    pub(super) fn costs(&self) -> Option<&RequestCosts> {
        self.costs.as_deref()
    }

    /// Dollars that a handoff now is expected to save; `None` without a price.
    pub(super) fn expected(&self) -> Option<f64> {
        let rates = &self.costs()?.rates;
        self.ledger(|ledger| ledger.expected(rates))?
    }

    /// Looks at what the thread has cost, or adds to it; `None` where it is forgotten.
    pub(super) fn ledger<T>(&self, with: impl FnOnce(&mut CutLedger) -> T) -> Option<T> {
        self.live.costs(self.thread, |costs| with(&mut costs.ledger))
    }

    /// Has something wait until the thread's next request.
    pub(super) fn set_pause(&self, until_next: oneshot::Sender<()>) {
        self.live.set_pause(self.thread, until_next);
    }

    /// The person is offered a cut: once between two answers of the model's.
    pub(super) fn offered_cut(&self) {
        self.live.costs(self.thread, |costs| costs.offered = true);
    }

    /// A handoff has taken effect.
    pub(super) fn handed_over(&self, ctx: &RequestContext, handoff: HandoffId) {
        self.ledger(CutLedger::handed_over);
        let mut stopped = None;
        let nudged = self.with(|context| {
            let nudged = context.was_nudged();
            stopped = context.handed_over(handoff);
            nudged
        });
        if nudged == Some(true) {
            note_nudge(ctx, NudgeOutcome::Followed);
        }
        note_stopped(ctx, stopped);
    }

    /// A draft failed: none is begun by a threshold again until the context has grown further.
    pub(super) fn draft_failed(&self) {
        self.with(ContextUse::tried);
    }

    fn with<T>(&self, change: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        self.live.context(self.thread, change)
    }
}

/// What a leg's usage states of the context: its input with all of it that was cached, and its output.
fn answer_usage(cut: Option<HandoffId>, usage: Usage) -> AnswerUsage {
    let input = usage.all_input();
    let tokens = input.saturating_add(usage.output);
    AnswerUsage { cut, tokens, input }
}

pub(super) fn note_nudge(ctx: &RequestContext, outcome: NudgeOutcome) {
    ctx.recorder.note(|e| e.nudges.push(outcome));
}

fn note_stopped(ctx: &RequestContext, stopped: Option<HandoffLoop>) {
    let Some(why) = stopped else { return };
    note_nudge(ctx, NudgeOutcome::Stopped(why));
    let why = why.name();
    tracing::warn!(exchange = ctx.id, why, "nudging stops in this task");
}

/// Digest of the transcript's last turns up to this one.
fn tail_digest(view: &View, last: usize) -> u128 {
    let turns = &view.turns[(last + 1).saturating_sub(TAIL)..=last];
    let mut digests = [0; TAIL * size_of::<u128>()];
    for (turn, place) in turns.iter().zip(digests.chunks_exact_mut(size_of::<u128>())) {
        let one = keyed_hash::hash(&without_breakpoints(view.text(turn.span)));
        place.copy_from_slice(&one.to_ne_bytes());
    }
    keyed_hash::hash(&digests)
}

/// The costs of a request to a model with this window. `None`: no cut depends on them, a subscription pays, or the model
/// has no price.
fn costs(exchange: &Exchange, window: Option<u64>) -> Option<RequestCosts> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let policy = &app.config.handoff;
    let is_wanted = app.is_shadow(ctx) || policy.free != FreeCutPolicy::Off || policy.thresholds.nudge_pays;
    if !is_wanted || ctx.recorder.read(|e| e.subscription) {
        return None;
    }
    let view = offered.agent.request.view();
    let model = exchange.plan().model().to_owned();
    let at_ms = app.clock.now_ms();
    let query = PriceQuery {
        model: &model,
        host: &ctx.upstream.config.host(),
        at_ms,
        service: None,
    };
    let Some(rates) = app.prices.rates(&query) else {
        note_unpriced(&model);
        return None;
    };
    let agent = ctx.recorder.read(|e| e.agent.clone()).unwrap_or_default();
    let lifetime = policy.cache_lifetime.map(|lifetime| lifetime.as_millis());
    Some(RequestCosts {
        rates,
        effort: view.effort(),
        at_ms,
        fixed_bytes: plan::fixed_bytes(view),
        limit: window.map(|window| compaction_point(&agent, window)),
        lifetime_ms: lifetime.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        model,
    })
}

/// Logs once that a model has no price.
fn note_unpriced(model: &str) {
    static LOGGED: OnceLog = OnceLog::new();
    if LOGGED.is_first(model) {
        tracing::info!(
            model,
            "no price is known for this model: handoff.free changes nothing for it (bill.prices)"
        );
    }
}

/// What a request states of its model's window.
pub(super) fn window_query<'a>(ctx: &'a RequestContext, model: &'a str) -> WindowQuery<'a> {
    let text = |name| headers::text(&ctx.headers, name).unwrap_or_default();
    WindowQuery {
        model,
        betas: text("anthropic-beta"),
        user_agent: text("user-agent"),
        declared: text(headers::DECLARED_WINDOWS),
    }
}

/// Logs once that a model's window is unknown.
fn note_unknown(model: &str) {
    static LOGGED: OnceLog = OnceLog::new();
    if LOGGED.is_first(model) {
        tracing::info!(
            model,
            "the window of this model is unknown: only the threshold handoff.nudge_tokens applies (handoff.windows)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_prompt_counts_as_input_whether_it_was_cached_or_not() {
        let usage = Usage {
            input: 1,
            cache_read: 20,
            cache_write: 300,
            output: 4_000,
            ..Usage::default()
        };
        let answer = answer_usage(None, usage);
        assert_eq!((answer.input, answer.tokens), (321, 4_321));
        let absurd = Usage {
            input: u64::MAX,
            output: u64::MAX,
            ..usage
        };
        assert_eq!(answer_usage(None, absurd).tokens, u64::MAX);
    }
}
