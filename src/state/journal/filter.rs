//! The filter language of the page, the API and `baton log`, such as
//! `error tool:Bash model:opus* since:1h cost>0.5`.
//!
//! Every term must hold. `!` before a term negates it. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use baton_core::text::date::PeriodStart;

use super::filter_terms::{self, FilterTest, FilteredRow};

/// Maximum length of a filter in characters.
const LONGEST: usize = 1000;

/// A parsed filter.
#[derive(Debug, Clone, Default)]
pub struct RowFilter(Vec<FilterTerm>);

/// Error of a filter that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {position}: {message}")]
pub struct FilterError {
    /// Position of the faulty term, in characters from 1.
    pub position: usize,
    /// Description of the error.
    pub message: String,
}

#[derive(Debug, Clone)]
struct FilterTerm {
    negated: bool,
    test: FilterTest,
}

impl RowFilter {
    /// Parses a filter. An empty one matches every exchange.
    ///
    /// # Errors
    /// Returns an error if a term is unknown or has an invalid value.
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

    /// Returns the names of the terms: flags, fields with a pattern, numbers with a limit.
    pub fn names() -> [String; 3] {
        filter_terms::all_names()
    }

    /// Adds the term `since:START`.
    #[must_use]
    pub fn since(mut self, start: Option<PeriodStart>) -> Self {
        let test = start.map(FilterTest::Since);
        self.0
            .extend(test.map(|test| FilterTerm { test, negated: false }));
        self
    }

    /// Whether the filter matches every exchange.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the filter uses costs, which are expensive to compute.
    pub fn needs_cost(&self) -> bool {
        let mut tests = self.0.iter();
        tests.any(|term| matches!(term.test, FilterTest::Number(field, ..) if field.name == "cost"))
    }

    /// Whether the filter matches failed exchanges only.
    pub(super) fn is_of_failures(&self) -> bool {
        let mut terms = self.0.iter();
        // A negated term lets other exchanges match.
        terms.any(|term| !term.negated && matches!(term.test, FilterTest::Flag(flag) if flag.name == "error"))
    }

    /// Returns the time before which no exchange matches, in milliseconds since the Unix epoch.
    pub(super) fn oldest_ms(&self, now_ms: u64) -> u64 {
        let ages = self
            .0
            .iter()
            .filter(|term| !term.negated)
            .filter_map(|term| match term.test {
                FilterTest::Since(start) => Some(start.at_ms(now_ms)),
                _ => None,
            });
        // Every term must hold, so the latest start decides.
        ages.max().unwrap_or(0)
    }

    /// Whether an exchange matches.
    pub fn holds(&self, exchange: FilteredRow<'_>) -> bool {
        let mut terms = self.0.iter();
        terms.all(|term| term.test.holds(exchange) != term.negated)
    }
}

/// A word of a filter, without its quotes.
struct FilterWord {
    position: usize,
    text: String,
}

/// Splits a filter into words at whitespace. Quotes keep a word together.
fn words(text: &str) -> Result<Vec<FilterWord>, FilterError> {
    let mut words = Vec::new();
    let mut word: Option<FilterWord> = None;
    let mut quoted = None;
    for (at, c) in text.chars().enumerate() {
        let begun = FilterWord {
            position: at + 1,
            text: String::new(),
        };
        match c {
            '"' if quoted.is_some() => quoted = None,
            '"' => {
                quoted = Some(at + 1);
                // Empty quotes are a word as well.
                word.get_or_insert(begun);
            }
            c if c.is_whitespace() && quoted.is_none() => words.extend(word.take()),
            c => word.get_or_insert(begun).text.push(c),
        }
    }
    if let Some(position) = quoted {
        let message = "this quote has no end".to_owned();
        return Err(FilterError { position, message });
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::row::ExchangeRow;
    use crate::journal::{AnswerSummary, CallSummary};
    use crate::telemetry::{ExchangeFacts, ExchangeOutcome};
    use baton_core::wire::Usage;

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
            event: ExchangeFacts {
                status: 529,
                outcome: ExchangeOutcome::UpstreamError,
                sent_bytes: vec![1, 1],
                total_ms: 2500.0,
                ..ExchangeFacts::default()
            },
            answer: Some(AnswerSummary {
                calls: vec![call("BashOutput"), call("mcp__files__read")],
                ..AnswerSummary::default()
            }),
            user_line: Some("::handoff now".into()),
            received_messages: 1,
            tokens_sum: Some(Usage {
                input: 30_000,
                ..Usage::default()
            }),
            ..ExchangeRow::default()
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
                "\"toll\" is not a field; there are tool, model",
            ),
            ("  eror", 3, "\"eror\" is not a term; there are error, command"),
            ("cost>much", 1, "\"much\" is not a number"),
            ("price>1", 1, "there are cost, input"),
            ("handoff since:1y", 9, "\"1y\" is not an age such as 90s"),
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
