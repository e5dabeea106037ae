//! Estimates what each rule for cutting would have saved in the journal's conversations, as `baton try` does.
//!
//! Also stores the estimate of `baton try`, so that reports can compare it with actual results.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::BillEntry;
use crate::disk;
use baton_core::bill::{Arm, PriceTable};
use baton_core::trial::{ArmSum, RecordedCall, RecordedSession, TrialReport, reckon};

/// Rules that need only sizes and times. The last one cuts at the moments that shadow mode recorded.
const RULES: [Arm; 4] = [Arm::None, Arm::Free, Arm::Pays, Arm::Model];

/// File in the state directory that `baton try --keep` writes.
const KEPT: &str = "tried.json";

/// The estimate of `baton try`. The field names are part of the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptVerdict {
    /// When the estimate was made, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Dollars paid in the sessions of the estimate.
    pub paid: f64,
    /// Estimated savings of the recommended arm in these sessions.
    pub sum: ArmSum,
}

impl KeptVerdict {
    /// Extracts the estimate from a report.
    pub fn new(report: &TrialReport, at_ms: u64) -> Self {
        let (paid, sum) = (report.paid, report.arm(report.best).clone());
        Self { at_ms, paid, sum }
    }

    /// Reads the estimate stored in a state directory.
    pub fn kept(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(dir.join(KEPT)).ok()?).ok()
    }

    /// Stores the estimate.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn keep(&self, dir: &Path) -> io::Result<()> {
        disk::make_dir(dir, disk::FileAccess::Owner)?;
        disk::replace_locked(&dir.join(KEPT), &serde_json::to_vec(self)?)
    }
}

/// Returns the sums of the rules. Empty if no conversation has a price.
pub(super) fn tried(entries: &[BillEntry], prices: &PriceTable) -> Vec<ArmSum> {
    let reckoned = sessions(entries).filter_map(|session| {
        let is_shadow = session.calls.iter().any(|call| call.handoff);
        // Without recorded moments the last rule would never cut.
        let rules = if is_shadow { &RULES[..] } else { &RULES[..3] };
        reckon(session, prices, rules)
    });
    let all: Vec<_> = reckoned.filter(|one| one.has_dollars()).collect();
    let sums = RULES[1..].iter().map(|rule| ArmSum::new(*rule, &all));
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
