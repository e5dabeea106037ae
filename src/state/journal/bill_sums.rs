//! Sums of the bill, and the report for the CLI and the API: in total, and by day, model, conversation,
//! handoff or client. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bill::BillEntry;
use baton_core::bill::{PriceTable, TokenCounts};
use baton_core::nudge::Windows;
use baton_core::text::date;
use baton_core::trial::{
    ArmSum, DEFAULT_FOLLOW_SHARE, JOURNAL_POLICIES, RecordedCall, RecordedSession, TrialSettings, reckon,
};

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
        let is_unpriced = |entry: &&BillEntry| entry.cost.is_none() && !entry.subscription;
        let unpriced = entries.iter().filter(is_unpriced);
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

/// The sums of the policies; empty if no conversation has a price.
pub(super) fn tried(entries: &[BillEntry], prices: &PriceTable) -> Vec<ArmSum> {
    let settings = TrialSettings {
        prices,
        windows: &Windows::default(),
        follow_share: DEFAULT_FOLLOW_SHARE,
    };
    let [others @ .., _] = &JOURNAL_POLICIES;
    let reckoned = sessions(entries).filter_map(|session| {
        // The last policy cuts at the moments of a shadow.
        let is_shadow = session.calls.iter().any(|call| call.handoff);
        let policies = if is_shadow { &JOURNAL_POLICIES[..] } else { others };
        reckon(session, &settings, policies)
    });
    let all: Vec<_> = reckoned.filter(|one| one.has_dollars()).collect();
    let all: Vec<_> = all.iter().collect();
    let others = JOURNAL_POLICIES[1..].iter();
    let sums = others.map(|policy| ArmSum::new(policy, &all));
    sums.filter(|sum| sum.cheaper + sum.dearer + sum.unchanged > 0)
        .collect()
}

/// Reconstructs the conversations as they would have been without baton.
fn sessions(entries: &[BillEntry]) -> impl Iterator<Item = RecordedSession> {
    let mut all: BTreeMap<&str, RecordedSession> = BTreeMap::new();
    // Tokens of a subscription have no price to compare.
    for entry in entries.iter().filter(|entry| !entry.subscription) {
        let (Some(key), Some(counts)) = (&entry.conversation, entry.without_tokens) else {
            continue;
        };
        let session = all.entry(key).or_default();
        session.id.clone_from(key);
        let model = session.model_index(entry.model.as_deref().unwrap_or_default(), None);
        // Entries are sorted by id, the time of arrival. `at_ms` is when the transcript was read, so
        // concurrent requests may be out of order.
        let last = session.calls.last().map_or(0, |call| call.at_ms);
        session.calls.push(RecordedCall {
            at_ms: entry.at_ms.max(last),
            model,
            counts,
            compacted: entry.compacted,
            user: true,
            handoff: entry.shadow.is_some(),
            ..RecordedCall::default()
        });
    }
    all.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices;
    use baton_core::bill::TokenCounts;
    use baton_core::nudge::ShadowMoment;

    /// A conversation that grows by 3,000 tokens a minute, as the journal records it without baton.
    fn entries(calls: u64) -> Vec<BillEntry> {
        let call = |n: u64| BillEntry {
            conversation: Some("c".to_owned()),
            at_ms: 1_795_435_200_000 + n * 60_000,
            model: Some("claude-opus-5-5".to_owned()),
            without_tokens: Some(TokenCounts {
                cache_read: if n == 0 { 0 } else { 27_000 + n * 3_000 },
                cache_write: if n == 0 { 30_000 } else { 3_000 },
                output: 300,
                ..TokenCounts::default()
            }),
            ..BillEntry::default()
        };
        (0..calls).map(call).collect()
    }

    #[test]
    fn a_long_conversation_of_the_journal_is_reckoned_and_a_subscriptions_is_not() {
        let table = prices::table(None).unwrap();
        let [cold, automatic] = &tried(&entries(120), &table)[..] else {
            panic!("two policies")
        };
        assert_eq!((&*cold.arm, &*automatic.arm), ("cold_cache", "auto_0.5"));
        assert_eq!(cold.cuts, 0, "its cache is never cold");
        assert_eq!(
            automatic.cuts, 1,
            "by the notice: half of a million is not reached"
        );
        let mut shadowed = entries(120);
        shadowed[50].shadow = Some(ShadowMoment::default());
        let [_, _, shadow] = &tried(&shadowed, &table)[..] else {
            panic!("the moment of the shadow, too")
        };
        assert_eq!((&*shadow.arm, shadow.cuts), ("shadow", 1));
        assert!(shadow.saved > 0.0, "{shadow:?}");
        let mut subscribed = entries(120);
        subscribed.iter_mut().for_each(|entry| entry.subscription = true);
        assert!(tried(&subscribed, &table).is_empty());
    }
}
