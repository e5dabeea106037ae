//! The cost of a session in each arm, an arm being a rule that decides when to cut.
//!
//! The sizes of the session's calls are run against a simulated cache, once per arm.

mod sizes;

use std::collections::HashMap;

use baton_core::bill::{
    CacheRule, CutLedger, DraftCost, PROMPT, READ, READ_AGAIN, READ_OUTPUT, Rates, RequestCosts,
    RequestSegment, SUMMARY, SimulatedCache, TokenCounts,
};

use sizes::SessionCall;
pub(crate) use sizes::SessionSizes;

/// Tokens of the message that requests a draft.
const DRAFT_REQUEST: u64 = 300;

/// Tokens of the selection that a draft is based on if the history is not cached: `draft.bundle_tokens`.
const SELECTION: u64 = 8_000;

/// Default size of the history at which the notice of a full context appears.
const NUDGE_TOKENS: u64 = 200_000;

/// Bytes per token. Both sides of the fixed part's share use it, so its value cancels out.
const BYTES: u64 = 4;

/// Tokens of one segment of the system prompt and the tools.
const PREFIX_PART: u64 = 512;

baton_core::named! {
    /// Rule that decides when a session is cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub(crate) enum Arm {
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
    }
}

impl Arm {
    /// Whether free cuts are made.
    fn is_free(self) -> bool {
        matches!(self, Self::Free | Self::FreeAndPays)
    }
}

/// Cost of a session in one arm.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArmBill {
    /// Dollars.
    pub(crate) cost: f64,
    /// Requests of all kinds.
    pub(crate) requests: u32,
    pub(crate) cuts: Vec<ArmCut>,
    /// The agent's own compactions.
    pub(crate) compactions: u32,
    /// Tokens of all requests, as billed.
    pub(crate) tokens: TokenCounts,
}

/// A cut of a simulated session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArmCut {
    /// Index of the call before whose response the cut is made.
    pub(crate) call: usize,
    /// Reason for the cut.
    pub(crate) reason: String,
    /// Tokens of the history.
    pub(crate) tokens: u64,
}

impl SessionSizes {
    /// The bill of an arm; `None` if a model has no price.
    pub(crate) fn bill(&self, arm: Arm, rates: &dyn Fn(&str) -> Option<Rates>) -> Option<ArmBill> {
        let mut run = ArmRun::new(self, arm, rates)?;
        for (n, call) in self.calls.iter().enumerate() {
            run.call(n, call)?;
        }
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
    ids: u64,
    ledger: CutLedger,
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
                lifetime_ms: None,
            },
            caches: HashMap::new(),
            history: Vec::new(),
            fixed: 0,
            ids: 0,
            ledger: CutLedger::default(),
            bill: ArmBill::default(),
        };
        // In segments, so that a change of the tools leaves the segments before it in the cache.
        let whole = session.prefix;
        for from in (0..whole).step_by(PREFIX_PART as usize) {
            run.push(PREFIX_PART.min(whole - from));
        }
        run.fixed = run.history.len();
        Some(run)
    }

    fn call(&mut self, n: usize, call: &SessionCall) -> Option<()> {
        self.costs.at_ms = self.costs.at_ms.saturating_add(call.pause_ms);
        if let Some(model) = &call.model {
            self.costs.model.clone_from(model);
            self.costs.rates = (self.rates_of)(model)?;
        }
        self.cut_for_free(n);
        let is_full = self.tokens() + call.new > self.session.limit.unwrap_or(u64::MAX);
        if is_full {
            self.compact();
        }
        self.push(call.new);
        if let Some(reason) = self.handoff_due(n, call) {
            self.hand_over(n, reason);
        }
        self.send(call.output);
        Some(())
    }

    fn cut_for_free(&mut self, n: usize) {
        if !self.arm.is_free() {
            return;
        }
        let Some(cut) = self.ledger.moment(&self.costs, DraftCost::Cheapest(SELECTION)) else {
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
            _ => self.draft(),
        }
        self.ledger.cut(&cut);
        self.cut(n, cut.reason.text(), PROMPT);
        self.read_again();
    }

    /// The reason for the model to hand over in this call, if any.
    fn handoff_due(&self, n: usize, call: &SessionCall) -> Option<String> {
        match self.arm {
            Arm::None | Arm::Free => None,
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
        self.read_again();
    }

    fn cut(&mut self, call: usize, reason: String, carried: u64) {
        let tokens = self.tokens();
        self.bill.cuts.push(ArmCut { call, reason, tokens });
        self.begin_with(carried);
    }

    /// Sends the history with the request for a draft.
    fn draft(&mut self) {
        let (at_ms, mut request) = (self.costs.at_ms, self.history.clone());
        request.push(self.segment(DRAFT_REQUEST));
        let counts = self.cache().send(at_ms, &request, PROMPT);
        self.paid(counts);
    }

    fn compact(&mut self) {
        self.summarize();
        self.begin_with(SUMMARY);
        self.read_again();
    }

    fn summarize(&mut self) {
        let (at_ms, history) = (self.costs.at_ms, self.history.clone());
        let counts = self.cache().send(at_ms, &history, SUMMARY);
        self.paid(counts);
        self.bill.compactions += 1;
    }

    fn begin_with(&mut self, carried: u64) {
        self.history.truncate(self.fixed);
        self.push(carried);
        self.ledger.handed_over();
    }

    /// Simulates calls that read cut content again: the same amount after a handoff and after a compaction.
    fn read_again(&mut self) {
        self.send(READ_OUTPUT);
        for _ in 0..READ_AGAIN / READ {
            self.push(READ);
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

    fn paid(&mut self, counts: TokenCounts) {
        self.bill.cost += counts.cost(&self.costs.rates).total();
        self.bill.tokens += counts;
        self.bill.requests += 1;
    }

    fn cache(&mut self) -> &mut SimulatedCache {
        let (rule, is_billed) = (self.rule(), self.costs.rates.write_is_billed);
        let new = || SimulatedCache::new(rule, is_billed);
        self.caches.entry(self.costs.model.clone()).or_insert_with(new)
    }

    fn rule(&self) -> CacheRule {
        CacheRule::for_model(&self.costs.model, false)
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
