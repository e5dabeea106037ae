//! Decides when a cut costs nothing: from what a thread was billed, the provider's cache rules, and its prices.

use super::cache::CacheRule;
use super::cost::TokenCounts;
use super::prices::Rates;
use crate::record::CachedHistory;

/// Tokens of a carry-over prompt.
pub(super) const PROMPT: u64 = 1_500;

/// Tokens that are read again after a cut, and of each call that does so. Pessimistic: most cuts need less.
pub(super) const READ_AGAIN: u64 = 20_000;
pub(super) const READ: u64 = 5_000;
pub(super) const READ_OUTPUT: u64 = 150;

/// Tokens of the summary that an agent's own compaction writes.
pub(super) const SUMMARY: u64 = 4_000;

/// Share of what a conversation has cost and saved that bets may cost: drafts that nobody came back for, and cuts that one
/// more call did not pay.
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

/// What one thread of a conversation has cost, and how it goes on: fed by each answered request, looked at before each new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CutLedger {
    last: Option<CachedHistory>,
    /// Answered requests.
    calls: u32,
    /// Whether a cache served any of them; `false` for a provider that has none.
    cached: bool,
    /// Pauses that outlived the cache, and after which it went on.
    pauses: u32,
    /// Tokens that calls added, and how many of them were compared.
    grown: u64,
    grown_calls: u32,
    /// Dollars: of all requests, won by free cuts, and lost by bets.
    spent: f64,
    won: f64,
    bets: f64,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredRequest<'a> {
    /// Its start, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The model that it was sent to.
    pub model: &'a str,
    /// Its effort, as the request states it.
    pub effort: &'a str,
    /// What was billed.
    pub counts: TokenCounts,
    /// Bytes of the request.
    pub bytes: u64,
    /// Bytes of the system prompt and the tools, of these.
    pub fixed_bytes: u64,
}

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct NextRequest<'a> {
    /// Now, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The model that it asks.
    pub model: &'a str,
    /// Its effort.
    pub effort: &'a str,
    /// Tokens at which the window, or the agent's own compaction, ends the history.
    pub limit: Option<u64>,
    /// How long the provider's cache lives, where it is not as its rules say.
    pub lifetime_ms: Option<u64>,
    /// How the draft of a handoff is made now.
    pub draft: DraftCost,
}

/// What the draft of a handoff costs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftCost {
    /// Nothing: it is written, or is made without a model.
    Nothing,
    /// A request over the whole history.
    History,
    /// A request over a selection of so many tokens.
    Selection(u64),
    /// One over the whole history where that is in the cache, else over a selection of so many tokens.
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

    /// The reason as a person reads it in the sentinel.
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
    let unit = |count: u64, name| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    match ms / 1_000 {
        seconds @ 0..=119 => unit(seconds, "second"),
        seconds @ 120..=7_199 => unit(seconds / 60, "minute"),
        seconds => unit(seconds / 3_600, "hour"),
    }
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

    /// Adds a request that was answered.
    pub fn answered(&mut self, request: &AnsweredRequest<'_>, rates: &Rates) {
        let input = request.counts.whole_input();
        if input == 0 {
            return;
        }
        let hour = match (request.counts.cache_write_1h, request.counts.cache_write) {
            (0, 0) => self.last.as_ref().is_some_and(|last| last.hour),
            (hour, short) => hour > short,
        };
        let tokens = request.counts.total();
        if let Some(last) = &self.last {
            if tokens > last.tokens {
                self.grown = self.grown.saturating_add(tokens - last.tokens);
                self.grown_calls = self.grown_calls.saturating_add(1);
            }
            let lifetime = CacheRule::of(&last.model, last.hour).lifetime_ms;
            self.pauses += u32::from(request.at_ms.saturating_sub(last.at_ms) > lifetime);
        }
        self.calls = self.calls.saturating_add(1);
        self.cached |= request.counts.cache_read > 0;
        self.spent += request.counts.cost(rates).total();
        let share = request.fixed_bytes.min(request.bytes) as f64 / request.bytes.max(1) as f64;
        self.last = Some(CachedHistory {
            at_ms: request.at_ms,
            model: request.model.to_owned(),
            effort: request.effort.to_owned(),
            tokens,
            fixed: (input as f64 * share) as u64,
            hour,
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

    /// A handoff fired: the history begins anew with the next answer.
    pub fn handed_over(&mut self) {
        self.last = None;
    }

    /// Whether the next request is a moment at which a cut costs nothing, and pays. `rates`: of the model that it asks.
    pub fn moment(&self, next: &NextRequest<'_>, rates: &Rates) -> Option<FreeCut> {
        let last = self.last.as_ref()?;
        let reason = self.reason(last, next, rates)?;
        let cut = self.cut_for(reason, last, next.draft, rates);
        let is_bounded = cut.least >= 0.0 || -cut.least <= self.allowance();
        (cut.saved > 0.0 && is_bounded).then_some(cut)
    }

    /// Milliseconds after the last request at which a draft is to be written ahead, should no request come until then: shortly
    /// before the cache goes cold. `None`: no cut would pay, or the bet is too high.
    pub fn draft_due_in(&self, rates: &Rates, lifetime_ms: Option<u64>) -> Option<u64> {
        let last = self.last.as_ref().filter(|_| self.cached)?;
        let lifetime = lifetime_of(last, lifetime_ms);
        let reason = FreeCutReason::Cold { pause_ms: lifetime };
        let cut = self.cut_for(reason, last, DraftCost::Nothing, rates);
        let bet = draft(last, DraftCost::History).cost(rates).total();
        let pays = cut.least > bet && bet <= self.allowance();
        pays.then(|| lifetime - MARGIN_MS.min(lifetime / MARGIN_SHARE))
    }

    /// Calls after which a handoff of the model's own has paid, the cache being warm; `None`: never.
    pub fn pays_within(&self, rates: &Rates) -> Option<u32> {
        let last = self.last.as_ref()?;
        let worlds = self.worlds(last, false, rates);
        // The leg that hands over reads the history and writes the prompt.
        let call = draft(last, DraftCost::History).cost(rates).total();
        let paid = worlds
            .each_call()
            .take(GIVEN_UP as usize)
            .position(|saved| saved >= call)?;
        u32::try_from(paid + 1).ok()
    }

    /// The same where a handoff is worth it with so many calls left: it pays within these, and in half the calls after which the
    /// history would be as long again. That half is the optimum: with a cut of cost `C`, reads at `r` and steps of `s`, a cycle of
    /// `n` calls costs `C/n + r·s·n/2` a call, the least at `n = √(2C/(r·s))`, where a cut pays after `C/(r·s·n) = n/2` calls.
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

    fn reason(&self, last: &CachedHistory, next: &NextRequest<'_>, rates: &Rates) -> Option<FreeCutReason> {
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
        let step = rates.steps().filter(|tokens| grown > *tokens).last();
        step.map(|tokens| FreeCutReason::PriceStep { tokens })
    }

    /// Why the next request finds nothing in a cache.
    fn lost_cache(&self, last: &CachedHistory, next: &NextRequest<'_>) -> Option<FreeCutReason> {
        let pause_ms = next.at_ms.saturating_sub(last.at_ms);
        let is_cold = pause_ms > lifetime_of(last, next.lifetime_ms);
        match () {
            () if !self.cached => None,
            () if next.model != last.model => Some(FreeCutReason::ModelChanged),
            () if next.effort != last.effort => Some(FreeCutReason::EffortChanged),
            () => is_cold.then_some(FreeCutReason::Cold { pause_ms }),
        }
    }

    fn cut_for(&self, reason: FreeCutReason, last: &CachedHistory, how: DraftCost, rates: &Rates) -> FreeCut {
        let worlds = match reason {
            FreeCutReason::Limit { .. } => self.worlds(last, false, rates).compacting(last, rates),
            reason => self.worlds(last, reason.is_cold(), rates),
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

    fn worlds(&self, last: &CachedHistory, cold: bool, rates: &Rates) -> TwoWorlds {
        let fixed = last.fixed.min(last.tokens);
        let cut = fixed + PROMPT;
        let reads = (0..READ_AGAIN / READ).map(|n| {
            let call = input(rates, cut + n * READ, READ);
            TokenCounts {
                output: READ_OUTPUT,
                ..call
            }
            .cost(rates)
            .total()
        });
        let opening = match cold {
            true => input(rates, 0, cut),
            false => input(rates, fixed, PROMPT),
        };
        TwoWorlds {
            first_without: match cold {
                true => input(rates, 0, last.tokens),
                false => input(rates, last.tokens, 0),
            },
            opening: opening.cost(rates).total() + reads.sum::<f64>(),
            whole: last.tokens,
            cut: cut + READ_AGAIN,
            step: self.step(),
            rates: rates.clone(),
            compaction: None,
        }
    }

    /// Calls that are expected after a cut: half of those between two pauses so far.
    fn expected_calls(&self) -> u32 {
        (self.calls / (self.pauses + 1) / 2).clamp(1, MOST_CALLS)
    }

    /// What may still be lost.
    fn allowance(&self) -> f64 {
        (self.spent + self.won) * BETS - self.bets
    }
}

fn lifetime_of(last: &CachedHistory, lifetime_ms: Option<u64>) -> u64 {
    lifetime_ms.unwrap_or_else(|| CacheRule::of(&last.model, last.hour).lifetime_ms)
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

/// Input of which so much is in the cache, and so much is new.
fn input(rates: &Rates, cached: u64, new: u64) -> TokenCounts {
    let (input, cache_write) = match rates.write_is_billed {
        true => (0, new),
        false => (new, 0),
    };
    TokenCounts {
        input,
        cache_read: cached,
        cache_write,
        ..TokenCounts::default()
    }
}

/// What the next calls cost with a cut now, and without.
struct TwoWorlds {
    /// The first request without a cut, before what it adds.
    first_without: TokenCounts,
    /// Dollars of the first request after a cut, and of reading again.
    opening: f64,
    /// Tokens of the histories.
    whole: u64,
    cut: u64,
    step: u64,
    rates: Rates,
    /// Dollars by which the agent's own compaction, which comes first without a cut, is dearer than a carry-over prompt.
    compaction: Option<f64>,
}

impl TwoWorlds {
    /// Without a cut the agent sums its history up before the first call, and reads as much of it again.
    fn compacting(self, last: &CachedHistory, rates: &Rates) -> Self {
        let summary = TokenCounts {
            cache_read: last.tokens,
            output: SUMMARY,
            ..TokenCounts::default()
        };
        let written = |prompt| input(rates, last.fixed, prompt).cost(rates).total();
        let dearer = summary.cost(rates).total() + written(SUMMARY) - written(PROMPT);
        Self {
            compaction: Some(dearer),
            ..self
        }
    }

    /// Dollars that a cut saves within so many calls, its draft not counted. What calls put out is the same in both worlds.
    fn saved(&self, calls: u32) -> f64 {
        match self.compaction {
            Some(compaction) => compaction,
            None => self
                .each_call()
                .nth(calls.max(1) as usize - 1)
                .unwrap_or_default(),
        }
    }

    /// The same after one call, two calls, and so on.
    fn each_call(&self) -> impl Iterator<Item = f64> {
        let cost = |cached, new| input(&self.rates, cached, new).cost(&self.rates).total();
        let mut without = self.first_without;
        without += input(&self.rates, 0, self.step);
        let first = without.cost(&self.rates).total() - self.opening - cost(0, self.step);
        (0_u64..).scan(first, move |saved, call| {
            if call > 0 {
                let grown = call * self.step;
                *saved += cost(self.whole + grown, self.step) - cost(self.cut + grown, self.step);
            }
            Some(*saved)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{PriceQuery, PriceTable};
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Opus 5.5, and a model that costs twice as much above 272,000 tokens.
    fn rates(model: &str) -> Rates {
        let table: PriceTable = serde_json::from_value(serde_json::json!({
            "source": "test", "date": "2026-11-23",
            "provider": [{"id": "p", "model": [
                {"id": "claude-opus-5-5", "names": ["claude-opus-5-5"], "price": [
                    {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_1h": 8.0, "output": 20.0}]},
                {"id": "gpt-6-sol", "names": ["gpt-6-sol"], "price": [
                    {"input": 2.0, "cache_read": 0.2, "cache_write": 2.5, "output": 10.0,
                     "above": [{"tokens": 272_000, "input": 4.0, "cache_read": 0.4, "cache_write": 5.0, "output": 15.0}]}]},
            ]}]
        }))
        .unwrap();
        let query = PriceQuery {
            model,
            ..PriceQuery::default()
        };
        table.rates(&query).unwrap()
    }

    const OPUS: &str = "claude-opus-5-5";
    const GPT: &str = "gpt-6-sol";

    fn answer(at_ms: u64, model: &'static str, read: u64, new: u64) -> AnsweredRequest<'static> {
        AnsweredRequest {
            at_ms,
            model,
            effort: "",
            counts: TokenCounts {
                cache_read: read,
                cache_write: new,
                output: 500,
                ..TokenCounts::default()
            },
            bytes: 4 * (read + new),
            fixed_bytes: 84_000,
        }
    }

    /// A session of one call a minute, each of which adds 1,500 tokens, up to so many.
    fn session(model: &'static str, tokens: u64) -> CutLedger {
        let mut ledger = CutLedger::default();
        let rates = rates(model);
        ledger.answered(&answer(0, model, 0, 21_000), &rates);
        for call in 1.. {
            let read = 20_000 + call * 1_500;
            if read + 1_500 > tokens {
                break;
            }
            ledger.answered(&answer(call * MINUTE, model, read, 1_000), &rates);
        }
        ledger
    }

    fn next(
        ledger: &CutLedger,
        model: &'static str,
        pause_ms: u64,
        draft: DraftCost,
    ) -> NextRequest<'static> {
        NextRequest {
            at_ms: ledger.last.as_ref().unwrap().at_ms + pause_ms,
            model,
            effort: "",
            limit: None,
            lifetime_ms: None,
            draft,
        }
    }

    #[test]
    fn a_cold_cache_is_a_moment_and_a_warm_one_is_none() {
        let ledger = session(OPUS, 150_000);
        assert_eq!(ledger.step(), 1_500);
        let at = |pause| {
            let next = next(&ledger, OPUS, pause, DraftCost::Nothing);
            ledger.moment(&next, &rates(OPUS))
        };
        assert_eq!(at(5 * MINUTE), None);
        let cut = at(6 * MINUTE).unwrap();
        assert_eq!(
            cut.reason.text(),
            "the cache had gone cold: 6 minutes without a request"
        );
        // Without: the history of 149,000 is written, at $5. With: 22,500 of prompt and prefix, and four calls that read 20,000 again:
        // $0.1125 + 20,000 at $5 + (22,500 + 27,500 + 32,500 + 37,500) at $0.20 + 600 at $20 = $0.2485.
        assert_eq!(cut.tokens, 149_000);
        assert!((cut.least - (0.745 - 0.2485)).abs() < 0.002, "{cut:?}");
        assert!(cut.saved > cut.least);
    }

    #[test]
    fn where_nothing_is_ever_cached_no_pause_is_a_moment() {
        let mut ledger = CutLedger::default();
        for call in 0..3 {
            ledger.answered(&answer(call * MINUTE, OPUS, 0, 150_000), &rates(OPUS));
        }
        let cold = next(&ledger, OPUS, 60 * MINUTE, DraftCost::Nothing);
        assert_eq!(ledger.moment(&cold, &rates(OPUS)), None);
        assert_eq!(ledger.draft_due_in(&rates(OPUS), None), None);
    }

    #[test]
    fn a_short_history_is_not_worth_it() {
        let ledger = session(OPUS, 45_000);
        let cold = next(&ledger, OPUS, 60 * MINUTE, DraftCost::Nothing);
        assert_eq!(ledger.moment(&cold, &rates(OPUS)), None);
        assert_eq!(ledger.draft_due_in(&rates(OPUS), None), None);
        assert_eq!(CutLedger::default().moment(&cold, &rates(OPUS)), None);
    }

    #[test]
    fn a_draft_on_a_cold_cache_is_of_a_selection() {
        let ledger = session(OPUS, 150_000);
        let cold = next(&ledger, OPUS, 60 * MINUTE, DraftCost::Cheapest(8_000));
        let cut = ledger.moment(&cold, &rates(OPUS)).unwrap();
        assert_eq!(cut.draft, DraftCost::Selection(8_000));
        let ready = next(&ledger, OPUS, 60 * MINUTE, DraftCost::Nothing);
        let ready = ledger.moment(&ready, &rates(OPUS)).unwrap();
        // 8,000 at $4, 1,500 at $20.
        assert!((ready.least - cut.least - 0.062).abs() < 1e-9);
    }

    #[test]
    fn another_model_or_effort_has_nothing_cached() {
        let ledger = session(OPUS, 150_000);
        let changed = NextRequest {
            model: "claude-sonnet-5-5",
            ..next(&ledger, OPUS, MINUTE, DraftCost::Nothing)
        };
        let reason = |next| ledger.moment(&next, &rates(OPUS)).map(|cut| cut.reason);
        assert_eq!(reason(changed), Some(FreeCutReason::ModelChanged));
        let effort = NextRequest {
            effort: "high",
            ..next(&ledger, OPUS, MINUTE, DraftCost::Nothing)
        };
        assert_eq!(reason(effort), Some(FreeCutReason::EffortChanged));
    }

    #[test]
    fn a_price_step_and_the_limit_are_moments_while_the_cache_is_warm() {
        let reason = |ledger: &CutLedger, limit| {
            let next = NextRequest {
                limit,
                ..next(ledger, GPT, MINUTE, DraftCost::Cheapest(8_000))
            };
            let cut = ledger.moment(&next, &rates(GPT))?;
            assert_eq!(cut.draft, DraftCost::History);
            Some(cut.reason)
        };
        assert_eq!(reason(&session(GPT, 268_000), None), None);
        let step = FreeCutReason::PriceStep { tokens: 272_000 };
        assert_eq!(reason(&session(GPT, 272_000), None), Some(step));
        let limit = FreeCutReason::Limit { tokens: 200_000 };
        assert_eq!(reason(&session(GPT, 190_000), Some(200_000)), None);
        assert_eq!(reason(&session(GPT, 198_500), Some(200_000)), Some(limit));
    }

    #[test]
    fn a_draft_ahead_is_due_before_the_cache_is_cold_and_bets_are_bounded() {
        let mut ledger = session(OPUS, 150_000);
        // 149,000 at $0.20 and 1,500 at $20 are $0.06, and 1 % of what the session has cost is half of that.
        assert_eq!(ledger.draft_due_in(&rates(OPUS), None), None);
        ledger.won = 10.0;
        assert_eq!(ledger.draft_due_in(&rates(OPUS), None), Some(5 * MINUTE - 45_000));
        assert_eq!(ledger.draft_due_in(&rates(OPUS), Some(10_000)), Some(8_000));
        let before = ledger.last.clone().unwrap().at_ms;
        ledger.draft_paid(0.06, before + 4 * MINUTE);
        assert_eq!(
            ledger.last.as_ref().unwrap().at_ms,
            before + 4 * MINUTE,
            "it was read once more"
        );
        ledger.draft_paid(0.06, before);
        assert_eq!(ledger.draft_due_in(&rates(OPUS), None), None);
    }

    #[test]
    fn a_warm_cut_pays_after_as_many_calls_as_the_tables_say() {
        assert_eq!(session(OPUS, 40_000).pays_within(&rates(OPUS)), None);
        let calls = |tokens| session(OPUS, tokens).pays_within(&rates(OPUS)).unwrap();
        assert!((14..=18).contains(&calls(100_000)), "{}", calls(100_000));
        assert!((7..=11).contains(&calls(150_000)), "{}", calls(150_000));
        assert!(calls(300_000) < calls(200_000));
    }

    #[test]
    fn a_warm_cut_is_worth_it_where_it_pays_before_the_history_is_as_long_again() {
        let rates = rates(OPUS);
        let ledger = session(OPUS, 150_000);
        let calls = ledger.pays_within(&rates).unwrap();
        assert_eq!(ledger.pays(&rates, 100), Some(calls));
        assert_eq!(ledger.pays(&rates, calls - 1), None, "the work ends before");
        let early = session(OPUS, 60_000);
        assert!(early.pays_within(&rates).unwrap() < 100);
        assert_eq!(
            early.pays(&rates, 100),
            None,
            "it would be cut again before it has paid"
        );
    }

    #[test]
    fn what_another_process_knew_is_enough_for_a_cold_cut() {
        let known = session(OPUS, 150_000).history().unwrap();
        let ledger = CutLedger::resumed(&known);
        let cold = next(&ledger, OPUS, 6 * MINUTE, DraftCost::Nothing);
        assert!(ledger.moment(&cold, &rates(OPUS)).is_some());
        let mut cut = ledger;
        cut.handed_over();
        assert_eq!(
            cut.moment(&cold, &rates(OPUS)),
            None,
            "nothing is known of the new history yet"
        );
    }

    #[test]
    fn times_are_named_by_their_unit() {
        let rows = [
            (1_000, "1 second"),
            (90_000, "90 seconds"),
            (720_000, "12 minutes"),
            (3 * 3_600_000, "3 hours"),
        ];
        for (ms, text) in rows {
            assert_eq!(time(ms), text);
        }
    }

    proptest! {
        /// One more call never loses more than the bets allow, and a cut is expected to win.
        #[test]
        fn no_cut_loses_more_than_its_bets(
            calls in prop::collection::vec((0_u64..40, 100_u64..20_000), 1..60),
            pause in 0_u64..400,
            selection in 0_u64..20_000,
        ) {
            let rates = rates(OPUS);
            let mut ledger = CutLedger::default();
            let (mut at_ms, mut tokens) = (0, 21_000);
            for (minutes, new) in calls {
                at_ms += minutes * MINUTE;
                let cached = if minutes > 5 { 0 } else { tokens };
                ledger.answered(&answer(at_ms, OPUS, cached, tokens - cached + new), &rates);
                tokens += new + 500;
            }
            for how in [DraftCost::Nothing, DraftCost::Cheapest(selection), DraftCost::History] {
                let next = next(&ledger, OPUS, pause * MINUTE, how);
                if let Some(cut) = ledger.moment(&next, &rates) {
                    prop_assert!(cut.saved > 0.0 && cut.least >= -0.01 * ledger.spent);
                    let before = ledger.allowance();
                    let mut after = ledger.clone();
                    after.cut(&cut);
                    prop_assert!(after.allowance() >= before - 0.01 * ledger.spent - 1e-9);
                }
            }
        }
    }
}
