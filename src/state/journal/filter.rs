//! The filter language of the page, the API and `baton log`: `error tool:Bash model:opus* since:1h cost>0.5`. Every term
//! must hold; `!` before a term negates it. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use regex::{Regex, RegexBuilder};

use super::row::ExchangeRow;

/// Characters of a filter.
const LONGEST: usize = 1000;

/// A parsed filter.
#[derive(Debug, Clone, Default)]
pub struct RowFilter(Vec<FilterTerm>);

/// A filter that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where the wrong term begins, in characters from 1.
    pub position: usize,
    /// What is wrong with it.
    pub message: String,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}: {}", self.position, self.message)
    }
}

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

#[derive(Debug, Clone)]
struct FilterTerm {
    negated: bool,
    test: FilterTest,
}

#[derive(Debug, Clone)]
enum FilterTest {
    Flag(Flag),
    Text(TextField, Regex),
    /// Only those that began so long ago or later, in milliseconds.
    Since(u64),
    Number(NumberField, Comparison, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextField {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberField {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    Below,
}

/// Units of time, in milliseconds.
const TIMES: [(char, u64); 4] = [('s', 1000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];

/// Suffixes of numbers.
const FACTORS: [(char, f64); 2] = [('k', 1e3), ('M', 1e6)];

impl RowFilter {
    /// Parses a filter; an empty one holds for all exchanges.
    ///
    /// # Errors
    /// A term is unknown, or its value is none.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let wrong = |position, message: String| FilterError { position, message };
        if text.chars().count() > LONGEST {
            return Err(wrong(1, format!("a filter has at most {LONGEST} characters")));
        }
        let terms = words(text)?.into_iter().map(|word| {
            let (negated, term) = match word.text.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, word.text.as_str()),
            };
            let test = FilterTest::parse(term).map_err(|message| wrong(word.position, message))?;
            Ok(FilterTerm { negated, test })
        });
        terms.collect::<Result<_, _>>().map(Self)
    }

    /// Whether it holds for all exchanges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it asks for costs, which have to be computed.
    pub fn needs_cost(&self) -> bool {
        let mut tests = self.0.iter();
        tests.any(|term| matches!(term.test, FilterTest::Number(NumberField::Cost, ..)))
    }

    /// Whether it holds for failed exchanges alone.
    pub(super) fn is_of_failures(&self) -> bool {
        let mut terms = self.0.iter();
        terms.any(|term| !term.negated && matches!(term.test, FilterTest::Flag(Flag::Error)))
    }

    /// The time before which it holds for no exchange, in milliseconds since the Unix epoch.
    pub(super) fn oldest_ms(&self, now_ms: u64) -> u64 {
        let ages = self
            .0
            .iter()
            .filter(|term| !term.negated)
            .filter_map(|term| match term.test {
                FilterTest::Since(age) => Some(now_ms.saturating_sub(age)),
                _ => None,
            });
        ages.max().unwrap_or(0)
    }

    /// Whether it holds for this exchange.
    pub fn holds(&self, exchange: FilteredRow<'_>) -> bool {
        self.0
            .iter()
            .all(|term| term.test.holds(exchange) != term.negated)
    }
}

/// A word of a filter, without its quotes.
struct FilterWord {
    position: usize,
    text: String,
}

/// Words between white space; quotes keep a word together.
fn words(text: &str) -> Result<Vec<FilterWord>, FilterError> {
    let mut words = Vec::new();
    let mut word: Option<FilterWord> = None;
    let mut quoted = None;
    for (at, c) in text.chars().enumerate() {
        match c {
            '"' if quoted.is_some() => quoted = None,
            '"' => {
                quoted = Some(at + 1);
                word.get_or_insert_with(|| FilterWord {
                    position: at + 1,
                    text: String::new(),
                });
            }
            c if c.is_whitespace() && quoted.is_none() => words.extend(word.take()),
            c => word
                .get_or_insert_with(|| FilterWord {
                    position: at + 1,
                    text: String::new(),
                })
                .text
                .push(c),
        }
    }
    if let Some(position) = quoted {
        let message = "this quote has no end".to_owned();
        return Err(FilterError { position, message });
    }
    words.extend(word);
    Ok(words)
}

impl FilterTest {
    fn parse(term: &str) -> Result<Self, String> {
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

    fn holds(&self, exchange: FilteredRow<'_>) -> bool {
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
                let asked = exchange.row.asked.as_deref();
                !prefix.is_empty() && asked.is_some_and(|line| line.starts_with(prefix))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::journal::{AnswerSummary, CallSummary, EventColumns, LegTokens};

    fn row() -> ExchangeRow {
        let call = |name: &str| CallSummary {
            name: name.to_owned(),
            argument: None,
        };
        ExchangeRow {
            id: "x".into(),
            conversation: Some("c0ffee".into()),
            at_ms: 10_000_000,
            wire: Some("openai_chat".into()),
            upstream: Some("local".into()),
            route: Some("POST /v1/chat/completions".into()),
            model: Some("claude-opus-5-5".into()),
            event: EventColumns {
                status: 529,
                outcome: "upstream_error".into(),
                legs: 2,
                total_ms: 2500.0,
                ..EventColumns::default()
            },
            answer: Some(AnswerSummary {
                calls: vec![call("BashOutput"), call("mcp__files__read")],
                ..AnswerSummary::default()
            }),
            asked: Some("::handoff now".into()),
            fixed_bytes: 0,
            received_messages: 1,
            sent_messages: Vec::new(),
            statuses: Vec::new(),
            tokens_sum: Some(LegTokens {
                input: 30_000,
                ..LegTokens::default()
            }),
            unsent_tokens: 0,
            changes: Vec::new(),
            partial: false,
            open: false,
        }
    }

    fn holds(filter: &str) -> bool {
        let row = row();
        let exchange = FilteredRow {
            row: &row,
            cost: Some(0.6),
            now_ms: 10_000_000 + 3_600_000,
            command_prefix: "::",
        };
        RowFilter::parse(filter).unwrap().holds(exchange)
    }

    #[test]
    fn every_term_must_hold() {
        for filter in [
            "",
            "error",
            "!handoff",
            "command",
            "model:opus*",
            "model:OPUS",
            "tool:read wire:openai*",
            "status:529",
            "since:1h",
            "cost>0.5",
            "cost<1 input>20k",
            "requests>1 seconds>2",
            "!retried !refused",
            "conversation:c0*",
            "route:\"POST /v1*\"",
            "tool:bash*",
        ] {
            assert!(holds(filter), "{filter}");
        }
        for filter in [
            "handoff",
            "error handoff",
            "tool:Bash",
            "model:sonnet*",
            "since:59m",
            "cost>0.6",
            "!error",
            "wire:gemini",
            "input>1M",
            "model:opu",
        ] {
            assert!(!holds(filter), "{filter}");
        }
    }

    #[test]
    fn an_error_names_the_position_and_what_there_is() {
        for (filter, position, part) in [
            (
                "error toll:Bash",
                7,
                "\"toll\" is no field; there are tool, model",
            ),
            ("  eror", 3, "\"eror\" is no term; there are error, handoff"),
            ("cost>much", 1, "\"much\" is no number"),
            ("price>1", 1, "there are cost, input"),
            ("handoff since:1w", 9, "\"1w\" is no time"),
            ("tool:", 1, "has no value"),
            ("error tool:\"a b", 12, "no end"),
        ] {
            let error = RowFilter::parse(filter).unwrap_err();
            assert_eq!(error.position, position, "{filter}");
            assert!(error.message.contains(part), "{filter}: {error}");
        }
        assert!(RowFilter::parse(&"x".repeat(1001)).is_err());
    }

    #[test]
    fn what_can_be_narrowed_early_is() {
        let filter = RowFilter::parse("error since:1h since:2h !since:1m cost>1").unwrap();
        assert!(filter.is_of_failures() && filter.needs_cost());
        assert_eq!(filter.oldest_ms(7_200_000), 3_600_000);
        assert!(!RowFilter::parse("!error").unwrap().is_of_failures());
    }
}
