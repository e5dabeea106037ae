//! Token counters of the legs of a response.

use super::leg::{Ending, LegReport, Usage};
use crate::text::{Span, json};

/// What a provider counts of one leg.
pub(super) trait ProviderUsage: Clone + Default {
    /// Takes what a usage object says.
    fn take(&mut self, data: &[u8], usage: Span);

    /// The counters in baton's terms.
    fn usage(&self) -> Usage;

    /// Whether upstream reported any.
    fn is_reported(&self) -> bool;

    /// The usage of the whole response: input side of the last leg, output of all. `None` where nothing was counted.
    fn merged(legs: &[Self]) -> Option<String>;

    /// What a usage object says, where there is one.
    fn read(data: &[u8], usage: Option<Span>) -> Self {
        let mut counters = Self::default();
        if let Some(usage) = usage.filter(|usage| data[usage.start] == b'{') {
            counters.take(data, usage);
        }
        counters
    }

    /// What a joined reply has in place of its last leg's usage; `stopped` makes that of a response which ends with its
    /// sentinel.
    fn joined(legs: &[Self], ending: Ending, stopped: fn(&[Self], u64) -> String) -> Option<String> {
        match ending {
            Ending::Own | Ending::WithoutCall if legs.len() < 2 => None,
            Ending::Own | Ending::WithoutCall => Self::merged(legs),
            Ending::Stopped { next_input } | Ending::Lost { next_input } => Some(stopped(legs, next_input)),
        }
    }
}

/// The counters of a stream's legs.
#[derive(Default)]
pub(super) struct LegUsage<U> {
    earlier: Vec<U>,
    now: U,
}

impl<U: ProviderUsage> LegUsage<U> {
    /// Takes a usage object of the present leg.
    pub(super) fn take(&mut self, data: &[u8], usage: Span, report: &mut LegReport) {
        self.now.take(data, usage);
        report.usage = self.now.usage();
    }

    /// Takes the usage object of the last frame that passed unread.
    pub(super) fn settle(&mut self, usage: Option<Vec<u8>>, report: &mut LegReport) {
        if let Some(usage) = usage {
            self.take(&usage, json::root(&usage), report);
        }
    }

    /// Begins the next leg.
    pub(super) fn next_leg(&mut self) {
        self.earlier.push(std::mem::take(&mut self.now));
    }

    /// Forgets what the present leg cost.
    pub(super) fn forget(&mut self) {
        self.now = U::default();
    }

    /// Whether the present leg was counted.
    pub(super) fn is_reported(&self) -> bool {
        self.now.is_reported()
    }

    /// Those of all legs that were counted.
    pub(super) fn all(&self) -> Vec<U> {
        let all = self.earlier.iter().chain([&self.now]);
        all.filter(|leg| leg.is_reported()).cloned().collect()
    }
}
