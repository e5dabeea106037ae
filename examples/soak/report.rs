//! The result of the soak.

use std::time::Duration;

use crate::exchange::EMPTY_REPLY;
use crate::ledger::Ledger;
use crate::watch::{Plateau, Sample, plateaus};

pub struct Report<'a> {
    pub ledger: &'a Ledger,
    pub samples: &'a [Sample],
    pub took: Duration,
    pub seed: u64,
}

/// Counts that must not be zero: otherwise the soak has tested nothing.
const NEEDED: [&str; 4] = [
    "requests",
    "cuts checked",
    "answers with a handoff shown",
    "commands",
];

impl Report<'_> {
    /// Whether there was no violation, no lost handoff, and no growth.
    pub fn is_good(&self) -> bool {
        let violations: u64 = self.ledger.entries().violations.values().sum();
        violations == 0
            && self.missing().is_empty()
            && self.plateaus().iter().all(|plateau| plateau.holds != Some(false))
    }

    fn missing(&self) -> Vec<&'static str> {
        let entries = self.ledger.entries();
        NEEDED
            .into_iter()
            .filter(|what| !entries.counts.contains_key(what))
            .collect()
    }

    fn plateaus(&self) -> Vec<Plateau> {
        plateaus(self.samples)
    }

    pub fn print(&self) {
        let (plateaus, missing) = (self.plateaus(), self.missing());
        let entries = self.ledger.entries();
        println!(
            "soak of {:.0} s, seed {}\n\n| what | count |\n|---|---:|",
            self.took.as_secs_f64(),
            self.seed
        );
        for (what, count) in &entries.counts {
            println!("| {what} | {count} |");
        }
        println!("\n| fault | count |\n|---|---:|");
        for (what, count) in &entries.faults {
            println!("| {what} | {count} |");
        }
        println!(
            "\n| process | settled s | RSS MiB | without mapped files | rise | descriptors | rise | plateau |\n|---|---:|---:|---:|---:|---:|---:|---|"
        );
        for one in &plateaus {
            let holds = match one.holds {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "not judged",
            };
            println!(
                "| {} | {:.0} | {:.1} | {:.1} | {:+.1} | {:.0} | {:+.1} | {holds} |",
                one.process,
                one.seconds,
                one.rss_mib,
                one.own_mib,
                one.own_rise_mib,
                one.descriptors,
                one.descriptors_rise
            );
        }
        for skipped in &entries.skipped {
            println!("\nskipped: {skipped}");
        }
        for what in missing {
            println!("\nnever happened: {what}");
        }
        let counted = |kind| entries.violations.get(kind).copied().unwrap_or_default();
        let (lost, empty) = (counted("lost shown handoff"), counted(EMPTY_REPLY));
        let violations: u64 = entries.violations.values().sum();
        println!("\nviolations: {violations}\nlost shown handoffs: {lost}\nempty replies: {empty}");
        for (kind, count) in &entries.violations {
            println!("  {count} × {kind}");
        }
        for one in entries.texts.iter().take(20) {
            println!("  [{:.1} s] {}: {}", one.seconds, one.kind, one.text);
        }
    }
}
