//! The bill as `baton savings --json` and `/api/savings` show it. Pure.

use serde::Serialize;

use super::bill::BillEntry;
use super::bill_sums::{BillGroup, BillSum};
use super::tried::{Promise, tried};
use baton_core::bill::PriceTable;
use baton_core::trial::ArmSum;

/// The bill's total and its groups. The names are API.
#[derive(Debug, Serialize)]
pub struct SavingsReport {
    /// The source and the date of the prices.
    pub prices: PriceSource,
    /// Models without a price.
    pub unpriced_models: Vec<String>,
    /// The sum of all exchanges.
    pub total: BillSum,
    /// The sums by group.
    pub groups: Vec<BillSum>,
    /// What the rules for a cut would have saved in these conversations; `model`: handoffs at the moments of a shadow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<ArmSum>,
    /// The moments of a shadow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<BillEntry>,
    /// What `baton try` had said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised: Option<Promise>,
}

/// Where prices are from. The names are API.
#[derive(Debug, Serialize)]
pub struct PriceSource {
    /// The source's name.
    pub source: String,
    pub date: String,
}

impl SavingsReport {
    /// Sums up a bill.
    pub fn of(entries: &[BillEntry], group: BillGroup, prices: &PriceTable) -> Self {
        let unpriced = entries
            .iter()
            .filter(|entry| entry.cost.is_none() && !entry.subscription);
        let mut models: Vec<_> = unpriced.filter_map(|entry| entry.model.clone()).collect();
        models.sort();
        models.dedup();
        Self {
            prices: PriceSource {
                source: prices.source.clone(),
                date: prices.date.clone(),
            },
            unpriced_models: models,
            total: BillSum::of(entries),
            groups: BillSum::by(group, entries),
            tried: tried(entries, prices),
            moments: entries
                .iter()
                .filter(|entry| entry.shadow.is_some())
                .cloned()
                .collect(),
            promised: None,
        }
    }
}
