//! Sums of the bill, and the report that the CLI and the API show: over everything, and by day, model, conversation, handoff or client. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bill::BillEntry;
use super::tried::{KeptVerdict, tried};
use baton_core::bill::{PriceTable, TokenCounts};
use baton_core::text::date;
use baton_core::trial::ArmSum;

baton_core::named! {
    /// The key by which exchanges are grouped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BillGroup {
        /// Days in UTC.
        Day = "day",
        /// Models that answered.
        Model = "model",
        /// Conversations.
        Conversation = "conversation",
        /// Handoffs, and what is before the first one.
        Handoff = "handoff",
        /// Clients of the proxy.
        Client = "client",
    }
}

/// A sum of exchanges. Costs are in dollars, of the exchanges that have a price. The names are API.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BillSum {
    /// The group's key; empty for the total.
    pub key: String,
    /// How many there are.
    pub exchanges: u64,
    /// Exchanges without a price: an unknown model.
    pub unpriced: u64,
    /// Exchanges that a subscription paid for.
    pub subscription: u64,
    /// The provider's counts.
    pub tokens: TokenCounts,
    /// Estimated counts without baton.
    pub without_tokens: TokenCounts,
    /// The cost in dollars.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub cost: f64,
    /// The estimated cost without baton.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub without_cost: f64,
    /// The difference: negative where baton cost more than it saved.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved: f64,
    /// Expected error of the difference.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved_error: f64,
    /// Exchanges before which the agent would have had to compact its history.
    pub compacted: u64,
}

impl BillSum {
    /// The sum of all entries.
    pub fn from_entries(entries: &[BillEntry]) -> Self {
        let mut sum = Self::default();
        entries.iter().for_each(|entry| sum.add(entry));
        sum
    }

    /// Sums by group: days in their order, others by cost, the highest first.
    pub fn by(group: BillGroup, entries: &[BillEntry]) -> Vec<Self> {
        let mut sums = BTreeMap::<String, Self>::new();
        for entry in entries {
            sums.entry(group.key(entry)).or_default().add(entry);
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(key, sum)| Self { key, ..sum }).collect();
        if group != BillGroup::Day {
            sums.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        }
        sums
    }

    fn add(&mut self, entry: &BillEntry) {
        self.exchanges += 1;
        self.tokens += entry.tokens;
        self.without_tokens += entry.without_tokens.unwrap_or(entry.tokens);
        self.compacted += u64::from(entry.compacted);
        self.subscription += u64::from(entry.subscription);
        let Some(cost) = entry.cost else {
            self.unpriced += u64::from(!entry.subscription);
            return;
        };
        self.cost += cost;
        // An exchange of our own alone (a draft) would not have been without baton.
        self.without_cost += entry.without_cost.unwrap_or(0.0);
        self.saved += entry.saved.unwrap_or(-cost);
        // Errors of one estimate go the same way, so they add up.
        self.saved_error += entry.saved_error.unwrap_or(0.0);
    }
}

/// Key of the entries that belong to no group.
pub const NO_GROUP: &str = "-";

impl BillGroup {
    fn key(self, entry: &BillEntry) -> String {
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| NO_GROUP.to_owned());
        match self {
            Self::Day => date::rfc3339(entry.at_ms / 1000).chars().take(10).collect(),
            Self::Model => named(&entry.model),
            Self::Conversation => named(&entry.conversation),
            Self::Handoff => named(&entry.handoff),
            Self::Client => named(&entry.client),
        }
    }
}

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
    pub promised: Option<KeptVerdict>,
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
    pub fn new(entries: &[BillEntry], group: BillGroup, prices: &PriceTable) -> Self {
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
            total: BillSum::from_entries(entries),
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
