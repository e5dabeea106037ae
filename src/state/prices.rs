//! The price table: the embedded one, or a file that the user configures.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::sync::OnceLog;
use baton_core::bill::{PriceQuery, PriceTable, RequestCosts};
use baton_core::plan::PlannedRequest;

/// Contents of `config/prices.toml`, which `.ci/prices` writes from a public package.
const EMBEDDED: &str = include_str!("prices.toml");

/// Models without a price that were already logged.
static UNPRICED: OnceLog = OnceLog::new();

static TABLE: LazyLock<PriceTable> = LazyLock::new(|| parse(EMBEDDED).unwrap_or_default());

/// The table from a file, or the embedded one. The embedded one is parsed when a price is first looked up.
#[derive(Debug, Clone, Default)]
pub struct Prices(Option<Arc<PriceTable>>);

impl Deref for Prices {
    type Target = PriceTable;

    fn deref(&self) -> &PriceTable {
        self.0.as_deref().unwrap_or(&TABLE)
    }
}

impl Prices {
    /// Returns the billing data of a request, or `None` if its model has no price. Each such model is logged
    /// once.
    ///
    /// `limit` and `lifetime` have the same meaning as in [`RequestCosts`].
    pub fn request_costs(
        &self,
        plan: &PlannedRequest<'_>,
        host: &str,
        limit: Option<u64>,
        lifetime: Option<Duration>,
        at_ms: u64,
    ) -> Option<RequestCosts> {
        let model = plan.model();
        let query = PriceQuery {
            model,
            host,
            at_ms,
            // Only the response tells the service tier.
            service: None,
        };
        let rates = self.rates(&query);
        if rates.is_none() && UNPRICED.is_first(model) {
            tracing::info!(
                model,
                "found no price for this model; handoff.when_cache_cold does not apply to it (to set one: bill.prices)"
            );
        }
        Some(plan.costs(rates?, limit, lifetime, at_ms))
    }
}

/// Reads the table of a file, or returns the embedded one.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a price table. The message names the file, and the
/// line if there is one.
pub fn table(file: Option<&Path>) -> Result<Prices, String> {
    let Some(file) = file else {
        return Ok(Prices::default());
    };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let table = parse(&text).map_err(|error| format!("{}{error}", file.display()))?;
    Ok(Prices(Some(Arc::new(table))))
}

/// Parses a table. The error begins with the line, if known.
fn parse(text: &str) -> Result<PriceTable, String> {
    let table: PriceTable = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(String::new(), |before| {
            format!(":{}", before.matches('\n').count() + 1)
        });
        format!("{line}: not a price table: {}", error.message())
    })?;
    table.check().map_err(|error| format!(": {error}"))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::bill::TokenCounts;

    /// 2026-11-23, noon in UTC.
    const NOVEMBER_23: u64 = 1_795_435_200_000;

    /// 2026-12-01, midnight in UTC.
    const DECEMBER_1: u64 = 1_796_083_200_000;

    fn cost(model: &str, host: &str, counts: TokenCounts) -> Option<f64> {
        cost_at(NOVEMBER_23, model, host, counts)
    }

    fn cost_at(at_ms: u64, model: &str, host: &str, counts: TokenCounts) -> Option<f64> {
        let query = PriceQuery {
            model,
            host,
            at_ms,
            service: None,
        };
        let rates = parse(EMBEDDED).unwrap().rates(&query)?;
        Some(counts.cost(&rates).total())
    }

    /// Expected values computed by hand from the source: 100,000 tokens read, 10,000 written, 1,000 of
    /// output.
    #[test]
    fn the_embedded_table_has_the_prices_of_its_source() {
        let counts = TokenCounts {
            cache_read: 100_000,
            cache_write: 10_000,
            output: 1_000,
            ..TokenCounts::default()
        };
        for (model, expected) in [
            ("claude-opus-5-5", 0.02 + 0.05 + 0.02),
            ("claude-opus-5-5-20261014", 0.02 + 0.05 + 0.02),
            ("gpt-6.1-sol", 0.01 + 0.025 + 0.01),
            ("gpt-6-sol-2026-09-22", 0.02 + 0.025 + 0.01),
            ("gpt-6.2-sol", 0.01 + 0.025 + 0.01),
            ("openai/gpt-6.2-astra", 0.04 + 0.1 + 0.04),
            ("gemini-4-neon", 0.015 + 0.03 + 0.015),
        ] {
            let cost = cost(model, "", counts).unwrap();
            assert!((cost - expected).abs() < 1e-9, "{model}: {cost}");
        }
        // Haiku 5.5 costs five times as much above 100,000 tokens; this request has 110,000.
        let haiku = cost("claude-haiku-5-5", "api.anthropic.com", counts).unwrap();
        assert!((haiku - (0.005 + 0.00625 + 0.0025)).abs() < 1e-9, "{haiku}");
        assert_eq!(cost("my-own-model", "", counts), None);
    }

    /// Google doubles the price of two models on 2026-12-01.
    #[test]
    fn a_price_that_is_announced_begins_at_midnight_in_utc() {
        let counts = TokenCounts {
            input: 1_000_000,
            cache_read: 1_000_000,
            output: 1_000_000,
            ..TokenCounts::default()
        };
        for model in [
            "gemini-4-argon",
            "gemini-4-argon-preview-11-2026",
            "gemini-4-carbon",
        ] {
            let at = |at_ms| cost_at(at_ms, model, "generativelanguage.googleapis.com", counts).unwrap();
            assert!((at(DECEMBER_1 - 1) - 12.1).abs() < 1e-9, "{model}");
            assert!((at(DECEMBER_1) - 24.2).abs() < 1e-9, "{model}");
        }
    }

    /// OpenAI's cache writes cost 1.25 times the input for thirty minutes, and twice as much for twelve
    /// hours.
    #[test]
    fn tokens_written_to_openais_cache_are_billed_by_their_lifetime() {
        let short = TokenCounts {
            cache_write: 100_000,
            ..TokenCounts::default()
        };
        let long = TokenCounts {
            cache_write_long: 100_000,
            ..TokenCounts::default()
        };
        for (counts, expected) in [(short, 0.25), (long, 0.5)] {
            let cost = cost("gpt-6.2-sol", "api.openai.com", counts).unwrap();
            assert!((cost - expected).abs() < 1e-9, "{cost}");
        }
    }

    #[test]
    fn a_file_that_is_no_table_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("prices.toml");
        std::fs::write(&file, "source = \"x\"\ndate = \"y\"\nprovider = 3\n").unwrap();
        let error = table(Some(&file)).unwrap_err();
        assert!(error.contains("prices.toml:3: not a price table"), "{error}");
        let error = table(Some(Path::new("/no/such/file"))).unwrap_err();
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
