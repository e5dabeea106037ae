//! Tells the model that its context fills up: what is known of a thread's context, what is decided of a request, and what came
//! of it.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::active_handoff::Active;
use super::{Exchange, is_model_call};
use crate::serve::proxy::{RequestContext, headers};
use crate::state::jobs::drafts::DraftJob;
use crate::state::session::{ThreadId, ThreadTurns, digest};
use baton_core::nudge::{
    self, AnswerUsage, ContextUse, HandoffLoop, ModelThresholds, NudgeDecision, NudgeOutcome, WindowQuery,
};
use baton_core::record::HandoffId;
use baton_core::rewrite::positions::without_breakpoints;
use baton_core::wire::{Usage, View};

/// Headers that the requests of subagents alone have: Claude Code's, Codex's.
const OF_SUBAGENTS: [&str; 2] = ["x-claude-code-agent-id", "x-openai-subagent"];

/// Turns at a transcript's end by which its thread is found again.
const TAIL: usize = 4;

/// Models without a known window that are told of in the log, once each.
const MOST_UNKNOWN: usize = 64;

/// The thread of an exchange, and what is decided in it by.
#[derive(Clone, Copy)]
pub(super) struct InThread {
    thread: ThreadId,
    limits: ModelThresholds,
    window: Option<u64>,
}

/// What is to be done with a request.
pub(super) enum Due {
    /// The model is told this.
    Nudge(String),
    /// The session is handed over by this draft.
    HandOff(DraftJob),
}

impl Exchange {
    /// Finds the request's thread, and says what is to be done with the request, if anything.
    pub(super) fn due(&mut self) -> Option<Due> {
        let (here, new) = self.enter_thread()?;
        self.thread = Some(here);
        // What is sent again is sent as before.
        if !new || self.waits_for_the_end() || self.opening.undo().is_some() {
            return None;
        }
        match self.decide(&here) {
            NudgeDecision::Nudge { tokens } => Some(Due::Nudge(nudge::text(tokens, here.window))),
            NudgeDecision::HandOff { tokens } => self.automatic_draft(tokens).map(Due::HandOff),
            NudgeDecision::Nothing => None,
        }
    }

    /// Tells the model this: before anything is sent.
    pub(super) async fn nudge(&mut self, text: &str) {
        match self.insert_behind(text).await {
            Ok(true) => {
                self.in_context(ContextUse::nudged);
                self.note_nudge(NudgeOutcome::Notified);
                tracing::debug!(
                    exchange = self.ctx.id,
                    "the model is told how full its context is"
                );
            }
            // It has no place here: the next request may have one.
            Ok(false) => {}
            Err(error) => {
                self.note_nudge(NudgeOutcome::NotWritten);
                tracing::error!(exchange = self.ctx.id, %error, "a nudge was not written: not sent");
            }
        }
    }

    /// A leg was answered: what its usage tells of the context.
    pub(super) fn measure(&self, usage: Usage) {
        if let Some(live) = self
            .offered
            .agent
            .live
            .as_ref()
            .filter(|_| !self.offered.agent.side_call)
        {
            live.spoken.answered();
        }
        let Some(here) = self.thread else { return };
        let input = usage
            .input
            .saturating_add(usage.cache_read)
            .saturating_add(usage.cache_write);
        let answer = AnswerUsage {
            cut: self.fired.last().or(self.active_id()),
            tokens: input.saturating_add(usage.output),
            input,
        };
        let stopped = self.in_context(|context| context.measured(answer, &here.limits));
        self.note_stopped(stopped.flatten());
    }

    /// A handoff has taken effect.
    pub(super) fn note_handed_over(&self, handoff: HandoffId) {
        if let Some(live) = &self.offered.agent.live {
            live.spoken.handed_over();
        }
        let told = self.in_context(|context| (context.was_nudged(), context.handed_over(handoff)));
        let Some((nudged, stopped)) = told else { return };
        if nudged {
            self.note_nudge(NudgeOutcome::Followed);
        }
        self.note_stopped(stopped);
    }

    /// The request's thread, and whether it is a new request in it; `None` where nobody is told anything.
    fn enter_thread(&self) -> Option<(InThread, bool)> {
        let offered = &self.offered;
        let policy = &self.app.config.handoff;
        let thresholds = policy.thresholds_of(is_subagent(&self.ctx));
        let view = offered.agent.request.view();
        let facts = &view.facts;
        let in_the_loop = offered.offer.tooled
            && is_model_call(self.ctx.endpoint)
            && !offered.agent.side_call
            && !facts.structured
            // What upstream holds of a transcript is not told from here.
            && facts.previous.is_none();
        if !in_the_loop || thresholds.are_off() {
            return None;
        }
        let live = offered.agent.live.as_ref()?;
        let model = facts.model.as_deref().unwrap_or_default();
        let window = policy.windows.of(&window_query(&self.ctx, model));
        if window.is_none() && thresholds.nudge_at > 0.0 {
            note_unknown(model);
        }
        let from = self.kept_from();
        let told = offered
            .places
            .insertions
            .iter()
            .any(|placed| placed.turn >= from && nudge::is_nudge(&placed.text));
        let request = ThreadTurns {
            turns: view.turns.len(),
            digest: &|last| tail_digest(view, last),
            named: offered.agent.named,
        };
        let (thread, new) = live.context_exchange(&request, self.active_id(), told);
        let limits = thresholds.of(window);
        Some((
            InThread {
                thread,
                limits,
                window,
            },
            new,
        ))
    }

    fn decide(&self, here: &InThread) -> NudgeDecision {
        let Some(context) = self.in_context(|context| context.clone()) else {
            return NudgeDecision::Nothing;
        };
        let view = self.offered.agent.request.view();
        let step_done = || nudge::step_done(view, self.kept_from());
        context.decide(&here.limits, step_done)
    }

    /// Whether a handoff that the model has called for waits for the end of its turn.
    fn waits_for_the_end(&self) -> bool {
        let offered = &self.offered;
        let mut waiting = offered.places.pairs.iter().filter(|pair| pair.pending.is_some());
        waiting.any(|pair| offered.places.beside_calls.contains(&pair.id))
    }

    /// The first turn that the model sees.
    pub(super) fn kept_from(&self) -> usize {
        let Some(active) = &self.offered.pin.active else {
            return 0;
        };
        let behind = usize::from(active.candidate.is_some());
        active.turn().map_or(0, |turn| turn + behind)
    }

    fn active_id(&self) -> Option<HandoffId> {
        self.offered.pin.active.as_ref().map(|active: &Active| active.id)
    }

    pub(super) fn in_context<T>(&self, with: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        let here = self.thread?;
        self.offered.agent.live.as_ref()?.context(here.thread, with)
    }

    pub(super) fn note_nudge(&self, outcome: NudgeOutcome) {
        self.ctx.recorder.note(|e| e.nudges.push(outcome));
    }

    fn note_stopped(&self, stopped: Option<HandoffLoop>) {
        let Some(why) = stopped else { return };
        self.note_nudge(NudgeOutcome::Stopped(why));
        let why = why.name();
        tracing::warn!(exchange = self.ctx.id, why, "nudging stops in this task");
    }
}

/// Digest of the transcript's last turns up to this one.
fn tail_digest(view: &View, last: usize) -> u128 {
    let turns = &view.turns[(last + 1).saturating_sub(TAIL)..=last];
    let mut digests = [0; TAIL * size_of::<u128>()];
    for (turn, place) in turns.iter().zip(digests.chunks_exact_mut(size_of::<u128>())) {
        let one = digest(&without_breakpoints(view.text(turn.span)));
        place.copy_from_slice(&one.to_ne_bytes());
    }
    digest(&digests)
}

fn is_subagent(ctx: &RequestContext) -> bool {
    OF_SUBAGENTS
        .iter()
        .any(|name| headers::value(&ctx.headers, name).is_some())
}

/// What a request says of its model's window.
pub(super) fn window_query<'a>(ctx: &'a RequestContext, model: &'a str) -> WindowQuery<'a> {
    let text = |name| {
        let value = headers::value(&ctx.headers, name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    WindowQuery {
        model,
        betas: text("anthropic-beta"),
        user_agent: text("user-agent"),
        declared: text(headers::DECLARED_WINDOWS),
    }
}

/// Says once that a model's window is not known.
fn note_unknown(model: &str) {
    static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() < MOST_UNKNOWN && !told.contains(model) {
        told.insert(model.to_owned());
        drop(told);
        tracing::info!(
            model,
            "the window of this model is not known: of the thresholds only handoff.nudge_tokens holds (handoff.windows)"
        );
    }
}
