//! Sums of the bill, and the report that the CLI and the API show: over everything, and by day, model, conversation, handoff or client. Pure.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::bill::BillEntry;
use crate::state::disk;
use baton_core::bill::{Arm, PriceTable, TokenCounts};
use baton_core::text::date;
use baton_core::trial::{ArmSum, RecordedCall, RecordedSession, TrialReport, reckon};

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
    pub fn of(entries: &[BillEntry]) -> Self {
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

impl BillGroup {
    fn key(self, entry: &BillEntry) -> String {
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
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

/// The rules that need no more than sizes and times; the last one cuts at the moments of a shadow.
const RULES: [Arm; 4] = [Arm::None, Arm::Free, Arm::Pays, Arm::Model];

/// The file in the state folder that `baton try --keep` writes.
const KEPT: &str = "tried.json";

/// What `baton try` had said. The names are API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptVerdict {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Dollars of the sessions that it was said of.
    pub paid: f64,
    /// What the recommended arm would have saved of these.
    pub sum: ArmSum,
}

impl KeptVerdict {
    /// What a report promises.
    pub fn of(report: &TrialReport, at_ms: u64) -> Self {
        let (paid, sum) = (report.paid, report.arm(report.best).clone());
        Self { at_ms, paid, sum }
    }

    /// The one that is kept in this state folder.
    pub fn kept(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(dir.join(KEPT)).ok()?).ok()
    }

    /// Keeps it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, dir: &Path) -> io::Result<()> {
        disk::make_dir(dir, disk::FileAccess::Owner)?;
        disk::replace_locked(&dir.join(KEPT), &serde_json::to_vec(self)?)
    }
}

/// The sums of the rules; none where no conversation has a price.
pub(super) fn tried(entries: &[BillEntry], prices: &PriceTable) -> Vec<ArmSum> {
    let reckoned = sessions(entries).filter_map(|session| {
        let is_shadow = session.calls.iter().any(|call| call.handoff);
        let rules = if is_shadow { &RULES[..] } else { &RULES[..3] };
        reckon(session, prices, rules)
    });
    let all: Vec<_> = reckoned.filter(|one| one.has_dollars()).collect();
    let sums = RULES[1..].iter().map(|rule| ArmSum::of(*rule, &all));
    sums.filter(|sum| sum.cheaper + sum.dearer + sum.unchanged > 0)
        .collect()
}

/// Conversations as they would have been without baton.
fn sessions(entries: &[BillEntry]) -> impl Iterator<Item = RecordedSession> {
    let mut all: BTreeMap<&str, RecordedSession> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.subscription) {
        let (Some(key), Some(counts)) = (&entry.conversation, entry.without_tokens) else {
            continue;
        };
        let session = all.entry(key).or_default();
        session.id.clone_from(key);
        let model = session.model_index(entry.model.as_deref().unwrap_or_default(), None);
        let last = session.calls.last().map_or(0, |call| call.at_ms);
        session.calls.push(RecordedCall {
            at_ms: entry.at_ms.max(last),
            model,
            counts,
            compacted: entry.compacted,
            person: true,
            handoff: entry.shadow.is_some(),
            ..RecordedCall::default()
        });
    }
    all.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::prices;
    use baton_core::bill::TokenCounts;
    use baton_core::nudge::ShadowMoment;

    /// A conversation that grows by 3,000 tokens a minute, as the journal has it without baton.
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
        let [free, pays] = &tried(&entries(120), &table)[..] else {
            panic!("two rules")
        };
        assert_eq!((&*free.arm, &*pays.arm), ("free", "nudge=pays"));
        assert!(pays.saved > pays.error && pays.cuts > 0, "{pays:?}");
        let mut shadowed = entries(120);
        shadowed[50].shadow = Some(ShadowMoment::default());
        let [_, _, model] = &tried(&shadowed, &table)[..] else {
            panic!("the moment of the shadow, too")
        };
        assert_eq!((&*model.arm, model.cuts), ("model", 1));
        assert!(model.saved > 0.0, "{model:?}");
        let mut subscribed = entries(120);
        subscribed.iter_mut().for_each(|entry| entry.subscription = true);
        assert!(tried(&subscribed, &table).is_empty());
    }

    #[test]
    fn what_was_promised_is_kept_until_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("not/made/yet");
        assert_eq!(KeptVerdict::kept(&below), None);
        let mut sum = tried(&entries(120), &prices::table(None).unwrap()).remove(1);
        (sum.saved, sum.error, sum.lost) = (61.0, 9.0, 0.0);
        let (at_ms, paid) = (1_795_435_200_000, 212.0);
        let promise = KeptVerdict { at_ms, paid, sum };
        promise.keep(&below).unwrap();
        assert_eq!(KeptVerdict::kept(&below), Some(promise));
    }
}
