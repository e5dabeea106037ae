//! The cost of a session in each arm, an arm being a rule that decides when to cut.
//!
//! The sizes of the session's calls are run against a simulated cache, once per arm.

use std::collections::HashMap;

use serde::Serialize;

use super::cache::CacheRule;
use super::cost::TokenCounts;
use super::free_cut::{CutLedger, DraftCost, RequestCosts};
use super::free_cut::{PROMPT, READ, READ_AGAIN, READ_OUTPUT, SUMMARY};
use super::prices::Rates;
use super::session_sizes::{SeenCall, SessionCall, SessionSizes};
use super::simulation::{RequestSegment, SimulatedCache};

/// Tokens of the message that requests a draft.
const DRAFT_REQUEST: u64 = 300;

/// Tokens of the selection that a draft is based on if the history is not cached: `draft.bundle_tokens`.
const SELECTION: u64 = 8_000;

/// Maximum number of tokens after a finished draft for it to be used.
const MOST_SINCE: u64 = 6_000;

/// Default size of the history, in tokens, that triggers the notice of a full context.
const NUDGE_TOKENS: u64 = 200_000;

/// Bytes per token. Both sides of the fixed part's share use it, so its value cancels out.
const BYTES: u64 = 4;

/// When old results are removed: minimum size of the history, number of newest results kept, and minimum saving.
///
/// Values of the providers' own context editing, in tokens.
const MASK_FROM: u64 = 100_000;
const MASK_KEEPS: usize = 10;
const MASK_LEAST: u64 = 20_000;

/// Tokens of one segment of the system prompt and the tools.
const PREFIX_PART: u64 = 512;

/// Tokens of the placeholder for a removed result.
const MASKED: u64 = 20;

/// Size of the history, in tokens, below which the tool's description advises against a handoff.
const HANDOFF_FROM: u64 = 50_000;

/// Share of the recorded history size at compaction.
///
/// From that share on, the agent is assumed to compact in another arm as well.
const COMPACTS_AT: f64 = 0.8;

named! {
    /// Rule that decides when a session is cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Arm {
        /// Never; the agent compacts at its limit.
        None = "none",
        /// When the model handed over; if it never did, at the default of the notice.
        Model = "model",
        /// When a cut is free (`handoff.when_cache_cold = "on"`).
        Free = "free",
        /// When a handoff breaks even within the calls up to the next pause (`handoff.nudge_at = "break-even"`).
        Pays = "nudge=pays",
        /// When a cut is free, and when a handoff breaks even.
        FreeAndPays = "free+nudge=pays",
        /// When a task ends.
        TaskEnds = "handoff",
        /// Never; old results are removed instead.
        Mask = "mask",
    }
}

impl Arm {
    /// Whether free cuts are made.
    fn is_free(self) -> bool {
        matches!(self, Self::Free | Self::FreeAndPays)
    }

    /// Whether the tool is offered.
    fn has_tool(self) -> bool {
        !matches!(self, Self::None | Self::Mask)
    }
}

/// Cost of a session in one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ArmBill {
    /// Dollars.
    #[serde(serialize_with = "super::cost::dollars")]
    pub cost: f64,
    /// Dollars for unused drafts, included in `cost`.
    #[serde(serialize_with = "super::cost::dollars")]
    pub unused_drafts: f64,
    /// Requests of all kinds.
    pub requests: u32,
    pub cuts: Vec<ArmCut>,
    /// The agent's own compactions.
    pub compactions: u32,
    /// Dollars for the requests of compactions, included in `cost`.
    #[serde(serialize_with = "super::cost::dollars")]
    pub compacting: f64,
    /// Tokens of all requests, as billed.
    pub tokens: TokenCounts,
}

/// A cut of a simulated session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmCut {
    /// Index of the call before whose response the cut is made.
    pub call: usize,
    /// Reason for the cut.
    pub reason: String,
    /// Tokens of the history.
    pub tokens: u64,
}

impl SessionSizes {
    /// The bill of an arm; `None` if a model has no price.
    pub fn bill(&self, arm: Arm, rates: &dyn Fn(&str) -> Option<Rates>) -> Option<ArmBill> {
        let mut run = ArmRun::new(self, arm, rates)?;
        for (n, call) in self.calls.iter().enumerate() {
            run.call(n, call)?;
            // Another session has paid for the copied calls: they only fill the cache and the history.
            if n + 1 == self.copied {
                run.bill = ArmBill::default();
            }
        }
        run.pause(u64::MAX);
        run.bill.unused_drafts = run.unused;
        Some(run.bill)
    }

    /// Number of calls from this one to the next pause that outlives the cache.
    fn calls_in_stretch(&self, from: usize, lifetime_ms: u64) -> usize {
        let later = self.calls.get(from + 1..).unwrap_or_default();
        let until = later.iter().position(|call| call.pause_ms > lifetime_ms);
        until.unwrap_or(later.len())
    }

    fn has_handoffs(&self) -> bool {
        self.calls.iter().any(|call| call.handoff)
    }
}

/// State of a session's simulation in one arm.
struct ArmRun<'a> {
    session: &'a SessionSizes,
    arm: Arm,
    rates_of: &'a dyn Fn(&str) -> Option<Rates>,
    /// Billing of the next request.
    costs: RequestCosts,
    /// Caches by model.
    caches: HashMap<String, SimulatedCache>,
    history: Vec<RequestSegment>,
    /// Number of leading segments that are the system prompt and the tools.
    fixed: usize,
    /// Indexes of the history's segments that are results.
    results: Vec<usize>,
    ids: u64,
    ledger: CutLedger,
    /// Number of segments that the finished draft covers.
    ready: Option<usize>,
    /// Dollars of drafts that have not been used so far.
    unused: f64,
    bill: ArmBill,
}

impl<'a> ArmRun<'a> {
    fn new(session: &'a SessionSizes, arm: Arm, rates_of: &'a dyn Fn(&str) -> Option<Rates>) -> Option<Self> {
        let mut run = Self {
            session,
            arm,
            rates_of,
            costs: RequestCosts {
                rates: rates_of(&session.model)?,
                model: session.model.clone(),
                effort: String::new(),
                at_ms: 0,
                fixed_bytes: session.prefix * BYTES,
                limit: session.limit,
                lifetime_ms: session.caching.lifetime_ms,
            },
            caches: HashMap::new(),
            history: Vec::new(),
            fixed: 0,
            results: Vec::new(),
            ids: 0,
            ledger: CutLedger::default(),
            ready: None,
            unused: 0.0,
            bill: ArmBill::default(),
        };
        let tool = if arm.has_tool() { session.tool } else { 0 };
        // In segments, so that a change of the tools leaves the segments before it in the cache.
        let whole = session.prefix + tool;
        for from in (0..whole).step_by(PREFIX_PART as usize) {
            run.push(PREFIX_PART.min(whole - from));
        }
        run.fixed = run.history.len();
        Some(run)
    }

    fn call(&mut self, n: usize, call: &SessionCall) -> Option<()> {
        let ended = self.end_task(n, &call.seen);
        self.pause(call.pause_ms);
        if let Some(model) = &call.model {
            self.costs.model.clone_from(model);
            self.costs.rates = (self.rates_of)(model)?;
        }
        if let Some(kept) = call.seen.kept {
            self.lose_cache(kept);
        }
        self.cut_for_free(n);
        let is_full = self.tokens() + call.new > self.session.limit.unwrap_or(u64::MAX);
        match call.seen.compaction {
            Some((from, to)) if self.tokens() as f64 >= from as f64 * COMPACTS_AT => {
                self.recorded_compaction(to)
            }
            _ => {
                if is_full {
                    self.compact(n);
                }
                self.take_out(call.seen.dropped);
                self.push(call.new.saturating_sub(call.seen.results));
                if call.seen.results > 0 {
                    self.results.push(self.history.len());
                    self.push(call.seen.results.min(call.new));
                }
            }
        }
        self.mask(n);
        if ended {
            self.read_again(n);
        }
        if let Some(reason) = self.handoff_due(n, call) {
            self.hand_over(n, reason);
        }
        self.send(call.output);
        Some(())
    }

    /// Makes all segments after these tokens unknown to the cache, because the request changed there.
    fn lose_cache(&mut self, kept: u64) {
        let mut end = 0;
        for at in 0..self.history.len() {
            let tokens = self.history[at].tokens;
            end += tokens;
            if end > kept {
                self.history[at] = self.segment(tokens);
            }
        }
    }

    /// Hands over in the last response of a task that ends here, if the history is large enough. Returns whether it
    /// did.
    fn end_task(&mut self, n: usize, seen: &SeenCall) -> bool {
        let is_due = self.arm == Arm::TaskEnds && self.tokens() >= HANDOFF_FROM;
        let end = seen.task_end.filter(|_| is_due);
        if let Some(end) = end {
            self.send(PROMPT);
            self.cut(n, end.name().to_owned(), PROMPT);
        }
        end.is_some()
    }

    /// Removes the newest tokens from the history, but never its beginning.
    fn take_out(&mut self, mut tokens: u64) {
        let begins = self.fixed + usize::from(!self.bill.cuts.is_empty());
        while tokens > 0 && self.history.len() > begins {
            let last = self.history.pop().map_or(0, |segment| segment.tokens);
            if last > tokens {
                self.push(last - tokens);
            }
            tokens = tokens.saturating_sub(last);
        }
        self.results.retain(|at| *at < self.history.len());
    }

    /// Removes old results, if that is worth losing the cache after them.
    fn mask(&mut self, n: usize) {
        if self.arm != Arm::Mask || self.tokens() < MASK_FROM || self.results.len() <= MASK_KEEPS {
            return;
        }
        let newest = self.results.split_off(self.results.len() - MASK_KEEPS);
        let old = std::mem::replace(&mut self.results, newest);
        let tokens: u64 = old.iter().map(|at| self.history[*at].tokens).sum();
        if tokens < MASK_LEAST + MASKED * old.len() as u64 {
            self.results.splice(..0, old);
            return;
        }
        let before = self.tokens();
        for at in old {
            self.history[at] = self.segment(MASKED);
        }
        let reason = format!("{tokens} tokens of results left out");
        self.bill.cuts.push(ArmCut {
            call: n,
            reason,
            tokens: before,
        });
        // Only a part of the history is gone, so only that share is read again.
        let again = self.read_again_at(n) as f64 * tokens as f64 / before.max(1) as f64;
        self.read_tokens(again as u64);
    }

    /// Simulates a pause; a draft may be written during it.
    fn pause(&mut self, pause_ms: u64) {
        let until = self.costs.at_ms.saturating_add(pause_ms);
        let due = self.ledger.draft_due(&self.costs);
        let due = due.filter(|due| self.arm.is_free() && self.ready.is_none() && *due < until);
        if let Some(begun) = due {
            let cost = self.draft(begun);
            self.ledger.draft_paid(cost, begun);
            self.unused += cost;
            self.ready = Some(self.history.len());
        }
        self.costs.at_ms = until;
    }

    fn cut_for_free(&mut self, n: usize) {
        if !self.arm.is_free() {
            return;
        }
        let since = |from: usize| self.history[from..].iter().map(|s| s.tokens).sum::<u64>();
        let since = self.ready.map(since).filter(|since| *since <= MOST_SINCE);
        let how = match since {
            Some(_) => DraftCost::Nothing,
            None => DraftCost::Cheapest(SELECTION),
        };
        let Some(cut) = self.ledger.moment(&self.costs, how) else {
            return;
        };
        match cut.draft {
            DraftCost::Selection(tokens) => {
                let counts = TokenCounts {
                    input: tokens,
                    output: PROMPT,
                    ..TokenCounts::default()
                };
                self.paid(counts);
            }
            DraftCost::Nothing => self.unused = 0.0,
            DraftCost::History | DraftCost::Cheapest(_) => {
                self.draft(self.costs.at_ms);
            }
        }
        self.ledger.cut(&cut);
        self.cut(n, cut.reason.text(), PROMPT + since.unwrap_or_default());
        self.read_again(n);
    }

    /// The reason for the model to hand over in this call, if any.
    fn handoff_due(&self, n: usize, call: &SessionCall) -> Option<String> {
        match self.arm {
            Arm::None | Arm::Free | Arm::TaskEnds | Arm::Mask => None,
            Arm::Model if self.session.has_handoffs() => {
                call.handoff.then(|| "the model handed over".to_owned())
            }
            Arm::Model => {
                let half = self.session.limit.map_or(u64::MAX, |limit| limit / 2);
                let from = half.min(NUDGE_TOKENS);
                (self.tokens() >= from).then(|| format!("the notice at {from} tokens"))
            }
            Arm::Pays | Arm::FreeAndPays => {
                let left = self.session.calls_in_stretch(n, self.rule().lifetime_ms);
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                let calls = self.ledger.pays(&self.costs.rates, left)?;
                Some(format!("pays after {calls} of {left} calls"))
            }
        }
    }

    /// Simulates a handoff: a leg that reads the history and writes the prompt, and a fresh one.
    fn hand_over(&mut self, n: usize, reason: String) {
        self.send(PROMPT);
        self.cut(n, reason, PROMPT);
        self.read_again(n);
    }

    fn cut(&mut self, call: usize, reason: String, carried: u64) {
        let tokens = self.tokens();
        self.bill.cuts.push(ArmCut { call, reason, tokens });
        self.begin_with(carried);
    }

    /// Sends the history with the request for a draft, and returns the cost.
    fn draft(&mut self, at_ms: u64) -> f64 {
        let mut request = self.history.clone();
        request.push(self.segment(DRAFT_REQUEST));
        let counts = self.cache().send(at_ms, &request, PROMPT);
        self.paid(counts)
    }

    fn compact(&mut self, n: usize) {
        self.summarize();
        self.begin_with(SUMMARY);
        self.read_again(n);
    }

    /// Applies a recorded compaction. The later calls already include whatever the agent read again.
    fn recorded_compaction(&mut self, after: u64) {
        self.summarize();
        self.begin_with(after);
    }

    fn summarize(&mut self) {
        let (at_ms, history) = (self.costs.at_ms, self.history.clone());
        let counts = self.cache().send(at_ms, &history, SUMMARY);
        self.bill.compacting += self.paid(counts);
        self.bill.compactions += 1;
    }

    fn begin_with(&mut self, carried: u64) {
        self.history.truncate(self.fixed);
        self.results.clear();
        self.push(carried);
        self.ledger.handed_over();
        self.ready = None;
    }

    /// Simulates calls that read cut content again.
    ///
    /// The recording shows how much. Otherwise the same amount is assumed after a handoff and after a compaction.
    fn read_again(&mut self, n: usize) {
        self.read_tokens(self.read_again_at(n));
    }

    fn read_again_at(&self, n: usize) -> u64 {
        let call = self.session.calls.get(n);
        call.and_then(|call| call.seen.read_again).unwrap_or(READ_AGAIN)
    }

    fn read_tokens(&mut self, tokens: u64) {
        if tokens > 0 {
            self.send(READ_OUTPUT);
        }
        for at in (0..tokens).step_by(READ as usize) {
            self.push(READ.min(tokens - at));
            self.send(READ_OUTPUT);
        }
    }

    fn send(&mut self, output: u64) {
        let (at_ms, history) = (self.costs.at_ms, self.history.clone());
        let counts = self.cache().send(at_ms, &history, output);
        self.paid(counts);
        let bytes = counts.whole_input() * BYTES;
        self.ledger.answered(&self.costs, counts, None, bytes);
    }

    fn paid(&mut self, counts: TokenCounts) -> f64 {
        let counts = match self.session.caching.long {
            true => counts.splitting_long(counts.cache_write),
            false => counts,
        };
        let cost = counts.cost(&self.costs.rates).total();
        self.bill.cost += cost;
        self.bill.tokens += counts;
        self.bill.requests += 1;
        cost
    }

    fn cache(&mut self) -> &mut SimulatedCache {
        let (rule, is_billed) = (self.rule(), self.costs.rates.write_is_billed);
        let new = || SimulatedCache::new(rule, is_billed);
        self.caches.entry(self.costs.model.clone()).or_insert_with(new)
    }

    fn rule(&self) -> CacheRule {
        let caching = self.session.caching;
        let mut rule = CacheRule::for_model(&self.costs.model, caching.long);
        rule.lifetime_ms = caching.lifetime_ms.unwrap_or(rule.lifetime_ms);
        if caching.none {
            rule.least_tokens = u64::MAX;
        }
        rule
    }

    fn tokens(&self) -> u64 {
        self.history.iter().map(|segment| segment.tokens).sum()
    }

    fn push(&mut self, tokens: u64) {
        let segment = self.segment(tokens);
        self.history.push(segment);
    }

    fn segment(&mut self, tokens: u64) -> RequestSegment {
        self.ids += 1;
        RequestSegment { id: self.ids, tokens }
    }
}
