//! The terms of a filter: flags, fields with a pattern, numbers with a limit. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use regex::{Regex, RegexBuilder};

use super::row::ExchangeRow;
use crate::telemetry::{ExchangeFacts, ExchangeOutcome, FACTS, FilterKind, ValueOf};
use baton_core::text::date::PeriodStart;

/// The view that a filter has of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct FilteredRow<'a> {
    pub row: &'a ExchangeRow,
    /// Cost in dollars, if known.
    pub cost: Option<f64>,
    /// Current time in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Prefix of chat commands. Empty if they are off.
    pub command_prefix: &'a str,
}

/// The test of a term.
#[derive(Debug, Clone)]
pub(super) enum FilterTest {
    Flag(FilterName<FlagTest>),
    Text(FilterName<TextValues>, Regex),
    /// Matches exchanges that began at this time or later.
    Since(PeriodStart),
    Number(FilterName<NumberValue>, Comparison, f64),
}

/// A name of the filter language, with its meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterName<T> {
    pub(super) name: &'static str,
    value: FilterValue<T>,
}

/// The source of a value: the table of facts, or the journal and the bill.
#[derive(Debug, Clone, Copy)]
enum FilterValue<T> {
    Fact(ValueOf<ExchangeFacts>),
    Added(T),
}

/// Whether an exchange has a property.
type FlagTest = fn(FilteredRow<'_>) -> bool;

/// Returns strings of an exchange.
type TextValues = fn(&ExchangeRow) -> Vec<String>;

/// Returns a number of an exchange, if known.
type NumberValue = fn(FilteredRow<'_>) -> Option<f64>;

const fn named<T: Copy>(name: &'static str, value: T) -> FilterName<T> {
    let value = FilterValue::Added(value);
    FilterName { name, value }
}

// Names whose values are not in the table of facts.
static FLAGS: [FilterName<FlagTest>; 6] = [
    named("error", |exchange| exchange.row.failed()),
    named("command", |exchange| {
        let prefix = exchange.command_prefix;
        let user_line = exchange.row.user_line.as_deref();
        !prefix.is_empty() && user_line.is_some_and(|line| line.starts_with(prefix))
    }),
    named("retried", |exchange| {
        let event = &exchange.row.event;
        event.retries > 0 || event.thinking_retry.is_some()
    }),
    named("refused", |exchange| {
        exchange.row.event.outcome == ExchangeOutcome::Refused
    }),
    named("cancelled", |exchange| {
        exchange.row.event.outcome == ExchangeOutcome::Cancelled
    }),
    named("open", |exchange| exchange.row.open),
];

static TEXTS: [FilterName<TextValues>; 6] = [
    named("tool", |row| {
        let calls = row.answer.iter().flat_map(|answer| &answer.calls);
        calls.map(|call| call.name.clone()).collect()
    }),
    named("model", |row| {
        let served = row.event.served.iter().flatten();
        let served = served.map(|served| served.model.clone());
        row.model.iter().cloned().chain(served).collect()
    }),
    named("wire", |row| row.wire.iter().cloned().collect()),
    named("upstream", |row| row.upstream.iter().cloned().collect()),
    named("route", |row| row.route.iter().cloned().collect()),
    named("conversation", |row| row.conversation.iter().cloned().collect()),
];

static NUMBERS: [FilterName<NumberValue>; 4] = [
    named("cost", |exchange| exchange.cost),
    named("input", |exchange| {
        exchange.row.tokens_sum.map(|tokens| tokens.all_input() as f64)
    }),
    named("output", |exchange| {
        exchange.row.tokens_sum.map(|tokens| tokens.output as f64)
    }),
    named("seconds", |exchange| Some(exchange.row.event.total_ms / 1000.0)),
];

/// The side of the limit on which a number must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Above,
    Below,
}

/// Suffixes of numbers, with their factors.
const FACTORS: [(char, f64); 2] = [('k', 1e3), ('M', 1e6)];

/// Returns the names of flags, of fields with a pattern, and of numbers with a limit.
pub(super) fn all_names() -> [String; 3] {
    [
        names(&FLAGS, FilterKind::Flag),
        names(&TEXTS, FilterKind::Text),
        names(&NUMBERS, FilterKind::Number),
    ]
}

impl FilterTest {
    /// Parses a term without its negation. The error describes the problem.
    pub(super) fn parse(term: &str) -> Result<Self, String> {
        if let Some((name, value)) = term.split_once(':') {
            return Self::field(&name.to_lowercase(), value);
        }
        // After fields, because the value of a field may contain these characters.
        if let Some(at) = term.find(['>', '<']) {
            let (name, value) = (term[..at].to_lowercase(), &term[at + 1..]);
            let field = find(&NUMBERS, FilterKind::Number, &name).ok_or_else(|| {
                format!(
                    "{name:?} is not a numeric field; there are {}",
                    names(&NUMBERS, FilterKind::Number)
                )
            })?;
            let comparison = if term[at..].starts_with('>') {
                Comparison::Above
            } else {
                Comparison::Below
            };
            let number =
                number(value).ok_or_else(|| format!("{value:?} is not a number such as 0.5 or 20k"))?;
            return Ok(Self::Number(field, comparison, number));
        }
        find(&FLAGS, FilterKind::Flag, &term.to_lowercase()).map(Self::Flag).ok_or_else(|| {
            format!(
                "{term:?} is not a term; there are {}, fields ({}, since) such as model:opus*, and numbers ({}) such as cost>0.5",
                names(&FLAGS, FilterKind::Flag),
                names(&TEXTS, FilterKind::Text),
                names(&NUMBERS, FilterKind::Number)
            )
        })
    }

    fn field(name: &str, value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Err(format!("{name}: has no value"));
        }
        if name == "since" {
            let start = PeriodStart::parse(value);
            let start = start.ok_or_else(|| format!("{value:?} is not {}", PeriodStart::SPELLINGS))?;
            return Ok(Self::Since(start));
        }
        let field = find(&TEXTS, FilterKind::Text, name).ok_or_else(|| {
            format!(
                "{name:?} is not a field; there are {}, since",
                names(&TEXTS, FilterKind::Text)
            )
        })?;
        let pattern = match name {
            // Lists show the beginning of a key, which is enough to name it.
            "conversation" => pattern(&format!("{value}*"))?,
            _ => pattern(value)?,
        };
        Ok(Self::Text(field, pattern))
    }

    pub(super) fn holds(&self, exchange: FilteredRow<'_>) -> bool {
        let facts = &exchange.row.event;
        match self {
            Self::Flag(flag) => match flag.value {
                FilterValue::Fact(value) => value(facts).amount() > 0,
                FilterValue::Added(holds) => holds(exchange),
            },
            Self::Text(field, pattern) => match field.value {
                FilterValue::Fact(value) => pattern.is_match(&value(facts).text()),
                FilterValue::Added(values) => {
                    let values = values(exchange.row);
                    values.iter().any(|value| pattern.is_match(value))
                }
            },
            Self::Since(start) => exchange.row.at_ms >= start.at_ms(exchange.now_ms),
            Self::Number(field, comparison, limit) => {
                let value = match field.value {
                    FilterValue::Fact(value) => value(facts).number(),
                    FilterValue::Added(value) => value(exchange),
                };
                value.is_some_and(|value| match comparison {
                    Comparison::Above => value > *limit,
                    Comparison::Below => value < *limit,
                })
            }
        }
    }
}

/// Returns the names of a kind: `added`, and those from the table of facts.
fn all<T: Copy>(added: &[FilterName<T>], kind: FilterKind) -> impl Iterator<Item = FilterName<T>> {
    let facts = FACTS.iter().filter_map(move |fact| {
        let (_, name) = fact.filter.filter(|(of, _)| *of == kind)?;
        let value = FilterValue::Fact(fact.value);
        Some(FilterName { name, value })
    });
    added.iter().copied().chain(facts)
}

fn find<T: Copy>(added: &[FilterName<T>], kind: FilterKind, name: &str) -> Option<FilterName<T>> {
    all(added, kind).find(|known| known.name == name)
}

fn names<T: Copy>(added: &[FilterName<T>], kind: FilterKind) -> String {
    let names: Vec<_> = all(added, kind).map(|known| known.name).collect();
    names.join(", ")
}

/// Compiles a pattern that matches whole words. `*` stands for any characters.
fn pattern(value: &str) -> Result<Regex, String> {
    let any = value.split('*').map(regex::escape).collect::<Vec<_>>().join(".*");
    // Names consist of words, such as `claude-opus-5-5`. Without `*` a value matches only whole words.
    let start = if value.starts_with('*') {
        ""
    } else {
        r"(?:^|[^\p{L}\p{N}])"
    };
    let end = if value.ends_with('*') {
        ""
    } else {
        r"(?:$|[^\p{L}\p{N}])"
    };
    let mut pattern = RegexBuilder::new(&format!("{start}{any}{end}"));
    let pattern = pattern.case_insensitive(true).build();
    pattern.map_err(|error| error.to_string())
}

/// Parses a number with an optional suffix, such as `0.5`, `20k` or `1.5M`.
fn number(text: &str) -> Option<f64> {
    let factor = FACTORS.iter().find(|(suffix, _)| text.ends_with(*suffix));
    let digits = factor.map_or(text, |(suffix, _)| text.trim_end_matches(*suffix));
    // `parse` accepts `inf` and `NaN`, which are useless as limits.
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite())?;
    Some(number * factor.map_or(1.0, |(_, factor)| *factor))
}
