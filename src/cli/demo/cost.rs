//! The cost of the demo at a provider: its requests against a simulated cache, at the built-in prices.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use serde::Serialize;

use crate::state::prices;
use baton_core::bill::{CacheRule, PriceQuery, Rates, RequestSegment, SimulatedCache};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::record::WireId;
use baton_core::wire::{Operation, wire};

/// The model whose prices and cache rule are used.
const MODEL: &str = "claude-opus-5-5";

/// The date of the prices: the demo costs the same on every day.
const NOVEMBER_23: u64 = 1_795_435_200_000;

/// Pause between two requests: the cache stays warm.
const PAUSE_MS: u64 = 60_000;

/// Cost of all requests in US dollars, without the output that both sessions have. The field names are API.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct DemoCost {
    /// The model whose prices are used.
    pub(super) model: &'static str,
    /// As the proxy sent them.
    pub(super) with: f64,
    /// As the agent sent them.
    pub(super) without: f64,
}

/// Adds the requests up as they are sent.
pub(super) struct CostMeter {
    rates: Rates,
    with: SimulatedCache,
    without: SimulatedCache,
    at_ms: u64,
    pub(super) cost: DemoCost,
}

impl CostMeter {
    /// `None` where the embedded table lacks the model.
    pub(super) fn new() -> Option<Self> {
        let query = PriceQuery {
            model: MODEL,
            at_ms: NOVEMBER_23,
            ..PriceQuery::default()
        };
        let rates = prices::table(None).ok()?.rates(&query)?;
        let cache = SimulatedCache::new(CacheRule::of(MODEL, false), rates.write_is_billed);
        Some(Self {
            rates,
            with: cache.clone(),
            without: cache,
            at_ms: 0,
            cost: DemoCost {
                model: MODEL,
                ..DemoCost::default()
            },
        })
    }

    /// The agent's next request, and what was sent upstream for it; `prompt_bytes` of a carry-over prompt were written.
    pub(super) fn add(&mut self, received: &Bytes, sent: &[Bytes], prompt_bytes: usize) {
        self.at_ms += PAUSE_MS;
        let without = self.without.send(self.at_ms, &segments(received), 0);
        self.cost.without += without.cost(&self.rates).total();
        let mut prompt_tokens = prompt_bytes as u64 / BYTES_PER_TOKEN;
        for body in sent {
            let prompt_tokens = std::mem::take(&mut prompt_tokens);
            let counts = self.with.send(self.at_ms, &segments(body), prompt_tokens);
            self.cost.with += counts.cost(&self.rates).total();
        }
    }
}

/// System prompt and tools, then the turns.
fn segments(body: &Bytes) -> Vec<RequestSegment> {
    let segment = |content: &[u8]| {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        RequestSegment {
            id: hasher.finish(),
            tokens: content.len() as u64 / BYTES_PER_TOKEN,
        }
    };
    let Ok(view) = wire(WireId::Anthropic).read(body, Operation::Generate) else {
        return vec![segment(body)];
    };
    let list = view.list;
    let fixed = [&body[..list.start], &body[list.end..]].concat();
    let turns = view.turns.iter().map(|turn| segment(turn.span.of(body)));
    std::iter::once(segment(&fixed)).chain(turns).collect()
}
