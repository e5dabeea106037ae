//! Medians and their spread.

use std::time::Duration;

use crate::history::Seeded;

/// A figure with a value for each repetition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure(pub(crate) Vec<f64>);

/// Returns the order of turns, shuffled for each round.
///
/// Otherwise a proxy would always follow the same other one, and find the caches that it left.
pub(crate) fn turns(random: &mut Seeded, count: usize) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        turns.swap(last, random.below(last + 1));
    }
    turns
}

impl Figure {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.0.clone())
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns each repetition's ratio to the same repetition of another figure.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a - b).collect())
    }

    /// Formats the median, with minimum and maximum in brackets.
    pub(crate) fn show(&self) -> String {
        if let [only] = self.0[..] {
            return digits(only);
        }
        format!(
            "{} [{} … {}]",
            digits(self.median()),
            digits(self.min()),
            digits(self.max())
        )
    }
}

/// Formats about three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    if all.is_empty() {
        return f64::NAN;
    }
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
