//! A recorded session in the form for the replay: growth of the history, and rates of each call.

use std::collections::HashMap;

use super::session::{RecordedCall, RecordedSession};
use crate::bill::{CacheRule, ModelPrices, PriceQuery, PriceTable, READ_AGAIN, Rates, TokenCounts};
use crate::nudge::Windows;
use crate::tools::Tool;
use crate::transcript::AgentKind;

/// Assumed bytes per token, for text that no provider has counted.
pub(super) const TOKEN_BYTES: u64 = 4;

/// Assumed tokens of the system prompt and tools, if the record does not begin with the session.
const PREFIX_TOKENS: u64 = 21_000;

/// Share of the previous size below which a shrunken history counts as compacted.
const SHRUNK: f64 = 0.5;
/// Minimum previous size for that, in tokens.
const MIN_SHRUNK_TOKENS: u64 = 20_000;

/// Assumed tokens that a call adds, if no call has shown it.
const STEP_TOKENS: u64 = 1_500;

/// A session that can be replayed.
#[derive(Debug)]
pub(super) struct ReplaySession<'r> {
    /// Tokens of the system prompt, the tools and the preamble.
    pub(super) prefix: u64,
    /// Tokens of the prefix that remain cached after a cut, as far as the record shows.
    pub(super) shared: u64,
    /// Tokens of the tool that handoffs need.
    pub(super) tool: u64,
    pub(super) calls: Vec<ReplayCall<'r>>,
    /// Whether the session ends with a finished to-do list.
    ends_finished: bool,
    /// Number of leading calls that another session has paid for.
    pub(super) copied: usize,
    /// Names of the models.
    pub(super) names: Vec<String>,
    /// Context windows of the models, if known.
    pub(super) windows: Vec<Option<u64>>,
    /// The different rates of the calls.
    pub(super) rates: Vec<Rates>,
}

/// A call to be replayed.
#[derive(Debug)]
pub(super) struct ReplayCall<'r> {
    pub(super) recorded: &'r RecordedCall,
    /// Index of the call's rates.
    pub(super) rates: u16,
    /// Tokens added to the history.
    pub(super) new: u64,
    /// Tokens of results among them.
    pub(super) results: u64,
    /// Tokens that the agent removed from the history before the call.
    pub(super) dropped: u64,
    pub(super) compaction: Option<ReplayCompaction>,
    /// Whether the pause before the call outlived the cache, by the provider's rule.
    pub(super) is_cold: bool,
    /// Whether the provider bills the tokens that it stores in the cache.
    stores: bool,
    /// Whether stored tokens have the long lifetime. Used if the call itself stores none.
    is_long: bool,
    /// Tokens that are read again after a cut before the call.
    read_again: Option<u64>,
}

/// The agent's compaction before a call.
#[derive(Debug)]
pub(super) struct ReplayCompaction {
    /// Tokens of the history before the compaction.
    pub(super) from: u64,
    /// The request of the compaction, if recorded: model, counts and dollars.
    pub(super) request: Option<(u16, TokenCounts, f64)>,
}

impl ReplayCall<'_> {
    /// Tokens of the input.
    pub(super) fn whole(&self) -> u64 {
        self.recorded.counts.whole_input()
    }

    /// Counts of a request of this size at this call. The tokens that no cache served are stored as those of the call.
    pub(super) fn billed(&self, whole: u64, cache_read: u64, output: u64) -> TokenCounts {
        // Callers limit `cache_read` to `whole`, so this cannot underflow.
        let rest = whole - cache_read;
        let counts = &self.recorded.counts;
        // A provider that bills writes leaves only the tail after the last breakpoint as plain input.
        let input = if self.stores { counts.input.min(rest) } else { rest };
        let stored = rest - input;
        let (short, long) = (counts.cache_write, counts.cache_write_long);
        let cache_write_long = match short + long {
            0 if self.is_long => stored,
            0 => 0,
            both => (u128::from(stored) * u128::from(long) / u128::from(both)) as u64,
        };
        TokenCounts {
            input,
            cache_read,
            cache_write: stored - cache_write_long,
            cache_write_long,
            output,
        }
    }
}

/// The context window of each model of a session.
///
/// A window that is smaller than the model's largest call cannot be the right one.
fn model_windows(session: &RecordedSession, windows: &Windows) -> Vec<Option<u64>> {
    let user_agent = match session.agent {
        Some(AgentKind::ClaudeCode) => "claude-cli/2",
        Some(AgentKind::Codex) => "codex",
        _ => "",
    };
    let window = |(at, (name, _)): (usize, &(String, Option<String>))| {
        let calls = session.calls.iter().filter(|call| usize::from(call.model) == at);
        let longest = calls.map(|call| call.counts.total()).max().unwrap_or_default();
        let usual = windows.in_agent(name, user_agent);
        let usual = usual.filter(|window| longest <= *window);
        usual.or_else(|| windows.holding(name, longest))
    };
    session.models.iter().enumerate().map(window).collect()
}

impl<'r> ReplaySession<'r> {
    /// Prepares a session at the prices of its day. `None` if it has no calls, or a model without a price.
    pub(super) fn new(session: &'r RecordedSession, prices: &PriceTable, windows: &Windows) -> Option<Self> {
        let calls = &session.calls;
        let first = calls.first()?;
        let whole = first.counts.whole_input();
        let prefix = match session.copied {
            // The first call has the prefix and the first messages. A session that begins with copied calls lacks such
            // a call.
            0 => whole.saturating_sub((first.said + first.results) / TOKEN_BYTES),
            _ => PREFIX_TOKENS,
        };
        // Every call contains the prefix, so it is no longer than the shortest call.
        let shortest = calls.iter().map(|call| call.counts.whole_input()).min();
        let prefix = prefix.min(shortest.unwrap_or_default());
        let mut rates = RateTable::new(session, prices);
        let step = step(calls);
        let reads = read_again(calls);
        let mut stores: HashMap<u16, bool> = HashMap::new();
        for call in calls {
            *stores.entry(call.model).or_default() |= call.counts.written() > 0;
        }
        let mut replayed: Vec<ReplayCall<'r>> = Vec::with_capacity(calls.len());
        let (mut before, mut is_long): (Option<&RecordedCall>, bool) = (None, false);
        for (call, read_again) in calls.iter().zip(reads) {
            if call.counts.written() > 0 {
                is_long = call.counts.cache_write_long > call.counts.cache_write;
            }
            let mut one = grown(before, call, prefix, step);
            one.rates = rates.of(call)?;
            if let Some(request) = &call.compaction {
                let at = rates.of(request)?;
                let cost = request.counts.cost(&rates.all[usize::from(at)]).total();
                one.compaction = Some(ReplayCompaction {
                    from: before.map_or(0, |before| before.counts.whole_input()),
                    request: Some((request.model, request.counts, cost)),
                });
            }
            let lifetime = CacheRule::for_model(session.model(call).0, is_long).lifetime_ms;
            one.is_cold = before.is_some_and(|before| call.at_ms.saturating_sub(before.at_ms) > lifetime);
            (one.is_long, one.read_again) = (is_long, read_again);
            one.stores = stores.get(&call.model).copied().unwrap_or_default();
            replayed.push(one);
            before = Some(call);
        }
        Some(Self {
            prefix,
            shared: shared(calls, prefix),
            tool: tool_tokens(),
            ends_finished: session.ends_finished,
            copied: session.copied,
            windows: model_windows(session, windows),
            names: session.models.iter().map(|(name, _)| name.clone()).collect(),
            rates: rates.all,
            calls: replayed,
        })
    }

    /// The rates of a call.
    pub(super) fn rates_of(&self, n: usize) -> &Rates {
        &self.rates[usize::from(self.calls[n].rates)]
    }

    /// The recorded cost of a call, and of the compaction before it, each with its model.
    pub(super) fn paid(&self, n: usize) -> impl Iterator<Item = (u16, f64)> {
        let call = &self.calls[n];
        let compaction = call.compaction.as_ref().and_then(|compaction| compaction.request);
        let compaction = compaction.map(|(model, _, cost)| (model, cost));
        let call = call.recorded;
        let cost = (call.counts.cost(self.rates_of(n)) + call.rounds.cost(self.rates_of(n))).total();
        compaction.into_iter().chain([(call.model, cost)])
    }

    /// Whether a turn that finished its to-do list ends before a call, or with the session.
    pub(super) fn ends_task(&self, n: usize) -> bool {
        n > 0
            && self
                .calls
                .get(n)
                .map_or(self.ends_finished, |call| call.recorded.finished)
    }

    /// Tokens that are read again after a cut before a call.
    pub(super) fn read_again(&self, n: usize) -> u64 {
        let call = self.calls.get(n);
        call.map_or(0, |call| call.read_again.unwrap_or(READ_AGAIN))
    }
}

/// The rates of a session's calls, each once.
struct RateTable<'a> {
    session: &'a RecordedSession,
    models: Vec<Option<&'a ModelPrices>>,
    all: Vec<Rates>,
}

impl<'a> RateTable<'a> {
    fn new(session: &'a RecordedSession, prices: &'a PriceTable) -> Self {
        let models = session.models.iter();
        Self {
            session,
            models: models.map(|(name, _)| prices.model(name, "")).collect(),
            all: Vec::new(),
        }
    }

    /// The index of a call's rates; `None` if its model has no price.
    fn of(&mut self, call: &RecordedCall) -> Option<u16> {
        let (model, service) = self.session.model(call);
        let query = PriceQuery {
            model,
            service,
            at_ms: call.at_ms,
            host: "",
        };
        let prices = self.models.get(usize::from(call.model)).copied()??;
        let rates = prices.rates(&query)?;
        let known = self.all.iter().position(|one| *one == rates);
        let at = known.unwrap_or_else(|| {
            self.all.push(rates);
            self.all.len() - 1
        });
        u16::try_from(at).ok()
    }
}

/// Tokens of the handoff tool in every request.
pub fn tool_tokens() -> u64 {
    let tool = Tool::handoff(None, true);
    (tool.description.len() + tool.schema.len()) as u64 / TOKEN_BYTES
}

/// Leading tokens that stay cached if the messages change: the most that were cached after the history was lost, else those cached at the
/// first call.
fn shared(calls: &[RecordedCall], prefix: u64) -> u64 {
    let is_cached = calls.iter().any(|call| call.counts.cache_read > 0);
    let lost = calls.windows(2).filter_map(|pair| {
        let read = pair[1].counts.cache_read;
        let is_lost = read < pair[0].counts.whole_input() / 2;
        Some(read).filter(|read| is_lost && (1..=prefix).contains(read))
    });
    let first = calls.first().map(|first| first.counts.cache_read);
    let first = first.filter(|read| (1..=prefix).contains(read));
    match lost.max().or(first) {
        Some(read) => read,
        // The cache was never lost in the record, so nothing contradicts that the whole prefix stays cached.
        None if is_cached => prefix,
        None => 0,
    }
}

/// Computes the change of the history at a call.
fn grown<'r>(
    before: Option<&RecordedCall>,
    call: &'r RecordedCall,
    prefix: u64,
    step: u64,
) -> ReplayCall<'r> {
    let whole = call.counts.whole_input();
    let last = before.map_or(0, |before| before.counts.whole_input());
    let has_shrunk = last >= MIN_SHRUNK_TOKENS && (whole as f64) < last as f64 * SHRUNK;
    let compacted = before.is_some() && whole < last && (call.compacted || has_shrunk);
    let (new, dropped) = match compacted {
        // The record has only the summary, so the growth of this call is unknown.
        true => (step, 0),
        false if whole >= last => (whole - last, 0),
        // After a rewind the cache served the remaining history.
        false => {
            let left = Some(call.counts.cache_read).filter(|read| (prefix.max(1)..whole).contains(read));
            let left = left.unwrap_or(whole);
            (whole - left, last - left)
        }
    };
    ReplayCall {
        recorded: call,
        rates: 0,
        new,
        results: (call.results / TOKEN_BYTES).min(new),
        dropped,
        compaction: compacted.then_some(ReplayCompaction {
            from: last,
            request: None,
        }),
        is_cold: false,
        stores: false,
        is_long: false,
        read_again: None,
    }
}

/// Mean growth of the history in a call.
fn step(calls: &[RecordedCall]) -> u64 {
    let input = |call: &RecordedCall| call.counts.whole_input();
    let pairs = calls.windows(2);
    let grown = pairs.filter_map(|pair| input(&pair[1]).checked_sub(input(&pair[0])));
    let (sum, count) = grown.fold((0_u64, 0_u64), |(sum, count), new| (sum + new, count + 1));
    sum.checked_div(count).unwrap_or(STEP_TOKENS)
}

/// For a cut before each call: tokens of the files that were read before it, and that are changed after it without being read first.
/// Later calls contain the session's own repeated reads. `None` if no file was read before.
fn read_again(calls: &[RecordedCall]) -> Vec<Option<u64>> {
    let mut files: HashMap<u64, (usize, u64)> = HashMap::new();
    let mut first_read = usize::MAX;
    let mut change = vec![(0_u64, 0_u64); calls.len() + 1];
    for (at, call) in calls.iter().enumerate() {
        for (path, tokens) in &call.files {
            if *tokens > 0 {
                first_read = first_read.min(at);
                files.insert(*path, (at, u64::from(*tokens)));
            // The session changed the file from memory; after a cut in between, the model would have to read it first.
            } else if let Some((last, tokens)) = files.get_mut(path) {
                // The file counts for cuts between the previous call that named it and this one.
                change[*last].0 += *tokens;
                change[at].1 += *tokens;
                *last = at;
            }
        }
    }
    let mut sum = 0;
    let each = calls.iter().enumerate().map(|(at, _)| {
        sum = sum + change[at].0 - change[at].1;
        (at >= first_read).then_some(sum)
    });
    each.collect()
}
