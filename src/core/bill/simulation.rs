//! Simulates a provider's cache of one conversation, to compute the billing of requests with known contents.

use super::cache::CacheRule;
use super::cost::TokenCounts;

/// A part of a request. It is the same in every request that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSegment {
    /// Identifies the content.
    pub id: u64,
    pub tokens: u64,
}

/// State of the provider's cache for a conversation's requests.
#[derive(Debug, Clone)]
pub struct SimulatedCache {
    rule: CacheRule,
    write_is_billed: bool,
    requests: Vec<CachedRequest>,
}

#[derive(Debug, Clone)]
struct CachedRequest {
    at_ms: u64,
    segments: Vec<RequestSegment>,
}

impl SimulatedCache {
    /// Creates an empty cache.
    ///
    /// `write_is_billed` tells whether storing input has its own price
    /// ([`Rates::write_is_billed`](super::Rates::write_is_billed)).
    pub fn new(rule: CacheRule, write_is_billed: bool) -> Self {
        Self {
            rule,
            write_is_billed,
            requests: Vec::new(),
        }
    }

    /// Sends a request, and returns the billed counts.
    ///
    /// All input that is not cached is stored. Times must not decrease. A read renews the lifetime of the
    /// input that it reads.
    pub fn send(&mut self, at_ms: u64, segments: &[RequestSegment], output: u64) -> TokenCounts {
        let lifetime = self.rule.lifetime_ms;
        self.requests
            .retain(|request| at_ms.saturating_sub(request.at_ms) <= lifetime);
        let shared = |request: &CachedRequest| {
            let pairs = request.segments.iter().zip(segments);
            pairs.take_while(|(cached, sent)| cached == sent).count()
        };
        // A branch may continue an older request, so the longest common prefix counts.
        let common = self.requests.iter().map(shared).max().unwrap_or_default();
        let tokens = |segments: &[RequestSegment]| segments.iter().map(|segment| segment.tokens).sum::<u64>();
        let whole = tokens(segments);
        let cached = Some(tokens(&segments[..common])).filter(|cached| *cached >= self.rule.least_tokens);
        // Shorter requests that this one contains are no longer needed: they are cached with it.
        self.requests
            .retain(|request| !segments.starts_with(&request.segments));
        self.requests.push(CachedRequest {
            at_ms,
            segments: segments.to_vec(),
        });
        let cache_read = cached.unwrap_or_default();
        let rest = whole - cache_read;
        // Providers ignore cache breakpoints of prefixes below the minimum, and bill them as plain input.
        let stored = self.write_is_billed && whole >= self.rule.least_tokens;
        TokenCounts {
            input: if stored { 0 } else { rest },
            cache_read,
            cache_write: if stored { rest } else { 0 },
            cache_write_long: 0,
            output,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BilledExchange, BilledRequest, ConversationBill, PriceQuery, PriceTable, Rates};
    use super::*;
    use proptest::prelude::*;

    const MINUTE: u64 = 60_000;

    fn segment(id: u64, tokens: u64) -> RequestSegment {
        RequestSegment { id, tokens }
    }

    fn opus() -> SimulatedCache {
        SimulatedCache::new(CacheRule::for_model("claude-opus-5-5", false), true)
    }

    #[test]
    fn a_beginning_is_read_while_it_is_warm() {
        let mut cache = opus();
        let (prefix, first, other) = (segment(0, 1_000), segment(1, 500), segment(2, 700));
        let billed = |cache: &mut SimulatedCache, at, segments: &[RequestSegment]| {
            let counts = cache.send(at, segments, 9);
            assert_eq!((counts.input, counts.output), (0, 9));
            (counts.cache_read, counts.cache_write)
        };
        assert_eq!(billed(&mut cache, 0, &[prefix, first]), (0, 1_500));
        assert_eq!(
            billed(&mut cache, 4 * MINUTE, &[prefix, first, other]),
            (1_500, 700)
        );
        // Another branch only shares the beginning, and does not renew the rest of the longer one.
        assert_eq!(billed(&mut cache, 8 * MINUTE, &[prefix, other]), (1_000, 700));
        assert_eq!(
            billed(&mut cache, 10 * MINUTE, &[prefix, first, other]),
            (1_000, 1_200)
        );
        assert_eq!(billed(&mut cache, 16 * MINUTE, &[prefix, other]), (0, 1_700));
    }

    #[test]
    fn too_short_a_beginning_is_neither_read_nor_stored() {
        let mut cache = SimulatedCache::new(CacheRule::for_model("claude-sonnet-5-5", false), true);
        let short = [segment(0, 1_000)];
        for _ in 0..2 {
            assert_eq!(cache.send(0, &short, 0).input, 1_000);
        }
        let mut free = SimulatedCache::new(CacheRule::for_model("gemini-4-argon", false), false);
        let long = [segment(0, 5_000)];
        assert_eq!(free.send(0, &long, 0).input, 5_000);
        assert_eq!(free.send(0, &long, 0).cache_read, 5_000);
    }

    fn rates() -> Rates {
        let table: PriceTable = serde_json::from_value(serde_json::json!({
            "source": "test", "date": "2026-11-23",
            "provider": [{"id": "anthropic", "model": [{"id": "claude-opus-5-5", "names": ["claude-opus-5-5"], "price": [
                {"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0}]}]}]
        }))
        .unwrap();
        let model = "claude-opus-5-5";
        table
            .rates(&PriceQuery {
                model,
                ..PriceQuery::default()
            })
            .unwrap()
    }

    /// An exchange after the handoff: the minutes of the pause before it, its tokens, and its bytes per ten
    /// tokens.
    type Step = (u64, u64, u64);

    /// Simulates a session with a history of 100,000 tokens and a handoff, as the provider bills it.
    ///
    /// Returns the cost of the same session without the handoff: simulated, and as estimated by the bill.
    fn both(steps: &[Step]) -> [f64; 2] {
        let rates = rates();
        let (mut with, mut without) = (opus(), opus());
        let prefix = segment(0, 21_000);
        let mut whole = vec![prefix, segment(1, 79_000)];
        let mut cut = vec![prefix, segment(2, 1_500)];
        let (mut bill, mut at_ms, mut received_bytes) = (ConversationBill::default(), 0, 400_000);
        let request = |bytes, usage| BilledRequest {
            bytes,
            usage: Some(usage),
            model: "claude-opus-5-5".to_owned(),
            rates: Some(rates.clone()),
            cache_miss: None,
            own: false,
        };
        let first = with.send(0, &whole, 0);
        without.send(0, &whole, 0);
        bill.add(&BilledExchange {
            received_bytes,
            requests: vec![request(received_bytes, first)],
            ..BilledExchange::default()
        });
        let (mut simulated, mut estimated) = (0.0, 0.0);
        for (n, &(pause, tokens, bytes)) in steps.iter().enumerate() {
            at_ms += pause * MINUTE;
            received_bytes += tokens * bytes / 10;
            let step = segment(10 + n as u64, tokens);
            whole.push(step);
            cut.push(step);
            simulated += without.send(at_ms, &whole, 400).cost(&rates).total();
            let usage = with.send(at_ms, &cut, 400);
            let added = bill.add(&BilledExchange {
                at_ms,
                received_bytes,
                fixed_bytes: 84_000,
                handoff: Some("1".to_owned()),
                requests: vec![request(cut.iter().map(|s| s.tokens * 4).sum(), usage)],
                ..BilledExchange::default()
            });
            estimated += added.without.unwrap().cost.unwrap().total();
        }
        [simulated, estimated]
    }

    proptest! {
        /// The bill knows bytes and the usage of the real requests. The simulation knows the tokens on both
        /// sides.
        #[test]
        fn the_bills_estimate_is_what_the_session_would_have_cost(
            steps in prop::collection::vec((prop_oneof![1_u64..4, 6_u64..90], 200_u64..4_000, 36_u64..44), 3..60),
        ) {
            let [simulated, estimated] = both(&steps);
            prop_assert!((estimated / simulated - 1.0).abs() < 0.05, "{simulated} and {estimated}");
        }
    }
}
