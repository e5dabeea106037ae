//! The terms of a filter: flags, fields with a pattern, numbers with a limit. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use regex::{Regex, RegexBuilder};

use super::row::ExchangeRow;

/// An exchange as a filter sees it.
#[derive(Debug, Clone, Copy)]
pub struct FilteredRow<'a> {
    /// The row.
    pub row: &'a ExchangeRow,
    /// Its cost in dollars, where it is known.
    pub cost: Option<f64>,
    /// The current time in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// What commands in the chat begin with; empty where there are none.
    pub command_prefix: &'a str,
}

/// What a term tests.
#[derive(Debug, Clone)]
pub(super) enum FilterTest {
    Flag(Flag),
    Text(TextField, Regex),
    /// Only those that began so long ago or later, in milliseconds.
    Since(u64),
    Number(NumberField, Comparison, f64),
}

/// A property of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Error,
    Handoff,
    Command,
    Retried,
    Refused,
    Unpinned,
    Recall,
    Cancelled,
    Open,
}

const FLAGS: [(&str, Flag); 9] = [
    ("error", Flag::Error),
    ("handoff", Flag::Handoff),
    ("command", Flag::Command),
    ("retried", Flag::Retried),
    ("refused", Flag::Refused),
    ("unpinned", Flag::Unpinned),
    ("recall", Flag::Recall),
    ("cancelled", Flag::Cancelled),
    ("open", Flag::Open),
];

/// Texts of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextField {
    Tool,
    Model,
    Wire,
    Upstream,
    Route,
    Conversation,
    Status,
}

const TEXTS: [(&str, TextField); 7] = [
    ("tool", TextField::Tool),
    ("model", TextField::Model),
    ("wire", TextField::Wire),
    ("upstream", TextField::Upstream),
    ("route", TextField::Route),
    ("conversation", TextField::Conversation),
    ("status", TextField::Status),
];

/// Numbers of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberField {
    Cost,
    Input,
    Output,
    Requests,
    Received,
    Sent,
    Seconds,
}

const NUMBERS: [(&str, NumberField); 7] = [
    ("cost", NumberField::Cost),
    ("input", NumberField::Input),
    ("output", NumberField::Output),
    ("requests", NumberField::Requests),
    ("received", NumberField::Received),
    ("sent", NumberField::Sent),
    ("seconds", NumberField::Seconds),
];

/// On which side of the limit a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Above,
    Below,
}

/// Units of time, in milliseconds.
const TIMES: [(char, u64); 4] = [('s', 1000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];

/// Suffixes of numbers.
const FACTORS: [(char, f64); 2] = [('k', 1e3), ('M', 1e6)];

impl FilterTest {
    /// Parses a term without its negation; the error says what is wrong with it.
    pub(super) fn parse(term: &str) -> Result<Self, String> {
        if let Some((name, value)) = term.split_once(':') {
            return Self::field(&name.to_lowercase(), value);
        }
        if let Some(at) = term.find(['>', '<']) {
            let (name, value) = (term[..at].to_lowercase(), &term[at + 1..]);
            let field = named(&NUMBERS, &name)
                .ok_or_else(|| format!("{name:?} is no number; there are {}", names(&NUMBERS)))?;
            let comparison = if term[at..].starts_with('>') {
                Comparison::Above
            } else {
                Comparison::Below
            };
            let number = number(value).ok_or_else(|| format!("{value:?} is no number, as 0.5 or 20k"))?;
            return Ok(Self::Number(field, comparison, number));
        }
        named(&FLAGS, &term.to_lowercase()).map(Self::Flag).ok_or_else(|| {
            format!(
                "{term:?} is no term; there are {}, fields ({}, since) as model:opus*, and numbers ({}) as cost>0.5",
                names(&FLAGS),
                names(&TEXTS),
                names(&NUMBERS)
            )
        })
    }

    fn field(name: &str, value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Err(format!("{name}: has no value"));
        }
        if name == "since" {
            let age = age_ms(value).ok_or_else(|| format!("{value:?} is no time, as 30m, 12h or 7d"))?;
            return Ok(Self::Since(age));
        }
        let field = named(&TEXTS, name)
            .ok_or_else(|| format!("{name:?} is no field; there are {}, since", names(&TEXTS)))?;
        Ok(Self::Text(field, pattern(value)?))
    }

    pub(super) fn holds(&self, exchange: FilteredRow<'_>) -> bool {
        let FilteredRow {
            row, cost, now_ms, ..
        } = exchange;
        match self {
            Self::Flag(flag) => flag.holds(exchange),
            Self::Text(field, pattern) => field.values(row).iter().any(|value| pattern.is_match(value)),
            Self::Since(age) => row.at_ms >= now_ms.saturating_sub(*age),
            Self::Number(field, comparison, limit) => match (field.value(row, cost), comparison) {
                (None, _) => false,
                (Some(value), Comparison::Above) => value > *limit,
                (Some(value), Comparison::Below) => value < *limit,
            },
        }
    }
}

impl Flag {
    fn holds(self, exchange: FilteredRow<'_>) -> bool {
        let event = &exchange.row.event;
        match self {
            Self::Error => exchange.row.failed(),
            Self::Handoff => !event.fired.is_empty(),
            Self::Command => {
                let prefix = exchange.command_prefix;
                let user_line = exchange.row.user_line.as_deref();
                !prefix.is_empty() && user_line.is_some_and(|line| line.starts_with(prefix))
            }
            Self::Retried => event.retries > 0 || event.thinking_retry.is_some(),
            Self::Refused => event.outcome == "refused",
            Self::Unpinned => event.unpinned,
            Self::Recall => !event.recalls.is_empty(),
            Self::Cancelled => event.outcome == "cancelled",
            Self::Open => exchange.row.open,
        }
    }
}

impl TextField {
    fn values(self, row: &ExchangeRow) -> Vec<String> {
        let one = |value: &Option<String>| value.iter().cloned().collect();
        match self {
            Self::Tool => {
                let calls = row.answer.iter().flat_map(|answer| &answer.calls);
                calls.map(|call| call.name.clone()).collect()
            }
            Self::Model => {
                let served = row
                    .event
                    .served
                    .iter()
                    .flatten()
                    .map(|served| served.model.clone());
                row.model.iter().cloned().chain(served).collect()
            }
            Self::Wire => one(&row.wire),
            Self::Upstream => one(&row.upstream),
            Self::Route => one(&row.route),
            Self::Conversation => one(&row.conversation),
            Self::Status => vec![row.event.status.to_string()],
        }
    }
}

impl NumberField {
    fn value(self, row: &ExchangeRow, cost: Option<f64>) -> Option<f64> {
        let tokens = row.tokens_sum;
        match self {
            Self::Cost => cost,
            Self::Input => tokens.map(|tokens| tokens.all_input() as f64),
            Self::Output => tokens.map(|tokens| tokens.output as f64),
            Self::Requests => Some(row.event.legs as f64),
            Self::Received => Some(row.event.received_bytes as f64),
            Self::Sent => Some(row.event.sent_bytes.iter().sum::<u64>() as f64),
            Self::Seconds => Some(row.event.total_ms / 1000.0),
        }
    }
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

fn names<T>(table: &[(&str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Whole words of the value; `*` stands for any characters.
fn pattern(value: &str) -> Result<Regex, String> {
    let any = value.split('*').map(regex::escape).collect::<Vec<_>>().join(".*");
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
    pattern
        .case_insensitive(true)
        .build()
        .map_err(|error| error.to_string())
}

/// `90s`, `30m`, `12h`, `7d` in milliseconds.
pub fn age_ms(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let (_, factor) = TIMES.iter().find(|(known, _)| *known == unit)?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    count.checked_mul(*factor)
}

/// `0.5`, `20k`, `1.5M`.
fn number(text: &str) -> Option<f64> {
    let factor = FACTORS.iter().find(|(suffix, _)| text.ends_with(*suffix));
    let digits = factor.map_or(text, |(suffix, _)| text.trim_end_matches(*suffix));
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite())?;
    Some(number * factor.map_or(1.0, |(_, factor)| *factor))
}
