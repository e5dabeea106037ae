//! The context use of a model in one thread of a conversation, and its consequence: a notice to the model, or an
//! automatic handoff.

use std::sync::Arc;

use http::HeaderMap;

use super::costs::RequestCosts;
use super::offer::Offered;
use super::once::OnceLog;
use super::{Exchange, insertions, is_model_call};
use crate::serve::proxy::{RequestContext, headers};
use crate::state::config::FreeCutPolicy;
use crate::state::keyed_hash;
use crate::state::session::{LiveConversation, ThreadCosts, ThreadId, ThreadTurns};
use crate::state::telemetry::UsageTokens;
use baton_core::bill::CutLedger;
use baton_core::nudge::{
    self, AnswerUsage, ContextUse, HandoffLoop, ModelThresholds, NearLimit, NudgeDecision, NudgeOutcome,
    NudgeWording, WindowQuery,
};
use baton_core::record::{HandoffId, ReadyDraft};
use baton_core::rewrite::positions::without_breakpoints;
use baton_core::wire::{LegReport, Role, Turn, Usage, View};
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

/// What is due with a request.
pub(super) enum DueStep {
    /// A notice to the model.
    Nudge(String),
    /// A handoff, for this reason.
    HandOff { reason: String },
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
        && !offered.agent.side_call
        && !facts.structured
        // The size of a transcript that upstream stores is unknown here.
        && facts.previous.is_none();
    let may_cut = app.is_shadow(ctx) || policy.free != FreeCutPolicy::Off || policy.nudge_limit;
    if !in_the_loop || (thresholds.are_off() && !may_cut) {
        return None;
    }
    let live = offered.agent.live.as_ref()?;
    let model = offered.legs(app).model();
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
        named: offered.agent.named,
    };
    let (thread, is_new) = live.context_exchange(&request, offered.active_id(), notified);
    let thread = ContextThread {
        live: Arc::clone(live),
        thread,
        limits: thresholds.of(window),
        window,
        nudge_pays: thresholds.nudge_pays,
        wording: policy.nudge_wording,
        costs: RequestCosts::of(exchange, window).map(Arc::new),
    };
    Some(EnteredThread { thread, is_new })
}

/// Whether a handoff that the model has called for is pending until the end of its turn.
pub(super) fn waits_for_turn_end(offered: &Offered) -> bool {
    let mut pending = offered.places.pairs.iter().filter(|pair| pair.pending.is_some());
    pending.any(|pair| offered.places.beside_calls.contains(&pair.id))
}

impl ContextThread {
    /// What is due with a new request of this thread.
    pub(super) fn due(&self, offered: &Offered, now_ms: u64) -> Option<DueStep> {
        let view = offered.agent.request.view();
        let step_done = || nudge::step_done(view, offered.pin.kept_from());
        let context = self.with(|context| context.clone())?;
        match context.decide(&self.limits, step_done) {
            NudgeDecision::Nudge { tokens } => {
                let text = nudge::text(tokens, self.window, self.wording);
                Some(DueStep::Nudge(text))
            }
            NudgeDecision::HandOff { tokens } => Some(DueStep::HandOff {
                reason: format!("the context had {tokens} tokens"),
            }),
            NudgeDecision::Nothing => {
                let tokens = context.may_notify()?;
                let limit = self.near_limit(now_ms);
                let limit = limit.filter(|limit| limit.is_urgent() || step_done());
                let notice = limit.map(|limit| nudge::limit_text(&limit, now_ms));
                let notice = notice.or_else(|| self.paying_notice(offered, tokens));
                notice.map(DueStep::Nudge)
            }
        }
    }

    /// The notice that a handoff pays within the steps that are left of the to-do list.
    fn paying_notice(&self, offered: &Offered, tokens: u64) -> Option<String> {
        let costs = self.costs().filter(|_| self.nudge_pays)?;
        let view = offered.agent.request.view();
        let from = offered.pin.kept_from();
        if !nudge::step_done(view, from) {
            return None;
        }
        let left = nudge::steps_left(view, from)?.calls_left();
        let calls = self.ledger(|ledger| costs.pays(ledger, left)).flatten()?;
        Some(nudge::paying_text(tokens, calls, left, self.wording))
    }

    /// The usage limit that is near, reported once until it resets.
    fn near_limit(&self, now_ms: u64) -> Option<NearLimit> {
        let near = self.live.costs(self.thread, |costs| {
            let limit = costs.limit.filter(|limit| limit.resets_ms > now_ms)?;
            (costs.notified_limit != Some(limit.resets_ms)).then_some(limit)
        });
        near.flatten()
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
        self.live
            .costs(self.thread, |costs| costs.pause = Some(until_next));
    }

    /// Whether the person is offered a cut now: once between two answers of the model's.
    pub(super) fn offers_cut(&self) -> bool {
        let offered = |costs: &mut ThreadCosts| std::mem::replace(&mut costs.offered, true);
        self.live.costs(self.thread, offered) == Some(false)
    }

    /// Whether the request continues the one that the ledger knows, with one answer of the model's between: no other replica
    /// had a request of it since. Where this process knows of none, from the one that the ready draft covers.
    pub(super) fn goes_straight_on(&self, offered: &Offered, draft: Option<&ReadyDraft>) -> bool {
        let view = offered.agent.request.view();
        let known = self.live.costs(self.thread, |costs| costs.before).flatten();
        let covered = || draft.map(|draft| view.leading() + draft.covers.turns);
        let Some(from) = known.or_else(covered) else {
            return false;
        };
        let turns = view.turns.get(from..).unwrap_or_default();
        let is_models = |turn: &Turn| turn.role == Role::Assistant;
        turns
            .chunk_by(|a, b| is_models(a) == is_models(b))
            .filter(|run| is_models(&run[0]))
            .count()
            == 1
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
    let input = UsageTokens::from(usage).all_input();
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
