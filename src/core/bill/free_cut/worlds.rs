//! Compares the cost of the next calls with a cut and without, and defines the assumptions about a cut.

use super::super::cost::TokenCounts;
use super::super::prices::Rates;

/// Cost of the next calls with a cut now, and without one.
pub(super) struct CutComparison {
    /// Counts of the first request without a cut, before its additions.
    first_without: TokenCounts,
    /// Dollars of the first request after a cut, and of reading content again.
    opening: f64,
    /// Tokens of the whole and of the cut history, and the growth per call.
    whole: u64,
    cut: u64,
    step: u64,
    rates: Rates,
    /// Extra dollars of the agent's own compaction over a carry-over prompt, if it comes first without a cut.
    compaction: Option<f64>,
}

impl CutComparison {
    /// Compares calls that add `step` tokens, with and without a cut of this history.
    ///
    /// `cold` means that nothing of the history is cached.
    pub(super) fn new(last: &CachedHistory, step: u64, cold: bool, rates: &Rates) -> Self {
        let fixed = last.fixed.min(last.tokens);
        let cut = fixed + PROMPT;
        // Each call that reads again has the results of the earlier ones in its cached history.
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

    /// Assumes that without a cut the agent compacts before the first call, and then reads as much again as
    /// after a cut.
    pub(super) fn compacting(self, last: &CachedHistory, rates: &Rates) -> Self {
        let summary = TokenCounts {
            cache_read: last.tokens,
            output: SUMMARY,
            ..TokenCounts::default()
        };
        let written = |prompt| input(rates, last.fixed, prompt).cost(rates).total();
        let dearer = summary.cost(rates).total() + written(SUMMARY) - written(PROMPT);
        Self {
            // Both histories then have the same length, so only this difference remains, however many calls
            // follow.
            compaction: Some(dearer),
            ..self
        }
    }

    /// Dollars that a cut saves within this many calls, excluding its draft.
    ///
    /// The output of the calls is the same on both sides.
    pub(super) fn saved(&self, calls: u32) -> f64 {
        match self.compaction {
            Some(compaction) => compaction,
            None => self
                .each_call()
                .nth(calls.max(1) as usize - 1)
                .unwrap_or_default(),
        }
    }

    /// Dollars saved after one call, two calls, and so on.
    pub(super) fn each_call(&self) -> impl Iterator<Item = f64> {
        let cost = |cached, new| input(&self.rates, cached, new).cost(&self.rates).total();
        let mut without = self.first_without;
        without += input(&self.rates, 0, self.step);
        let first = without.cost(&self.rates).total() - self.opening - cost(0, self.step);
        (0_u64..).scan(first, move |saved, call| {
            if call > 0 {
                // Both histories grow by the same calls; only their lengths differ.
                let grown = call * self.step;
                *saved += cost(self.whole + grown, self.step) - cost(self.cut + grown, self.step);
            }
            Some(*saved)
        })
    }
}

/// Input with this many cached and this many new tokens.
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
pub const PROMPT: u64 = 1_500;

/// Assumptions about reading content again after a cut: total tokens, tokens per call, and output per call.
///
/// Pessimistic: most cuts need less.
pub const READ_AGAIN: u64 = 20_000;
pub const READ: u64 = 5_000;
pub const READ_OUTPUT: u64 = 150;

/// Tokens of the summary that an agent's own compaction writes.
pub const SUMMARY: u64 = 4_000;

/// A history as cached by the provider with its last request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CachedHistory {
    /// Start of the request, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// Model of the request.
    pub(super) model: String,
    /// Effort as stated by the request; empty without one.
    pub(super) effort: String,
    /// Input and output tokens, which the next request begins with.
    pub(super) tokens: u64,
    /// Tokens of the system prompt and the tools, included in `tokens`.
    pub(super) fixed: u64,
    /// Whether the provider's long-lived cache holds the history.
    pub(super) long: bool,
}
