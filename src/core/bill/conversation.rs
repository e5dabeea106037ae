//! The bill of one conversation: its exchanges in order, each with its cost and the estimated cost without
//! baton.

use super::cache::{CacheMiss, CacheRule};
use super::cost::{Cost, TokenCounts};
use super::prices::Rates;

/// Tokens of a summary that an agent replaces its history with. An assumption: agents ask for a few thousand
/// words.
pub(super) const SUMMARY_TOKENS: u64 = 4_000;

/// Tokens per byte of a carry-over prompt: models' prose has four bytes per token.
const PROMPT_TOKENS_PER_BYTE: f64 = 0.25;

/// An upstream request of an exchange.
#[derive(Debug, Clone, Default)]
pub struct BilledRequest {
    /// Size of the body in bytes.
    pub bytes: u64,
    /// The provider's counts; `None` if the response did not complete.
    pub usage: Option<TokenCounts>,
    /// The model that responded.
    pub model: String,
    /// The model's rates at that time; `None` if there is no price, or none applies.
    pub rates: Option<Rates>,
    /// Why the provider's cache did not serve the request, if the response tells.
    pub cache_miss: Option<CacheMiss>,
    /// Whether baton sent the request on its own: a draft, or the result of a recall.
    pub own: bool,
}

/// An exchange, reduced to the inputs of the bill.
#[derive(Debug, Clone, Default)]
pub struct BilledExchange {
    /// When the first request was sent, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Size of the agent's request in bytes, with its whole history.
    pub received_bytes: u64,
    /// Bytes before the first message: system prompt and tools.
    pub fixed_bytes: u64,
    /// The handoff that the history was cut at, or that fired here.
    pub handoff: Option<String>,
    /// Bytes of the carry-over prompts that the model wrote here, which it would not write without baton.
    pub prompt_bytes: u64,
    /// Tokens at which the agent compacts on its own: its threshold, or the model's window.
    pub limit: Option<u64>,
    /// Upstream requests, in order.
    pub requests: Vec<BilledRequest>,
}

/// The actual and the estimated cost of an exchange.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExchangeBill {
    /// The provider's counts of all requests.
    pub tokens: TokenCounts,
    /// Cost of all requests; `None` if one of them has no price.
    pub cost: Option<Cost>,
    /// Estimate of the exchange with the agent's whole history; `None` if the provider counted nothing.
    pub without: Option<WithoutBaton>,
}

/// An exchange as it would have been without baton.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WithoutBaton {
    /// Estimated counts.
    pub tokens: TokenCounts,
    /// Estimated cost; `None` if the model has no price.
    pub cost: Option<Cost>,
    /// Whether the history was too long, so that the agent would have compacted it first. Includes the
    /// summary's request.
    pub compacted: bool,
    /// Expected relative error of the estimated input; zero if the counts are the provider's.
    pub error: f64,
}

/// The running bill of one conversation. Exchanges must be added in the order of sending.
#[derive(Debug, Clone, Default)]
pub struct ConversationBill {
    ratio: TokenRatio,
    /// Total counts so far. Their proportions show how the provider caches and bills input.
    caching: TokenCounts,
    history: Option<History>,
    /// The handoff of the last exchange.
    handoff: Option<String>,
}

/// Tokens per byte, learned from the provider's counts.
#[derive(Debug, Clone, Copy, Default)]
struct TokenRatio {
    bytes: u64,
    tokens: u64,
    /// Sum of the deviations of estimates from the provider's later counts.
    deviation: f64,
    /// Sum of these later counts.
    compared: f64,
}

/// The agent's history as a provider would have cached it with the last request.
#[derive(Debug, Clone, Default)]
struct History {
    at_ms: u64,
    model: String,
    /// Size of the last request in bytes.
    bytes: u64,
    /// Size of the last request in tokens.
    tokens: u64,
    /// Tokens of the agent's history that modelled compactions have replaced so far.
    replaced: u64,
}

/// A modelled request: its tokens, the cached ones among them, and the output.
#[derive(Debug, Clone, Copy)]
struct ModelledRequest {
    tokens: u64,
    cached: u64,
    output: u64,
}

impl ExchangeBill {
    /// Dollars that baton saved here; negative if it cost more. `None` if either side has no price.
    pub fn saved(&self) -> Option<f64> {
        let without = self.without.as_ref()?.cost?;
        Some(without.total() - self.cost?.total())
    }

    /// The expected error of [`Self::saved`], in dollars.
    pub fn error(&self) -> Option<f64> {
        let without = self.without.as_ref()?;
        let cost = without.cost?;
        Some((cost.total() - cost.output) * without.error)
    }
}

impl ConversationBill {
    /// Adds the next exchange, and returns its bill.
    pub fn add(&mut self, exchange: &BilledExchange) -> ExchangeBill {
        let answered = || {
            let requests = exchange.requests.iter();
            requests.filter_map(|request| Some((request, request.usage?)))
        };
        let mut bill = ExchangeBill {
            cost: Some(Cost::default()),
            ..ExchangeBill::default()
        };
        for (request, usage) in answered() {
            bill.tokens += usage;
            let cost = request.rates.as_ref().map(|rates| usage.cost(rates));
            // A single request without a price makes the sum unknown, because a partial sum would read as a
            // saving.
            bill.cost = bill.cost.zip(cost).map(|(sum, cost)| sum + cost);
        }
        // The last of the agent's own requests: earlier ones were refused, or cut without the agent's
        // knowledge.
        let Some((main, usage)) = answered().rfind(|(request, _)| !request.own) else {
            // Without any response, the cost is unknown and not zero.
            bill.cost = bill.cost.filter(|_| answered().next().is_some());
            return bill;
        };
        for (request, usage) in answered() {
            self.ratio.learn(request.bytes, usage.whole_input());
            self.caching += usage;
        }
        // The carry-over prompt is output that the agent would not have paid for without baton.
        let agents = answered().filter(|(request, _)| !request.own);
        let output: u64 = agents.map(|(_, usage)| usage.output).sum();
        let prompt = (exchange.prompt_bytes as f64 * PROMPT_TOKENS_PER_BYTE) as u64;
        let output = output.saturating_sub(prompt);
        if self.is_aside(exchange, main) {
            bill.without = Some(self.as_sent(exchange, main, usage));
            return bill;
        }
        let without = if exchange.handoff.is_some() || self.handoff.is_some() {
            let is_cold = main.cache_miss.is_some_and(|miss| miss.is_cold(usage));
            // A request right after a cut reads little from the cache anyway. Only later does that show a
            // lost cache.
            let missed = exchange.handoff == self.handoff && (is_cold || usage.cache_read == 0);
            self.whole_history(exchange, main, output, missed)
        } else {
            // Before the first handoff, the agent's history is the one that was sent.
            let without = self.as_sent(exchange, main, usage);
            self.history = Some(History {
                at_ms: exchange.at_ms,
                model: main.model.clone(),
                bytes: exchange.received_bytes,
                tokens: without.tokens.whole_input(),
                replaced: 0,
            });
            without
        };
        self.handoff.clone_from(&exchange.handoff);
        bill.without = Some(without);
        bill
    }

    /// Whether the agent sent this outside of its main loop, as for a title or a page's summary.
    ///
    /// These requests go to another model, and are much shorter.
    fn is_aside(&self, exchange: &BilledExchange, main: &BilledRequest) -> bool {
        let beside = |history: &History| {
            // Both conditions, because a user may change the model in the middle of the conversation.
            main.model != history.model && exchange.received_bytes.saturating_mul(2) < history.bytes
        };
        self.history.as_ref().is_some_and(beside)
    }

    /// The provider's counts, without baton's additions to the agent's request.
    fn as_sent(&self, exchange: &BilledExchange, main: &BilledRequest, usage: TokenCounts) -> WithoutBaton {
        let mut tokens = usage;
        let mut left = self
            .ratio
            .tokens(main.bytes.saturating_sub(exchange.received_bytes));
        // Injected text and tools precede the history, so they are cached if anything is.
        for part in [
            &mut tokens.cache_read,
            &mut tokens.cache_write_long,
            &mut tokens.cache_write,
            &mut tokens.input,
        ] {
            let taken = left.min(*part);
            *part -= taken;
            left -= taken;
        }
        WithoutBaton {
            tokens,
            cost: main.rates.as_ref().map(|rates| tokens.cost(rates)),
            compacted: false,
            error: 0.0,
        }
    }

    /// Estimates the exchange with the whole history, after a handoff.
    ///
    /// The size follows from this conversation's tokens per byte, and the caching from the provider's rule.
    fn whole_history(
        &mut self,
        exchange: &BilledExchange,
        main: &BilledRequest,
        output: u64,
        missed: bool,
    ) -> WithoutBaton {
        let before = self.history.take().unwrap_or_default();
        // The agent compacted or went back: neither the earlier size nor the earlier cache applies.
        let shrank = exchange.received_bytes < before.bytes;
        // A compaction by the agent itself replaces those that were only modelled.
        let replaced = if shrank { 0 } else { before.replaced };
        let mut tokens = self.estimate(exchange, &before, shrank).saturating_sub(replaced);
        let caching = self.caching;
        let rule = CacheRule::for_model(&main.model, caching.cache_write_long > caching.cache_write);
        // `caching` shows whether this provider served anything from a cache so far.
        let warm = before.model == main.model
            && exchange.at_ms.saturating_sub(before.at_ms) <= rule.lifetime_ms
            && caching.whole_input() > caching.input
            && !missed;
        let cached = |shared: u64| match warm && shared >= rule.least_tokens {
            true => shared,
            false => 0,
        };
        let request = |tokens: u64, shared: u64, output| ModelledRequest {
            tokens,
            cached: cached(shared.min(tokens)),
            output,
        };
        let fixed = self.ratio.tokens(exchange.fixed_bytes);
        let compacted = exchange.limit.is_some_and(|limit| tokens > limit);
        let mut replaced_now = replaced;
        let requests = if compacted {
            // The agent summarizes the history before this request, which then continues from the summary.
            let new = tokens.saturating_sub(before.tokens);
            let after = fixed.saturating_add(SUMMARY_TOKENS).saturating_add(new);
            replaced_now = replaced.saturating_add(tokens.saturating_sub(after));
            tokens = tokens.min(after);
            // The agent sends its whole history for the summary, which a warm cache serves.
            let summary = request(before.tokens, before.tokens, SUMMARY_TOKENS);
            vec![summary, request(tokens, fixed, output)]
        } else {
            let shared = if shrank { fixed } else { before.tokens };
            vec![request(tokens, shared, output)]
        };
        self.history = Some(History {
            at_ms: exchange.at_ms,
            model: main.model.clone(),
            bytes: exchange.received_bytes,
            tokens,
            replaced: replaced_now,
        });
        self.modelled(&requests, main.rates.as_ref(), compacted)
    }

    fn modelled(&self, requests: &[ModelledRequest], rates: Option<&Rates>, compacted: bool) -> WithoutBaton {
        let mut without = WithoutBaton {
            cost: rates.map(|_| Cost::default()),
            compacted,
            error: self.ratio.error(),
            ..WithoutBaton::default()
        };
        for request in requests {
            let counts = request.counts(self.caching);
            without.tokens += counts;
            if let (Some(sum), Some(rates)) = (&mut without.cost, rates) {
                *sum += counts.cost(rates);
            }
        }
        without
    }

    /// Tokens of the agent's whole history: the last known ones, plus the additions since if it only grew.
    fn estimate(&self, exchange: &BilledExchange, before: &History, shrank: bool) -> u64 {
        if shrank || before.bytes == 0 {
            return self.ratio.tokens(exchange.received_bytes);
        }
        let grown = self.ratio.tokens(exchange.received_bytes - before.bytes);
        let whole = before.tokens.saturating_add(before.replaced);
        whole.saturating_add(grown)
    }
}

impl TokenRatio {
    fn learn(&mut self, bytes: u64, tokens: u64) {
        if self.bytes > 0 {
            // Measured before the request is learned, as an estimate would have been made.
            self.deviation += self.tokens(bytes).abs_diff(tokens) as f64;
            self.compared += tokens as f64;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    fn tokens(&self, bytes: u64) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        (bytes as f64 * (self.tokens as f64 / self.bytes as f64)).round() as u64
    }

    fn error(&self) -> f64 {
        if self.compared == 0.0 {
            return 0.0;
        }
        self.deviation / self.compared
    }
}

impl ModelledRequest {
    /// The counts of the request. Uncached input is stored in the same proportion as the conversation's input
    /// so far.
    fn counts(self, so_far: TokenCounts) -> TokenCounts {
        let rest = self.tokens.saturating_sub(self.cached);
        let uncached = so_far.whole_input() - so_far.cache_read;
        let share = |part: u64| match uncached {
            0 => 0,
            _ => (rest as f64 * (part as f64 / uncached as f64)).round() as u64,
        };
        let (cache_write, cache_write_long) = (share(so_far.cache_write), share(so_far.cache_write_long));
        TokenCounts {
            input: rest.saturating_sub(cache_write.saturating_add(cache_write_long)),
            cache_read: self.cached,
            cache_write,
            cache_write_long,
            output: self.output,
        }
    }
}
