//! A figure with a bound.

use crate::stats::Figure;

/// Part of the names of figures that are measured with the journal on.
const SHIPPED: &str = "as shipped";

/// A figure with a bound.
pub(crate) struct Goal {
    what: String,
    figure: Figure,
    bound: f64,
    least: bool,
}

impl Goal {
    pub(crate) fn at_most(what: &str, figure: Figure, bound: f64) -> Self {
        Self {
            what: what.to_owned(),
            figure,
            bound,
            least: false,
        }
    }

    pub(crate) fn at_least(what: &str, figure: Figure, bound: f64) -> Self {
        Self {
            least: true,
            ..Self::at_most(what, figure, bound)
        }
    }

    /// Whether the figure describes the program as shipped.
    pub(crate) fn is_shipped(&self) -> bool {
        self.what.contains(SHIPPED)
    }

    fn is_met(&self) -> bool {
        let median = self.figure.median();
        if self.least {
            median >= self.bound
        } else {
            median <= self.bound
        }
    }

    /// Returns the row of the printed table.
    pub(crate) fn row(&self) -> Vec<String> {
        let sign = if self.least { '≥' } else { '≤' };
        let met = if self.is_met() { "yes" } else { "no" };
        vec![
            self.what.clone(),
            self.figure.show(),
            format!("{sign} {}", self.bound),
            met.to_owned(),
        ]
    }
}
