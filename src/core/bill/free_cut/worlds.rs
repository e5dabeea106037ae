//! What the next calls cost with a cut and without, and what is assumed of a cut.

use super::super::cost::TokenCounts;
use super::super::prices::Rates;
use crate::record::CachedHistory;

/// What the next calls cost with a cut now, and without.
pub(super) struct CutComparison {
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

impl CutComparison {
    /// With a cut of this history and without. Its calls add `step` tokens. `cold`: nothing of the history is in a cache.
    pub(super) fn new(last: &CachedHistory, step: u64, cold: bool, rates: &Rates) -> Self {
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
        Self {
            first_without: match cold {
                true => input(rates, 0, last.tokens),
                false => input(rates, last.tokens, 0),
            },
            opening: opening.cost(rates).total() + reads.sum::<f64>(),
            whole: last.tokens,
            cut: cut + READ_AGAIN,
            step,
            rates: rates.clone(),
            compaction: None,
        }
    }

    /// Without a cut the agent sums its history up before the first call, and reads as much of it again.
    pub(super) fn compacting(self, last: &CachedHistory, rates: &Rates) -> Self {
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

    /// Dollars that a cut saves within this many calls, its draft not counted. The output of the calls is the same in
    /// both worlds.
    pub(super) fn saved(&self, calls: u32) -> f64 {
        match self.compaction {
            Some(compaction) => compaction,
            None => self
                .each_call()
                .nth(calls.max(1) as usize - 1)
                .unwrap_or_default(),
        }
    }

    /// The same after one call, two calls, and so on.
    pub(super) fn each_call(&self) -> impl Iterator<Item = f64> {
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

/// Tokens of a carry-over prompt.
pub(crate) const PROMPT: u64 = 1_500;

/// Tokens that are read again after a cut, and of each call that does so. Pessimistic: most cuts need less.
pub(crate) const READ_AGAIN: u64 = 20_000;
pub(crate) const READ: u64 = 5_000;
pub(crate) const READ_OUTPUT: u64 = 150;

/// Tokens of the summary that an agent's own compaction writes.
pub(crate) const SUMMARY: u64 = 4_000;
