//! Replays a recorded session under a policy: the requests that would have been sent, and their bill.
//!
//! The record has the size of each call, and the number of tokens that the provider's cache served. A policy only moves the history, and the
//! cached tokens move with it by position. So a cache that was lost in the session is lost under every policy, and without a cut the bill is
//! the recorded one. No decision of a policy depends on a later call.

use std::collections::VecDeque;

use serde::Serialize;

use super::policies::Policy;
use super::sizes::{ReplayCall, ReplaySession, TOKEN_BYTES};
use crate::bill::{CutLedger, DraftCost, PROMPT, READ, READ_OUTPUT, Rates, RequestCosts, TokenCounts};
use crate::nudge::{ContextUse, ModelThresholds, NudgeDecision, StepsLeft};
use crate::record::HandoffId;
use crate::wire::Usage;

/// Size of the history, in tokens, below which the tool's description advises against a handoff.
const MIN_HANDOFF_TOKENS: u64 = 50_000;

/// Share of the compacted history that another policy must reach for the agent to compact as well.
const COMPACTS_AT: f64 = 0.8;

/// Tokens of a draft's source if the history is not cached: `draft.bundle_tokens`.
const SELECTION_TOKENS: u64 = 8_000;

/// Tokens of the message that requests a draft.
const DRAFT_REQUEST_TOKENS: u64 = 300;

/// Minimum history for masking old results. This and the next values are those of the providers' own context editing.
const MASK_FROM_TOKENS: u64 = 100_000;
/// Number of newest results that are not masked.
const MASK_KEEPS: usize = 10;
/// Minimum saving of a masking, because the saving must make up for the lost cache.
const MIN_MASKED_TOKENS: u64 = 20_000;
/// Size of the placeholder for a masked result.
const MASK_TOKENS: u64 = 20;

/// The bill of a session under a policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReplayBill {
    /// Dollars.
    #[serde(skip)]
    pub cost: f64,
    /// Dollars by the session's models.
    #[serde(skip)]
    pub by_model: Vec<f64>,
    /// Requests of all kinds.
    pub requests: u32,
    pub cuts: Vec<ReplayCut>,
    /// The agent's own compactions.
    pub compactions: u32,
    /// Billed tokens of all requests.
    pub tokens: TokenCounts,
}

impl ReplayBill {
    fn empty(session: &ReplaySession<'_>) -> Self {
        Self {
            by_model: vec![0.0; session.names.len()],
            ..Self::default()
        }
    }
}

/// A cut of a replayed session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayCut {
    /// Index of the call that the cut precedes.
    pub call: usize,
    /// Reason for the cut.
    pub reason: String,
    /// Tokens of the history.
    pub tokens: u64,
}

/// State of a session's replay.
#[derive(Clone)]
pub(super) struct Replay<'a> {
    session: &'a ReplaySession<'a>,
    policy: &'a Policy,
    /// Whether the model follows notices, and hands over at task ends.
    follows: bool,
    /// Factor on the amount that is read again after a cut, relative to the recording.
    reading: u64,
    /// Tokens of the tool in each request.
    tool: u64,
    /// Tokens of the last request's history in the replay.
    history: u64,
    /// Tokens of the last request's history in the record.
    recorded: u64,
    /// Tokens of the history that are cached.
    cached: u64,
    /// Tokens of cut content that are still to be read again.
    unread: u64,
    /// Positions of results in the history, and their tokens.
    results: VecDeque<(u64, u64)>,
    context: ContextUse,
    cut: Option<HandoffId>,
    /// Calls since the last cut.
    since_cut: u32,
    ledger: CutLedger,
    costs: Option<RequestCosts>,
    pub(super) bill: ReplayBill,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        session: &'a ReplaySession<'a>,
        policy: &'a Policy,
        follows: bool,
        reading: u64,
    ) -> Self {
        let tool = if policy.has_tool { session.tool } else { 0 };
        Self {
            session,
            policy,
            follows,
            reading,
            tool,
            history: tool,
            recorded: 0,
            // The first request has no earlier one to limit its cached tokens, so the recorded ones apply.
            cached: u64::MAX,
            unread: 0,
            results: VecDeque::new(),
            context: ContextUse::default(),
            cut: None,
            since_cut: 0,
            ledger: CutLedger::default(),
            costs: None,
            bill: ReplayBill::empty(session),
        }
    }

    /// The bill of the whole session.
    pub(super) fn run(
        session: &'a ReplaySession<'a>,
        policy: &'a Policy,
        follows: bool,
        reading: u64,
    ) -> ReplayBill {
        let mut replay = Self::new(session, policy, follows, reading);
        for n in 0..session.calls.len() {
            let is_moment = policy.is_forced && session.calls[n].recorded.handoff;
            replay.call(n, is_moment.then_some("a moment of the shadow"));
        }
        // The session may end with a finished list.
        replay.end_task(session.calls.len());
        replay.bill
    }

    /// Sends a call. `forced` is the reason of a handoff that the policy does not decide.
    pub(super) fn call(&mut self, n: usize, forced: Option<&str>) {
        let call = &self.session.calls[n];
        self.end_task(n);
        self.cut_for_free(n);
        let read = self.grow(n);
        let read = self.mask(n, read);
        if call.recorded.rounds.total() > 0 {
            self.pay_at(call, call.recorded.rounds);
        }
        let due = forced.map(str::to_owned).or_else(|| self.handoff_due(n));
        match due {
            Some(reason) => {
                // The response that hands over is billed over the whole old history.
                self.send(n, read, PROMPT);
                self.cut(n, reason);
                self.send(n, self.cached, call.recorded.counts.output);
            }
            None => self.send(n, read, call.recorded.counts.output),
        }
        self.read_again(n);
        self.recorded = call.whole();
        // Another session paid for the copied calls. Only their history is kept.
        if n + 1 == self.session.copied {
            self.bill = ReplayBill::empty(self.session);
        }
    }

    /// Grows the history by a call, or replaces it by the agent's compaction. Returns the number of cached tokens.
    fn grow(&mut self, n: usize) -> u64 {
        let call = &self.session.calls[n];
        let Some(compaction) = &call.compaction else {
            let read = self.cache_gives(call);
            // A rewind does not reach beyond a cut.
            let least = if self.cut.is_some() {
                self.fixed() + PROMPT
            } else {
                self.fixed()
            };
            let left = self.history.saturating_sub(call.dropped);
            self.history = left.max(least.min(self.history)) + call.new;
            if call.results > 0 {
                self.results
                    .push_back((self.history - call.results.min(call.new), call.results));
            }
            return read;
        };
        // The cut history is too short for the agent to compact, so it only grows.
        if (self.history as f64) < compaction.from as f64 * COMPACTS_AT {
            let read = if call.is_cold {
                self.session.shared + self.tool
            } else {
                self.history
            };
            self.history += call.new;
            return read.min(self.cached);
        }
        self.bill.compactions += 1;
        if let Some((model, counts, cost)) = compaction.request {
            self.pay(model, counts, cost);
        }
        self.history = call.whole() + self.tool;
        self.results.clear();
        self.ledger.handed_over();
        match call.recorded.counts.cache_read {
            0 => 0,
            read => read + self.tool,
        }
    }

    /// Number of cached tokens of a call: those recorded, by their position in this history.
    fn cache_gives(&self, call: &ReplayCall<'_>) -> u64 {
        let (read, prefix) = (call.recorded.counts.cache_read, self.session.prefix);
        // The cache may serve more than the previous call sent: some providers cache their output, and the record may
        // lack requests in between.
        let more = match self.cached >= self.history {
            true => read.saturating_sub(self.recorded),
            false => 0,
        };
        let moved = match read {
            0 => 0,
            _ if read <= prefix => read + self.tool,
            _ => {
                let moved = (read + self.history).saturating_sub(self.recorded);
                moved.max(prefix + self.tool)
            }
        };
        moved.min(self.cached.saturating_add(more))
    }

    /// Tokens of the system prompt, the tools and the preamble.
    fn fixed(&self) -> u64 {
        self.session.prefix + self.tool
    }

    /// Lets the model hand over at the end of a turn that finished its to-do list.
    ///
    /// That takes another request, and a leg that ends the turn.
    fn end_task(&mut self, n: usize) {
        let is_due = self.session.ends_task(n) && self.history >= MIN_HANDOFF_TOKENS;
        if !is_due || !self.follows || !self.policy.decides() {
            return;
        }
        let last = n.saturating_sub(1);
        self.send(last, self.cached.min(self.history), PROMPT);
        self.cut(n, "its to-do list was finished".to_owned());
        self.send(last, self.cached, READ_OUTPUT);
    }

    /// Reason for a handoff in the next response, if any.
    fn handoff_due(&mut self, n: usize) -> Option<String> {
        let call = &self.session.calls[n];
        if !self.policy.decides() {
            return None;
        }
        self.context.exchange(self.cut, false);
        self.since_cut += 1;
        let limits = self.limits(call);
        let decision = self.context.decide(&limits, || call.recorded.step_done);
        let reason = match decision {
            NudgeDecision::HandOff(tokens) => return Some(format!("the context had {tokens} tokens")),
            NudgeDecision::Nudge(tokens) => Some(format!("the notice at {tokens} tokens")),
            NudgeDecision::Nothing => self.paying_notice(call),
        };
        if reason.is_some() {
            self.context.nudged();
        }
        let plan = (call.recorded.plan && self.history >= MIN_HANDOFF_TOKENS)
            .then(|| "a plan was accepted".to_owned());
        reason.or(plan).filter(|_| self.follows)
    }

    fn limits(&self, call: &ReplayCall<'_>) -> ModelThresholds {
        self.policy
            .thresholds
            .of(self.session.windows[usize::from(call.recorded.model)])
    }

    /// The notice that a handoff pays off within the calls that the rest of the to-do list needs.
    fn paying_notice(&self, call: &ReplayCall<'_>) -> Option<String> {
        self.context
            .may_notify()
            .filter(|_| self.policy.thresholds.nudge_pays && call.recorded.step_done)?;
        let (done, open) = call.recorded.steps?;
        let steps = StepsLeft {
            done,
            open,
            calls: self.since_cut,
        };
        let calls = self.ledger.pays(self.rates(call), steps.calls_left())?;
        let left = steps.calls_left();
        Some(format!("the notice that it pays after {calls} of {left} calls"))
    }

    fn cut_for_free(&mut self, n: usize) {
        let call = &self.session.calls[n];
        if self.policy.needs_ledger() {
            let rates = self.rates(call).clone();
            self.costs = Some(RequestCosts {
                rates,
                model: self.session.names[usize::from(call.recorded.model)].clone(),
                effort: String::new(),
                at_ms: call.recorded.at_ms,
                fixed_bytes: self.fixed() * TOKEN_BYTES,
                limit: None,
                lifetime_ms: None,
            });
        }
        let Some(costs) = self.costs.as_ref().filter(|_| self.policy.is_free) else {
            return;
        };
        let Some(cut) = self.ledger.moment(costs, DraftCost::Cheapest(SELECTION_TOKENS)) else {
            return;
        };
        let counts = match cut.draft {
            DraftCost::Selection(input) => TokenCounts {
                input,
                output: PROMPT,
                ..TokenCounts::default()
            },
            // The history with the request for a draft.
            _ => {
                let cached = self.cache_gives(call).min(self.history);
                call.billed(self.history + DRAFT_REQUEST_TOKENS, cached, PROMPT)
            }
        };
        self.pay_at(call, counts);
        // Recorded before the cut, whose handoff drops the history of the ledger.
        self.ledger.cut(&cut);
        self.cut(n, cut.reason.text());
    }

    fn cut(&mut self, n: usize, reason: String) {
        self.bill.cuts.push(ReplayCut {
            call: n,
            reason,
            tokens: self.history,
        });
        self.history = self.fixed() + PROMPT;
        self.cached = (self.session.shared + self.tool).min(self.fixed());
        self.unread = self.session.read_again(n) * self.reading;
        self.results.clear();
        self.ledger.handed_over();
        self.since_cut = 0;
        // Only equality matters: a new id resets the notices, as a real handoff does.
        let id = HandoffId::from_u128(self.bill.cuts.len() as u128);
        self.cut = Some(id);
        self.context.handed_over(id);
    }

    /// Sends requests that read cut content again.
    fn read_again(&mut self, n: usize) {
        let mut left = std::mem::take(&mut self.unread);
        while left > 0 {
            let part = left.min(READ);
            left -= part;
            let before = self.history;
            self.history += part;
            self.send(n, before, READ_OUTPUT);
        }
    }

    /// Masks old results if that makes up for the lost cache. Returns the number of cached tokens.
    fn mask(&mut self, n: usize, read: u64) -> u64 {
        if !self.policy.masks || self.history < MASK_FROM_TOKENS || self.results.len() <= MASK_KEEPS {
            return read;
        }
        let old = self.results.len() - MASK_KEEPS;
        let tokens: u64 = self.results.iter().take(old).map(|(_, tokens)| tokens).sum();
        let gone = tokens.saturating_sub(MASK_TOKENS * old as u64);
        let Some(first) = self.results.front().filter(|_| gone >= MIN_MASKED_TOKENS) else {
            return read;
        };
        // The cache serves only the part before the first masked result.
        let kept = first.0.min(read);
        let before = self.history;
        self.history -= gone;
        self.results.drain(..old);
        let results = self.results.iter_mut();
        results.for_each(|(at, _)| *at = at.saturating_sub(gone));
        // Only a part of the history is gone, so only that share is read again.
        self.unread = self.session.read_again(n) * self.reading * tokens / before.max(1);
        self.bill.cuts.push(ReplayCut {
            call: n,
            reason: format!("{tokens} tokens of results left out"),
            tokens: before,
        });
        kept
    }

    /// Sends the history. `read` is the number of cached tokens.
    fn send(&mut self, n: usize, read: u64, output: u64) {
        let call = &self.session.calls[n];
        let counts = call.billed(self.history, read.min(self.history), output);
        self.pay_at(call, counts);
        self.cached = self.history;
        if let Some(costs) = &self.costs {
            let bytes = counts.whole_input() * TOKEN_BYTES;
            self.ledger.answered(costs, counts, None, bytes);
        }
        if self.policy.decides() {
            let usage = Usage {
                input: counts.whole_input(),
                output,
                ..Usage::default()
            };
            let limits = self.limits(call);
            self.context.measured(self.cut, usage, &limits);
        }
    }

    /// Pays for a request by the model and at the rates of a call.
    fn pay_at(&mut self, call: &ReplayCall<'_>, counts: TokenCounts) {
        let cost = counts.cost(self.rates(call)).total();
        self.pay(call.recorded.model, counts, cost);
    }

    fn pay(&mut self, model: u16, counts: TokenCounts, cost: f64) {
        self.bill.cost += cost;
        self.bill.by_model[usize::from(model)] += cost;
        self.bill.tokens += counts;
        self.bill.requests += 1;
    }

    fn rates(&self, call: &ReplayCall<'_>) -> &'a Rates {
        &self.session.rates[usize::from(call.rates)]
    }
}
