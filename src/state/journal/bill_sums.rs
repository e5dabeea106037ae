//! Sums of the bill, and the report for the CLI and the API: in total, and by day, model, conversation,
//! handoff or client. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bill::BillEntry;
use super::tried::tried;
use baton_core::bill::{PriceTable, TokenCounts};
use baton_core::text::date;
use baton_core::trial::ArmSum;

baton_core::named! {
    /// The key for grouping exchanges.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BillGroup {
        /// Day in UTC.
        Day = "day",
        /// Model that responded.
        Model = "model",
        /// Conversation.
        Conversation = "conversation",
        /// Handoff. Exchanges before the first handoff form a group.
        Handoff = "handoff",
        /// Client of the proxy.
        Client = "client",
    }
}

/// Sum over exchanges. Costs are in dollars and cover exchanges with a price. The field names are part of the
/// API.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BillSum {
    /// Key of the group. Empty for the total.
    pub key: String,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Number of exchanges whose model has no known price.
    pub unpriced: u64,
    /// Number of exchanges that a subscription paid for.
    pub subscription: u64,
    /// Token counts reported by the provider.
    pub tokens: TokenCounts,
    /// Estimated token counts without baton.
    pub without_tokens: TokenCounts,
    /// Cost in dollars.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub cost: f64,
    /// Estimated cost without baton.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub without_cost: f64,
    /// Savings. Negative if baton cost more than it saved.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved: f64,
    /// Expected error of the savings.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved_error: f64,
    /// Number of exchanges before which the agent would have had to compact its history.
    pub compacted: u64,
}

impl BillSum {
    /// Sums all entries.
    pub fn from_entries(entries: &[BillEntry]) -> Self {
        let mut sum = Self::default();
        entries.iter().for_each(|entry| sum.add(entry));
        sum
    }

    /// Returns a sum for each group. Days are in chronological order, other groups by descending cost.
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
        // A request that baton makes itself (for a draft) would not exist without baton, so its whole cost counts
        // against the savings.
        self.without_cost += entry.without_cost.unwrap_or(0.0);
        self.saved += entry.saved.unwrap_or(-cost);
        // Errors of one estimate have the same sign, so they add up instead of cancelling.
        self.saved_error += entry.saved_error.unwrap_or(0.0);
    }
}

/// Key of entries that belong to no group.
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

/// The bill's total and its groups. The field names are part of the API.
#[derive(Debug, Serialize)]
pub struct SavingsReport {
    /// Source and date of the prices.
    pub prices: PriceSource,
    /// Models without a price.
    pub unpriced_models: Vec<String>,
    /// Requests that the brake did not send.
    pub stopped: u64,
    /// Sum over all exchanges.
    pub total: BillSum,
    /// Sums by group.
    pub groups: Vec<BillSum>,
    /// Estimated savings of other settings in these conversations.
    ///
    /// `shadow` hands off at the moments that shadow mode recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<ArmSum>,
    /// Moments that shadow mode recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<BillEntry>,
}

/// Where prices come from. The field names are part of the API.
#[derive(Debug, Serialize)]
pub struct PriceSource {
    /// Name of the source.
    pub source: String,
    pub date: String,
}

impl SavingsReport {
    /// Sums up a bill. `stopped` is the number of requests that the brake did not send.
    pub fn new(entries: &[BillEntry], stopped: u64, group: BillGroup, prices: &PriceTable) -> Self {
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
            stopped,
            total: BillSum::from_entries(entries),
            groups: BillSum::by(group, entries),
            tried: tried(entries, prices),
            moments: entries
                .iter()
                .filter(|entry| entry.shadow.is_some())
                .cloned()
                .collect(),
        }
    }
}
