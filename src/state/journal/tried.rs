//! What the rules for a cut would have saved in the journal's conversations, by the same reckoning as `baton try`: beside it is
//! what came.

use std::collections::BTreeMap;

use super::BillEntry;
use baton_core::bill::{Arm, PriceTable};
use baton_core::trial::{ArmSum, RecordedCall, RecordedSession, TrialReport, reckon};

/// The rules that need no more than sizes and times.
const RULES: [Arm; 2] = [Arm::Free, Arm::Pays];

/// The sums of the rules; none where no conversation has a price.
pub(super) fn tried(entries: &[BillEntry], prices: &PriceTable) -> Vec<ArmSum> {
    let sessions = sessions(entries);
    let reckoned: Vec<_> = sessions.filter_map(|session| reckon(session, prices)).collect();
    if !reckoned.iter().any(|one| one.has_dollars()) {
        return Vec::new();
    }
    let report = TrialReport::of(&reckoned);
    RULES
        .iter()
        .filter_map(|rule| report.arm(*rule).cloned())
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
        assert_eq!((free.arm, pays.arm), ("free", "nudge=pays"));
        assert!(pays.saved > pays.error && pays.cuts > 0, "{pays:?}");
        let mut subscribed = entries(120);
        subscribed.iter_mut().for_each(|entry| entry.subscription = true);
        assert!(tried(&subscribed, &table).is_empty());
    }
}
