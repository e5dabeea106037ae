//! Decides when a cut costs nothing: from what a branch was billed, the provider's cache rules, and its prices.

mod worlds;

#[cfg(test)]
mod tests;

use super::cache::CacheRule;
use super::cache_miss::CacheMiss;
use super::cost::TokenCounts;
use super::prices::Rates;
use crate::record::CachedHistory;
use crate::text::words::plural;

use self::worlds::CutComparison;
pub(crate) use self::worlds::{PROMPT, READ, READ_AGAIN, READ_OUTPUT, SUMMARY};

/// Share of what a conversation has cost and saved that bets may cost: drafts that were never used, and cuts that did
/// not pay within one more call.
const BETS: f64 = 0.01;

/// Most calls that are expected after a cut.
const MOST_CALLS: u32 = 40;

/// Calls after which a cut that has not paid is given up.
const GIVEN_UP: u32 = 200;

/// Tokens that a call adds, where no call has shown it.
const STEP: u64 = 1_500;

/// Time for a draft before the cache goes cold: at most, in milliseconds, and as a share of the lifetime.
const MARGIN_MS: u64 = 45_000;
const MARGIN_SHARE: u64 = 5;

/// What one branch of a conversation has cost, and how it continues: fed by each answered request, examined before each new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CutLedger {
    last: Option<CachedHistory>,
    /// Answered requests.
    calls: u32,
    /// Whether a cache served any of them; `false` for a provider that has none.
    cached: bool,
    /// How often its cache was lost, and it continued: by the provider's diagnosis, or in pauses that outlived the cache.
    losses: u32,
    /// Tokens that calls added, and how many of them were compared.
    grown: u64,
    grown_calls: u32,
    /// Dollars: of all requests, won by free cuts, and lost by bets.
    spent: f64,
    won: f64,
    bets: f64,
}

/// What a request is billed by: one that is about to be sent, or was answered.
#[derive(Debug, Clone)]
pub struct RequestCosts {
    /// Of the model that it asks.
    pub rates: Rates,
    pub model: String,
    /// Its effort, as the request states it.
    pub effort: String,
    /// The start of the request, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Bytes of the system prompt and the tools.
    pub fixed_bytes: u64,
    /// Tokens at which the window, or the agent's own compaction, ends the history.
    pub limit: Option<u64>,
    /// How long the provider's cache lives, where it is not as its rules say.
    pub lifetime_ms: Option<u64>,
}

/// What the draft of a handoff costs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftCost {
    /// Nothing: it is written, or is made without a model.
    Nothing,
    /// A request over the whole history.
    History,
    /// A request over a selection of this many tokens.
    Selection(u64),
    /// One over the whole history where that is in the cache, else over a selection of this many tokens.
    Cheapest(u64),
}

impl DraftCost {
    /// How it is made with a cache that is cold or warm.
    fn resolved(self, cold: bool) -> Self {
        match self {
            Self::Cheapest(selection) if cold => Self::Selection(selection),
            Self::Cheapest(_) => Self::History,
            other => other,
        }
    }
}

/// A cut that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FreeCut {
    /// Why it does not.
    pub reason: FreeCutReason,
    /// Tokens of the history.
    pub tokens: u64,
    /// How its draft is made.
    pub draft: DraftCost,
    /// Dollars that it is expected to save.
    pub saved: f64,
    /// Dollars that it saves where only one more call follows: negative where it costs.
    pub least: f64,
}

impl CutLedger {
    /// What another process knew of the last request.
    pub fn resumed(last: &CachedHistory) -> Self {
        Self {
            last: Some(last.clone()),
            cached: true,
            ..Self::default()
        }
    }

    /// The history as the provider has it; `None` before the first answer, and after a cut until the next one.
    pub fn history(&self) -> Option<CachedHistory> {
        self.last.clone()
    }

    /// Adds a request of this many bytes that was answered. `counts`: what was billed; `cache_miss`: why the provider's cache did
    /// not serve it, where the answer says so.
    pub fn answered(
        &mut self,
        costs: &RequestCosts,
        counts: TokenCounts,
        cache_miss: Option<CacheMiss>,
        bytes: u64,
    ) {
        let input = counts.whole_input();
        if input == 0 {
            return;
        }
        let long = match (counts.cache_write_long, counts.cache_write) {
            (0, 0) => self.last.as_ref().is_some_and(|last| last.long),
            (long, short) => long > short,
        };
        let tokens = counts.total();
        if let Some(last) = &self.last {
            if tokens > last.tokens {
                self.grown = self.grown.saturating_add(tokens - last.tokens);
                self.grown_calls = self.grown_calls.saturating_add(1);
            }
            let lifetime = CacheRule::for_model(&last.model, last.long).lifetime_ms;
            let is_cold = cache_miss.is_some_and(|miss| miss.is_cold(counts));
            self.losses += u32::from(is_cold || costs.at_ms.saturating_sub(last.at_ms) > lifetime);
        }
        self.calls = self.calls.saturating_add(1);
        self.cached |= counts.cache_read > 0;
        self.spent += counts.cost(&costs.rates).total();
        let share = costs.fixed_bytes.min(bytes) as f64 / bytes.max(1) as f64;
        self.last = Some(CachedHistory {
            at_ms: costs.at_ms,
            model: costs.model.clone(),
            effort: costs.effort.clone(),
            tokens,
            fixed: (input as f64 * share) as u64,
            long,
        });
    }

    /// Adds a draft that was written ahead at this time: a bet, which also keeps the cache warm.
    pub fn draft_paid(&mut self, cost: f64, at_ms: u64) {
        self.bets += cost;
        if let Some(last) = &mut self.last {
            last.at_ms = last.at_ms.max(at_ms);
        }
    }

    /// A free cut is made.
    pub fn cut(&mut self, cut: &FreeCut) {
        self.won += cut.least.max(0.0);
        self.bets += (-cut.least).max(0.0);
    }

    /// A handoff fired: the history starts again with the next answer.
    pub fn handed_over(&mut self) {
        self.last = None;
    }

    /// Whether the next request is a moment at which a cut costs nothing, and pays. `how`: the draft of the handoff is made.
    pub fn moment(&self, next: &RequestCosts, how: DraftCost) -> Option<FreeCut> {
        let last = self.last.as_ref()?;
        let reason = self.reason(last, next)?;
        let cut = self.cut_for(reason, last, how, &next.rates);
        let is_bounded = cut.least >= 0.0 || -cut.least <= self.allowance();
        (cut.saved > 0.0 && is_bounded).then_some(cut)
    }

    /// When a draft is to be written ahead, should no request come until then, in milliseconds since the Unix epoch. That is
    /// shortly before the cache goes cold after the last request, which was billed by `costs`. `None`: no cut would pay, or the
    /// bet is too high.
    pub fn draft_due(&self, costs: &RequestCosts) -> Option<u64> {
        let last = self.last.as_ref().filter(|_| self.cached)?;
        let (rates, lifetime) = (&costs.rates, lifetime_of(last, costs));
        let reason = FreeCutReason::Cold { pause_ms: lifetime };
        let cut = self.cut_for(reason, last, DraftCost::Nothing, rates);
        let bet = draft(last, DraftCost::History).cost(rates).total();
        let pays = cut.least > bet && bet <= self.allowance();
        let after = lifetime - MARGIN_MS.min(lifetime / MARGIN_SHARE);
        pays.then(|| costs.at_ms.saturating_add(after))
    }

    /// Calls after which a handoff of the model's own has paid, the cache being warm; `None`: never.
    pub fn pays_within(&self, rates: &Rates) -> Option<u32> {
        let last = self.last.as_ref()?;
        let worlds = CutComparison::new(last, self.step(), false, rates);
        // The leg that hands over reads the history and writes the prompt.
        let call = draft(last, DraftCost::History).cost(rates).total();
        let paid = worlds
            .each_call()
            .take(GIVEN_UP as usize)
            .position(|saved| saved >= call)?;
        u32::try_from(paid + 1).ok()
    }

    /// Dollars that a handoff of the model's own is expected to save, the cache being warm; negative where it costs.
    pub fn expected(&self, rates: &Rates) -> Option<f64> {
        let last = self.last.as_ref()?;
        let saved = CutComparison::new(last, self.step(), false, rates).saved(self.expected_calls());
        Some(saved - draft(last, DraftCost::History).cost(rates).total())
    }

    /// The calls after which a handoff pays, where it is worth it with so many calls left. It pays within these, and within half of the calls
    /// after which the history would be as long again. That half is the optimum. With a cut of cost `C`, reads at `r`
    /// and steps of `s`, a cycle of `n` calls costs `C/n + r·s·n/2` a call. That is least at `n = √(2C/(r·s))`, where a
    /// cut pays after `C/(r·s·n) = n/2` calls.
    pub fn pays(&self, rates: &Rates, left: u32) -> Option<u32> {
        let last = self.last.as_ref()?;
        let regrown = last.tokens.saturating_sub(last.fixed + PROMPT) / self.step();
        let calls = self.pays_within(rates)?;
        (calls <= left && u64::from(calls) <= regrown / 2).then_some(calls)
    }

    /// Tokens that a call adds.
    pub fn step(&self) -> u64 {
        match self.grown_calls {
            0 => STEP,
            calls => (self.grown / u64::from(calls)).max(1),
        }
    }

    fn reason(&self, last: &CachedHistory, next: &RequestCosts) -> Option<FreeCutReason> {
        if let Some(lost) = self.lost_cache(last, next) {
            return Some(lost);
        }
        let grown = last.tokens.saturating_add(self.step());
        let limit = next
            .limit
            .filter(|limit| grown.saturating_add(self.step()) > *limit);
        if let Some(tokens) = limit {
            return Some(FreeCutReason::Limit { tokens });
        }
        let step = next.rates.steps().filter(|tokens| grown > *tokens).last();
        step.map(|tokens| FreeCutReason::PriceStep { tokens })
    }

    /// Why the next request finds nothing in a cache.
    fn lost_cache(&self, last: &CachedHistory, next: &RequestCosts) -> Option<FreeCutReason> {
        let pause_ms = next.at_ms.saturating_sub(last.at_ms);
        let is_cold = pause_ms > lifetime_of(last, next);
        match () {
            () if !self.cached => None,
            () if next.model != last.model => Some(FreeCutReason::ModelChanged),
            () if next.effort != last.effort => Some(FreeCutReason::EffortChanged),
            () => is_cold.then_some(FreeCutReason::Cold { pause_ms }),
        }
    }

    fn cut_for(&self, reason: FreeCutReason, last: &CachedHistory, how: DraftCost, rates: &Rates) -> FreeCut {
        let worlds = match reason {
            FreeCutReason::Limit { .. } => {
                CutComparison::new(last, self.step(), false, rates).compacting(last, rates)
            }
            reason => CutComparison::new(last, self.step(), reason.is_cold(), rates),
        };
        let how = how.resolved(reason.is_cold());
        let cost = draft(last, how).cost(rates).total();
        FreeCut {
            reason,
            tokens: last.tokens,
            draft: how,
            saved: worlds.saved(self.expected_calls()) - cost,
            least: worlds.saved(1) - cost,
        }
    }

    /// Calls that are expected after a cut: half of those between two losses of the cache so far.
    fn expected_calls(&self) -> u32 {
        (self.calls / (self.losses + 1) / 2).clamp(1, MOST_CALLS)
    }

    /// What may still be lost.
    fn allowance(&self) -> f64 {
        (self.spent + self.won) * BETS - self.bets
    }
}

fn lifetime_of(last: &CachedHistory, costs: &RequestCosts) -> u64 {
    costs
        .lifetime_ms
        .unwrap_or_else(|| CacheRule::for_model(&last.model, last.long).lifetime_ms)
}

/// The request for a draft, over a history that is in the cache.
fn draft(last: &CachedHistory, how: DraftCost) -> TokenCounts {
    let (cache_read, input) = match how {
        DraftCost::Nothing => return TokenCounts::default(),
        DraftCost::Selection(tokens) => (0, tokens),
        DraftCost::History | DraftCost::Cheapest(_) => (last.tokens, 0),
    };
    TokenCounts {
        input,
        cache_read,
        output: PROMPT,
        ..TokenCounts::default()
    }
}

/// Why a cut costs nothing at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FreeCutReason {
    /// The cache has gone cold in a pause.
    Cold {
        /// Milliseconds since the last request.
        pause_ms: u64,
    },
    /// The model is another one, which has nothing cached.
    ModelChanged,
    /// The effort is another one: what was cached is lost.
    EffortChanged,
    /// The next request is above a step of the price.
    PriceStep {
        /// The step.
        tokens: u64,
    },
    /// The next request is near the end of the window, or where the agent compacts.
    Limit {
        /// Where.
        tokens: u64,
    },
}

impl FreeCutReason {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold { .. } => "cold",
            Self::ModelChanged => "model",
            Self::EffortChanged => "effort",
            Self::PriceStep { .. } => "price_step",
            Self::Limit { .. } => "limit",
        }
    }

    /// The reason as a user reads it in the sentinel.
    pub fn text(self) -> String {
        match self {
            Self::Cold { pause_ms } => {
                format!("the cache had gone cold: {} without a request", time(pause_ms))
            }
            Self::ModelChanged => "the model changed, and with it the cache".to_owned(),
            Self::EffortChanged => "the effort changed, and with it the cache".to_owned(),
            Self::PriceStep { tokens } => format!("requests above {tokens} tokens cost more"),
            Self::Limit { tokens } => format!("the context was about to reach {tokens} tokens"),
        }
    }

    /// Whether nothing of the history is in a cache.
    pub fn is_cold(self) -> bool {
        matches!(self, Self::Cold { .. } | Self::ModelChanged | Self::EffortChanged)
    }
}

fn time(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..=119 => plural(seconds, "second"),
        seconds @ 120..=7_199 => plural(seconds / 60, "minute"),
        seconds => plural(seconds / 3_600, "hour"),
    }
}
