//! Decides when a cut is free, from the billing of a branch, the provider's cache rules, and its prices.

mod worlds;

#[cfg(test)]
mod tests;

use super::cache::{CacheMiss, CacheRule};
use super::cost::TokenCounts;
use super::prices::Rates;
use crate::text::words::plural;

use self::worlds::{CachedHistory, CutComparison};
pub use self::worlds::{PROMPT, READ, READ_AGAIN, READ_OUTPUT, SUMMARY};

/// Share of a conversation's cost and savings that bets may cost.
///
/// A bet is a cut that would lose money if only one more call followed.
const BETS: f64 = 0.01;

/// Maximum number of calls that are expected after a cut.
const MOST_CALLS: u32 = 40;

/// Maximum number of calls for a cut to pay off.
const GIVEN_UP: u32 = 200;

/// Assumed tokens that a call adds, until a call has shown it.
const STEP: u64 = 1_500;

/// Costs of one branch of a conversation, and its state at the provider.
///
/// Each answered request is added, and each new one is examined before it is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CutLedger {
    last: Option<CachedHistory>,
    /// Number of answered requests.
    calls: u32,
    /// Whether a cache served any of them; `false` for a provider without a cache.
    cached: bool,
    /// How often the cache was lost while the branch continued: by the provider's diagnosis, or in pauses
    /// that outlived it.
    losses: u32,
    /// Tokens that calls added, and the number of calls measured.
    grown: u64,
    grown_calls: u32,
    /// Dollars of all requests, dollars won by free cuts, and dollars lost by bets.
    spent: f64,
    won: f64,
    bets: f64,
}

/// Billing of a request that will be sent or was answered.
#[derive(Debug, Clone)]
pub struct RequestCosts {
    /// Rates of the requested model.
    pub rates: Rates,
    pub model: String,
    /// The effort, as the request states it.
    pub effort: String,
    /// The start of the request, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Bytes of the system prompt and the tools.
    pub fixed_bytes: u64,
    /// Tokens at which the window, or the agent's own compaction, ends the history.
    pub limit: Option<u64>,
    /// Lifetime of the provider's cache, if it differs from the provider's rule.
    pub lifetime_ms: Option<u64>,
}

/// The present cost of a handoff's draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftCost {
    /// Nothing: the draft is finished, or is made without a model.
    Nothing,
    /// A request over the whole history.
    History,
    /// A request over a selection of this many tokens.
    Selection(u64),
    /// A request over the whole history if that is cached, or else over a selection of this many tokens.
    Cheapest(u64),
}

impl DraftCost {
    /// The cost with a cold or a warm cache.
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
    /// Why the cut is free.
    pub reason: FreeCutReason,
    /// Tokens of the history.
    pub tokens: u64,
    /// Cost of the draft.
    pub draft: DraftCost,
    /// Expected saving in dollars.
    pub saved: f64,
    /// Saving in dollars if only one more call follows; negative if it costs.
    pub least: f64,
}

impl CutLedger {
    /// Adds an answered request of this many bytes.
    ///
    /// `counts` are those that were billed. `cache_miss` explains why the provider's cache did not serve it,
    /// if the response tells.
    pub fn answered(
        &mut self,
        costs: &RequestCosts,
        counts: TokenCounts,
        cache_miss: Option<CacheMiss>,
        bytes: u64,
    ) {
        let input = counts.whole_input();
        // Without usage the response shows nothing about the provider's cache.
        if input == 0 {
            return;
        }
        let long = match (counts.cache_write_long, counts.cache_write) {
            // A request that stores nothing does not change the lifetime of the cached history.
            (0, 0) => self.last.as_ref().is_some_and(|last| last.long),
            (long, short) => long > short,
        };
        let tokens = counts.total();
        if let Some(last) = &self.last {
            // Fewer tokens mean that the agent compacted or went back, which shows no growth.
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
        // Providers do not count the parts of the input, so the prefix gets its share by bytes.
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

    /// Records that a free cut is made.
    pub fn cut(&mut self, cut: &FreeCut) {
        self.won += cut.least.max(0.0);
        self.bets += (-cut.least).max(0.0);
    }

    /// Records that a handoff fired: the history starts again with the next response.
    pub fn handed_over(&mut self) {
        // The cut history has a cache of its own, and the next response is the first to count it.
        self.last = None;
    }

    /// The cut that is free and pays off before the next request, if any. `how` is the cost of the draft.
    pub fn moment(&self, next: &RequestCosts, how: DraftCost) -> Option<FreeCut> {
        let last = self.last.as_ref()?;
        let reason = self.reason(last, next)?;
        let cut = self.cut_for(reason, last, how, &next.rates);
        // A cut that loses if the session ends soon is only made within the allowance for bets.
        let is_bounded = cut.least >= 0.0 || -cut.least <= self.allowance();
        (cut.saved > 0.0 && is_bounded).then_some(cut)
    }

    /// Number of calls after which a handoff by the model pays off, with a warm cache; `None` if it never does.
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

    /// Expected saving of a handoff by the model in dollars, with a warm cache; negative if it costs.
    pub fn expected(&self, rates: &Rates) -> Option<f64> {
        let last = self.last.as_ref()?;
        let saved = CutComparison::new(last, self.step(), false, rates).saved(self.expected_calls());
        Some(saved - draft(last, DraftCost::History).cost(rates).total())
    }

    /// Number of calls after which a handoff pays off, if it is worth it with `left` calls remaining.
    ///
    /// The handoff must pay off within these calls. It must also pay off within half of the calls that grow
    /// the history back to its size. That half is the optimum. With a cut of cost `C`, reads at `r` and steps
    /// of `s`, a cycle of `n` calls costs `C/n + r·s·n/2` a call. That is least at `n = √(2C/(r·s))`, where a
    /// cut pays off after `C/(r·s·n) = n/2` calls.
    pub fn pays(&self, rates: &Rates, left: u32) -> Option<u32> {
        let last = self.last.as_ref()?;
        let regrown = last.tokens.saturating_sub(last.fixed + PROMPT) / self.step();
        let calls = self.pays_within(rates)?;
        (calls <= left && u64::from(calls) <= regrown / 2).then_some(calls)
    }

    /// Mean number of tokens that a call adds.
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
        // Looks a call ahead: after the next request, which has `grown` tokens, another one must still fit.
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

    /// Why the next request finds nothing in a cache, if so.
    fn lost_cache(&self, last: &CachedHistory, next: &RequestCosts) -> Option<FreeCutReason> {
        let pause_ms = next.at_ms.saturating_sub(last.at_ms);
        let is_cold = pause_ms > lifetime_of(last, next);
        match () {
            // Without a cache nothing can be lost, so a pause does not make a cut cheaper.
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

    /// Expected number of calls after a cut: half of those between two losses of the cache so far.
    fn expected_calls(&self) -> u32 {
        (self.calls / (self.losses + 1) / 2).clamp(1, MOST_CALLS)
    }

    /// Dollars that bets may still lose.
    fn allowance(&self) -> f64 {
        (self.spent + self.won) * BETS - self.bets
    }
}

fn lifetime_of(last: &CachedHistory, costs: &RequestCosts) -> u64 {
    costs
        .lifetime_ms
        .unwrap_or_else(|| CacheRule::for_model(&last.model, last.long).lifetime_ms)
}

/// The counts of the request for a draft, over a history that is cached.
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

/// Why a cut costs nothing at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FreeCutReason {
    /// The cache has gone cold in a pause.
    Cold {
        /// Milliseconds since the last request.
        pause_ms: u64,
    },
    /// The model changed, and the new one has nothing cached.
    ModelChanged,
    /// The effort changed, which loses the cache.
    EffortChanged,
    /// The next request exceeds a step of the price.
    PriceStep {
        /// The step, in input tokens.
        tokens: u64,
    },
    /// The next request is near the end of the window, or near the agent's compaction threshold.
    Limit {
        /// That limit in tokens.
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

    /// Whether nothing of the history is cached.
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
