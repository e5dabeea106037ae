//! A table of prices: `config/prices.toml` in the form in which it is written, and the lookup of a model's rates.

use serde::Deserialize;

use crate::text::date::day_number;

/// Prices of models, by provider.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Where the figures are from.
    pub source: String,
    /// When they were taken over, `YYYY-MM-DD`.
    pub date: String,
    #[serde(default)]
    provider: Vec<ProviderPrices>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderPrices {
    id: String,
    /// Hosts of its API, each with its subdomains.
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    model: Vec<ModelPrices>,
}

/// The prices of one model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrices {
    /// The model's name in the table.
    pub id: String,
    /// Patterns of the names that it answers to, in lower case: `*` is any text, `#` a digit.
    names: Vec<String>,
    /// Rows in order; of those whose conditions hold, the last counts.
    price: Vec<PriceRow>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    /// The first day on which it holds, `YYYY-MM-DD`.
    since: Option<String>,
    /// The hours of the day in UTC in which it holds, `HH:MM-HH:MM`.
    hours: Option<String>,
    /// What the provider's usage says of the request's speed (Anthropic).
    speed: Option<String>,
    /// What the provider's answer says of the request's tier (OpenAI).
    service_tier: Option<String>,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
    /// Rates of requests with more tokens of input, ascending. A rate that is absent is the one before.
    #[serde(default)]
    above: Vec<PriceStep>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceStep {
    tokens: u64,
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
}

/// What chooses a price.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriceQuery<'a> {
    /// The model that answered.
    pub model: &'a str,
    /// The host of the request. A provider that serves it is examined alone; of an unknown one, all are.
    pub host: &'a str,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The `speed` of the usage, or the `service_tier` of the answer.
    pub service: Option<&'a str>,
}

/// Rates of one model at one time, in dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    base: RateStep,
    /// Number of input tokens that is exceeded, and the rates then; ascending.
    above: Vec<(u64, RateStep)>,
    /// Whether storing input in a cache has a price of its own.
    pub write_is_billed: bool,
}

/// The rates that hold for one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateStep {
    pub(super) input: f64,
    pub(super) cache_read: f64,
    pub(super) cache_write: f64,
    pub(super) cache_write_long: f64,
    pub(super) output: f64,
}

/// Why a table was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTableError(pub String);

impl std::fmt::Display for PriceTableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PriceTableError {}

impl PriceTable {
    /// Checks what the form alone cannot hold: rates that are no amounts, steps out of order, dates that are none.
    ///
    /// # Errors
    /// The first problem, with the model that has it.
    pub fn check(&self) -> Result<(), PriceTableError> {
        let models = self.provider.iter().flat_map(|provider| &provider.model);
        for model in models {
            let fail = |problem: &str| {
                Err(PriceTableError(format!(
                    "the prices of `{}`: {problem}",
                    model.id
                )))
            };
            if model.names.is_empty() || model.price.is_empty() {
                return fail("`names` and `price` need an entry each");
            }
            for row in &model.price {
                if row.amounts().any(|rate| !rate.is_finite() || rate < 0.0) {
                    return fail("a rate is not an amount");
                }
                if row.above.windows(2).any(|pair| pair[0].tokens >= pair[1].tokens) {
                    return fail("the steps of `above` are not ascending");
                }
                if row.since.as_deref().is_some_and(|day| day_number(day).is_none()) {
                    return fail("`since` is not a day as 2026-11-23");
                }
                if row.hours.as_deref().is_some_and(|hours| minutes(hours).is_none()) {
                    return fail("`hours` are not as 01:00-04:00");
                }
            }
        }
        Ok(())
    }

    /// The model of this name: of the provider that serves the host, or of any where none does.
    pub fn model(&self, name: &str, host: &str) -> Option<&ModelPrices> {
        let name = bare_name(name);
        let mut candidates: Vec<_> = self
            .provider
            .iter()
            .filter(|provider| provider.serves(host))
            .collect();
        if candidates.is_empty() {
            candidates.extend(&self.provider);
        }
        let models = candidates.into_iter().flat_map(|provider| &provider.model);
        // The most exact pattern counts; of two alike the first.
        models
            .filter_map(|model| Some((model.exactness(&name)?, model)))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, model)| model)
    }

    /// The rates of a request; `None` where the table does not know its model.
    pub fn rates(&self, query: &PriceQuery<'_>) -> Option<Rates> {
        self.model(query.model, query.host)?.rates(query)
    }
}

impl ProviderPrices {
    fn serves(&self, host: &str) -> bool {
        let serves = |own: &String| {
            let before = host.strip_suffix(own.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        !self.id.is_empty() && self.hosts.iter().any(serves)
    }
}

impl ModelPrices {
    /// Literal characters of the most exact pattern that the name has; an exact name counts more than any pattern.
    fn exactness(&self, name: &str) -> Option<usize> {
        let matching = self
            .names
            .iter()
            .filter(|pattern| glob(pattern.as_bytes(), name.as_bytes()));
        let literal = |pattern: &String| match pattern.contains('*') {
            true => pattern.bytes().filter(|byte| *byte != b'*').count(),
            false => usize::MAX,
        };
        matching.map(literal).max()
    }

    /// Its rates at that time for that service; the query's name and host are not examined.
    pub fn rates(&self, query: &PriceQuery<'_>) -> Option<Rates> {
        let row = self.price.iter().rfind(|row| row.holds(query));
        row.map(PriceRow::rates)
    }
}

impl PriceRow {
    fn holds(&self, query: &PriceQuery<'_>) -> bool {
        let day = query.at_ms / 86_400_000;
        let minute = query.at_ms / 60_000 % 1440;
        let since = self
            .since
            .as_deref()
            .is_none_or(|since| day_number(since).is_some_and(|first| first <= day));
        let is_within = |(from, to)| match from <= to {
            true => (from..to).contains(&minute),
            false => minute >= from || minute < to,
        };
        let hours = self
            .hours
            .as_deref()
            .is_none_or(|hours| minutes(hours).is_some_and(is_within));
        let conditions = [&self.speed, &self.service_tier];
        let served = conditions
            .iter()
            .all(|own| own.as_deref().is_none_or(|own| query.service == Some(own)));
        since && hours && served
    }

    fn rates(&self) -> Rates {
        let base = RateStep {
            input: self.input,
            cache_read: self.cache_read.unwrap_or(self.input),
            cache_write: self.cache_write.unwrap_or(self.input),
            cache_write_long: self.cache_write_long.or(self.cache_write).unwrap_or(self.input),
            output: self.output,
        };
        let steps = self.above.iter().scan(base, |rates, step| {
            *rates = step.over(*rates);
            Some((step.tokens, *rates))
        });
        Rates {
            base,
            above: steps.collect(),
            write_is_billed: self.cache_write.is_some(),
        }
    }

    /// Every rate in the row, of all price steps.
    fn amounts(&self) -> impl Iterator<Item = f64> {
        let Rates { base, above, .. } = self.rates();
        let steps = std::iter::once(base).chain(above.into_iter().map(|(_, step)| step));
        steps.flat_map(|step| {
            let input = [step.input, step.cache_read, step.cache_write];
            input.into_iter().chain([step.cache_write_long, step.output])
        })
    }
}

impl PriceStep {
    fn over(&self, before: RateStep) -> RateStep {
        RateStep {
            input: self.input.unwrap_or(before.input),
            cache_read: self.cache_read.unwrap_or(before.cache_read),
            cache_write: self.cache_write.unwrap_or(before.cache_write),
            cache_write_long: self
                .cache_write_long
                .or(self.cache_write)
                .unwrap_or(before.cache_write_long),
            output: self.output.unwrap_or(before.output),
        }
    }
}

impl Rates {
    /// The rates of a request with this many tokens of input.
    pub(super) fn at(&self, whole_input: u64) -> RateStep {
        let reached = self.above.iter().rev().find(|(tokens, _)| whole_input > *tokens);
        reached.map_or(self.base, |(_, rates)| *rates)
    }

    /// The numbers of input tokens above which a request costs more for each token.
    pub fn steps(&self) -> impl Iterator<Item = u64> {
        self.above.iter().map(|(tokens, _)| *tokens)
    }
}

/// A model's name in lower case, without what a gateway puts in front of it.
fn bare_name(name: &str) -> String {
    let tail = name.rsplit('/').next().unwrap_or(name);
    tail.to_ascii_lowercase()
}

/// Whether a text matches a pattern of literal characters, `*` (any text) and `#` (a digit). Patterns come from the table, and
/// only the text after the last `*` is tried again: at most text times pattern steps.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'#') if text[t].is_ascii_digit() => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Minutes of the day of `HH:MM-HH:MM`.
fn minutes(hours: &str) -> Option<(u64, u64)> {
    let minute = |clock: &str| {
        let (hour, minute) = clock.split_once(':')?;
        let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour <= 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let (from, to) = hours.split_once('-')?;
    Some((minute(from)?, minute(to)?))
}
