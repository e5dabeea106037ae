//! Token counts as providers bill them, and their cost.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize, Serializer};

use super::prices::Rates;

/// Tokens by price.
///
/// The input is `input + cache_read + cache_write + cache_write_long`; no token counts in two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenCounts {
    /// Input that was neither served from a cache nor stored in one.
    pub input: u64,
    /// Input served from a cache.
    pub cache_read: u64,
    /// Input stored in a cache for the provider's short lifetime.
    pub cache_write: u64,
    /// Input stored in a cache for the provider's long lifetime: an hour (Anthropic), twelve hours (OpenAI).
    pub cache_write_long: u64,
    /// Output, including reasoning.
    pub output: u64,
}

/// US dollars by the kind of tokens that they paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// New input.
    pub input: f64,
    /// Input from a cache.
    pub cache_read: f64,
    /// Input stored in a cache, for either lifetime.
    pub cache_write: f64,
    pub output: f64,
}

/// Writes dollars as JSON with at most six decimals, for `serialize_with`.
///
/// A token of the most expensive model costs 0.00005, and sums of floats end in meaningless digits.
///
/// # Errors
/// The errors of the serializer.
pub fn dollars<D, S>(amount: &D, to: S) -> Result<S::Ok, S::Error>
where
    D: Copy + Into<Option<f64>>,
    S: Serializer,
{
    // Adding zero turns `-0.0` into `0.0`.
    let rounded = |dollars: f64| (dollars * 1e6).round() / 1e6 + 0.0;
    (*amount).into().map(rounded).serialize(to)
}

impl TokenCounts {
    /// Splits off the long-lived tokens from a provider's counts, whose `cache_write` includes them.
    pub fn splitting_long(self, long: u64) -> Self {
        // Part of the writes by definition, whatever the provider reports.
        let long = long.min(self.cache_write);
        Self {
            cache_write: self.cache_write - long,
            cache_write_long: long,
            ..self
        }
    }

    /// Sum of the input, which counts against the model's window and determines the price step.
    pub fn whole_input(&self) -> u64 {
        [
            self.input,
            self.cache_read,
            self.cache_write,
            self.cache_write_long,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// The counts beyond a part of them; zero if that part is larger.
    pub fn beyond(self, part: Self) -> Self {
        // Counts are compared by their sums: with another caching a single kind may be larger in the part.
        if self.total() <= part.total() {
            return Self::default();
        }
        self.with_each(part, u64::saturating_sub)
    }

    /// Combines each count with the one of the same kind.
    fn with_each(self, other: Self, combined: fn(u64, u64) -> u64) -> Self {
        Self {
            input: combined(self.input, other.input),
            cache_read: combined(self.cache_read, other.cache_read),
            cache_write: combined(self.cache_write, other.cache_write),
            cache_write_long: combined(self.cache_write_long, other.cache_write_long),
            output: combined(self.output, other.output),
        }
    }

    /// Input that was stored in a cache.
    pub fn written(&self) -> u64 {
        self.cache_write.saturating_add(self.cache_write_long)
    }

    /// Input and output.
    pub fn total(&self) -> u64 {
        self.whole_input().saturating_add(self.output)
    }

    /// The cost of one request with these counts. The step that its whole input reaches sets the price of all
    /// its tokens.
    pub fn cost(&self, rates: &Rates) -> Cost {
        let rates = rates.at(self.whole_input());
        let dollars = |tokens: u64, rate: f64| tokens as f64 * rate / 1e6;
        Cost {
            input: dollars(self.input, rates.input),
            cache_read: dollars(self.cache_read, rates.cache_read),
            cache_write: dollars(self.cache_write, rates.cache_write)
                + dollars(self.cache_write_long, rates.cache_write_long),
            output: dollars(self.output, rates.output),
        }
    }
}

impl AddAssign for TokenCounts {
    fn add_assign(&mut self, other: Self) {
        *self = self.with_each(other, u64::saturating_add);
    }
}

impl Cost {
    /// The total in dollars.
    pub fn total(&self) -> f64 {
        self.input + self.cache_read + self.cache_write + self.output
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            output: self.output + other.output,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Bill {
        #[serde(serialize_with = "dollars")]
        sum: f64,
        #[serde(serialize_with = "dollars")]
        part: Option<f64>,
    }

    #[test]
    fn money_in_json_has_six_decimals_at_most() {
        for (sum, part, expected) in [
            (
                17.164_113_440_000_005,
                Some(-0.000_251_4),
                r#"{"sum":17.164113,"part":-0.000251}"#,
            ),
            (0.1 + 0.2, None, r#"{"sum":0.3,"part":null}"#),
            (-0.000_000_1, Some(2.0), r#"{"sum":0.0,"part":2.0}"#),
        ] {
            assert_eq!(serde_json::to_string(&Bill { sum, part }).unwrap(), expected);
        }
    }
}
