//! Causes of lost caches, and the extra cost of each.

use serde::Serialize;

use super::session::RecordedSession;
use crate::bill::{CacheRule, Rates, TokenCounts, dollars};

/// Minimum number of tokens stored again that count as a lost cache; fewer are rounding at cache boundaries.
const MIN_REWRITTEN_TOKENS: u64 = 1_000;

named! {
    /// Cause of a lost cache.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LossCause {
        /// The agent compacted, so that all messages are new.
        Compaction = "compaction",
        /// Another model, which has its own cache.
        ModelSwitch = "model switch",
        /// The pause outlived the cache.
        Expired = "expired",
        /// Neither a pause nor another model: an earlier part of the request changed.
        PrefixChange = "prefix change",
    }
}

/// Caches that were lost for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LostCaches {
    pub cause: LossCause,
    pub calls: usize,
    /// Tokens that were stored again.
    pub tokens: u64,
    /// Extra dollars compared with reading the tokens from the cache.
    #[serde(serialize_with = "dollars")]
    pub cost: f64,
}

impl LostCaches {
    /// Adds the lost caches of another session.
    pub(super) fn add(all: &mut Vec<Self>, other: &Self) {
        match all.iter_mut().find(|known| known.cause == other.cause) {
            Some(known) => {
                known.calls += other.calls;
                known.tokens += other.tokens;
                known.cost += other.cost;
            }
            None => all.push(*other),
        }
    }
}

/// Finds why a call stored cached tokens again, and how many. `None` if the cache served the call.
pub fn lost_cache(session: &RecordedSession, at: usize) -> Option<(LossCause, u64)> {
    let (before, call) = (session.calls.get(at.checked_sub(1)?)?, session.calls.get(at)?);
    let lost = before.counts.whole_input().saturating_sub(call.counts.cache_read);
    // Input that is neither read nor stored again counts as removed by the agent, and not as lost.
    let rewritten = lost.min(call.counts.written());
    if rewritten < MIN_REWRITTEN_TOKENS {
        return None;
    }
    // The last call that stored input shows the lifetime that the agent requests.
    let mut newest_first = session.calls[..at].iter().rev();
    let wrote = newest_first.find(|call| call.counts.written() > 0);
    let is_long = wrote.is_some_and(|call| call.counts.cache_write_long > 0);
    let lifetime = CacheRule::for_model(session.model(before).0, is_long).lifetime_ms;
    let cause = match () {
        // Before the pause: a compaction or another model loses the cache even within its lifetime.
        () if call.compacted => LossCause::Compaction,
        () if session.model(before).0 != session.model(call).0 => LossCause::ModelSwitch,
        () if call.answered_ms.saturating_sub(before.answered_ms) >= lifetime => LossCause::Expired,
        () => LossCause::PrefixChange,
    };
    Some((cause, rewritten))
}

/// Sums up the lost caches of a session by their cause. `rates` returns the rates of a call by its index.
pub(super) fn lost_caches<'r>(
    session: &RecordedSession,
    rates: impl Fn(usize) -> &'r Rates,
) -> Vec<LostCaches> {
    let mut all = Vec::new();
    for at in session.copied.max(1)..session.calls.len() {
        let Some((cause, tokens)) = lost_cache(session, at) else {
            continue;
        };
        let cost = premium(session.calls[at].counts, tokens, rates(at));
        let lost = LostCaches {
            cause,
            calls: 1,
            tokens,
            cost,
        };
        LostCaches::add(&mut all, &lost);
    }
    all
}

/// Extra dollars of storing this many tokens instead of reading them.
fn premium(counts: TokenCounts, tokens: u64, rates: &Rates) -> f64 {
    let share = tokens as f64 / counts.written().max(1) as f64;
    let stored = counts.cost(rates).cache_write * share;
    let moved = TokenCounts {
        cache_read: counts.whole_input(),
        ..TokenCounts::default()
    };
    stored - moved.cost(rates).cache_read * tokens as f64 / counts.whole_input().max(1) as f64
}
