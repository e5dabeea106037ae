//! A table of prices, as written in `config/prices.toml`, and the lookup of a model's rates.

use serde::Deserialize;

use crate::text::date::day_number;

/// Prices of models, by provider.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Source of the figures.
    pub source: String,
    /// Date of the source, `YYYY-MM-DD`.
    pub date: String,
    #[serde(default)]
    provider: Vec<ProviderPrices>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderPrices {
    id: String,
    /// Hosts of the provider's API, each including its subdomains.
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
    /// Patterns of the model's names, in lower case: `*` is any string, `#` a digit.
    names: Vec<String>,
    /// Price rows in order. The last row whose conditions hold counts.
    price: Vec<PriceRow>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    /// The first day that the row applies to, `YYYY-MM-DD`.
    since: Option<String>,
    /// The hours of the day that the row applies to, `HH:MM-HH:MM` in UTC.
    hours: Option<String>,
    /// The request's speed in the provider's usage (Anthropic).
    speed: Option<String>,
    /// The request's tier in the provider's response (OpenAI).
    service_tier: Option<String>,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
    /// Rates for requests with more input tokens, ascending. An absent rate is the same as in the step before.
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

/// Inputs that determine a price.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriceQuery<'a> {
    /// The model that responded.
    pub model: &'a str,
    /// The host of the request. Only the providers that serve it are examined; for an unknown host, all are.
    pub host: &'a str,
    /// Time of the request, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The `speed` of the usage, or the `service_tier` of the response.
    pub service: Option<&'a str>,
}

/// Rates of one model at one time, in dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    base: RateStep,
    /// Numbers of input tokens to exceed, each with the rates that then apply; ascending.
    above: Vec<(u64, RateStep)>,
    /// Whether storing input in a cache has its own price.
    pub write_is_billed: bool,
}

/// The rates that apply to one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateStep {
    pub(super) input: f64,
    pub(super) cache_read: f64,
    pub(super) cache_write: f64,
    pub(super) cache_write_long: f64,
    pub(super) output: f64,
}

impl PriceTable {
    /// Checks conditions that the form cannot express: rates are amounts, steps are in order, and dates are
    /// valid.
    ///
    /// # Errors
    /// The first problem, with the model that has it.
    pub fn check(&self) -> Result<(), String> {
        let models = self.provider.iter().flat_map(|provider| &provider.model);
        for model in models {
            let fail = |problem: &str| Err(format!("the prices of `{}`: {problem}", model.id));
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
                    return fail("`since` must be a day such as 2026-11-23");
                }
                if row.hours.as_deref().is_some_and(|hours| minutes(hours).is_none()) {
                    return fail("`hours` must be a span such as 01:00-04:00");
                }
            }
        }
        Ok(())
    }

    /// The model of this name, from the provider that serves the host, or from any if none does.
    pub fn model(&self, name: &str, host: &str) -> Option<&ModelPrices> {
        let name = bare_name(name);
        let serving = self.provider.iter().filter(|provider| provider.serves(host));
        let mut candidates: Vec<_> = serving.collect();
        // A gateway's host is in no table; its models are those of the providers.
        if candidates.is_empty() {
            candidates.extend(&self.provider);
        }
        let models = candidates.into_iter().flat_map(|provider| &provider.model);
        // The most exact pattern wins, and the first of equally exact ones.
        let matching = models.filter_map(|model| Some((model.exactness(&name)?, model)));
        let best = matching.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, model)| model)
    }

    /// The rates of a request; `None` if the table does not have its model.
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
    /// Number of literal characters in the most exact matching pattern. An exact name outranks any pattern.
    fn exactness(&self, name: &str) -> Option<usize> {
        let matches = |pattern: &&String| glob(pattern.as_bytes(), name.as_bytes());
        let matching = self.names.iter().filter(matches);
        let literal = |pattern: &String| match pattern.contains('*') {
            true => pattern.bytes().filter(|byte| *byte != b'*').count(),
            // A name without `*` is exact, even with a digit left open.
            false => usize::MAX,
        };
        matching.map(literal).max()
    }

    /// The model's rates at that time for that service. Ignores the query's name and host.
    pub fn rates(&self, query: &PriceQuery<'_>) -> Option<Rates> {
        // The last row that applies, so that a table lists the general price first.
        let row = self.price.iter().rfind(|row| row.holds(query));
        row.map(PriceRow::rates)
    }
}

impl PriceRow {
    fn holds(&self, query: &PriceQuery<'_>) -> bool {
        let day = query.at_ms / 86_400_000;
        let minute = query.at_ms / 60_000 % 1440;
        let has_begun = |since| day_number(since).is_some_and(|first| first <= day);
        let since = self.since.as_deref().is_none_or(has_begun);
        let is_within = |(from, to)| match from <= to {
            true => (from..to).contains(&minute),
            // The hours cross midnight.
            false => minute >= from || minute < to,
        };
        let hours = self.hours.as_deref();
        let hours = hours.is_none_or(|hours| minutes(hours).is_some_and(is_within));
        let conditions = [&self.speed, &self.service_tier];
        let served = conditions
            .iter()
            .all(|own| own.as_deref().is_none_or(|own| query.service == Some(own)));
        since && hours && served
    }

    fn rates(&self) -> Rates {
        let base = RateStep {
            input: self.input,
            // Without a price of its own, cached input costs as much as new input.
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

    /// All rates in the row, including those of its price steps.
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
    /// The rates of a request with this many input tokens.
    pub(super) fn at(&self, whole_input: u64) -> RateStep {
        let reached = self.above.iter().rev().find(|(tokens, _)| whole_input > *tokens);
        reached.map_or(self.base, |(_, rates)| *rates)
    }

    /// The numbers of input tokens above which each token costs more.
    pub fn steps(&self) -> impl Iterator<Item = u64> {
        self.above.iter().map(|(tokens, _)| *tokens)
    }
}

/// A model's name in lower case, without the prefix of a gateway.
fn bare_name(name: &str) -> String {
    let tail = name.rsplit('/').next().unwrap_or(name);
    tail.to_ascii_lowercase()
}

/// Whether a string matches a pattern of literal characters, `*` (any string) and `#` (a digit).
///
/// Patterns come from the table. Only the part after the last `*` is retried, so the cost is at most the
/// length of the string times that of the pattern.
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
                // The text did not fit after this `*`, which therefore takes one character more.
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

/// The minutes of the day in `HH:MM-HH:MM`.
fn minutes(hours: &str) -> Option<(u64, u64)> {
    let minute = |clock: &str| {
        let (hour, minute) = clock.split_once(':')?;
        let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour <= 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let (from, to) = hours.split_once('-')?;
    Some((minute(from)?, minute(to)?))
}
