//! Estimates the savings of other policies in the journal's conversations, by the same replay as `baton try`.

use std::collections::BTreeMap;

use super::BillEntry;
use baton_core::bill::PriceTable;
use baton_core::nudge::Windows;
use baton_core::trial::{
    ArmSum, DEFAULT_FOLLOW_SHARE, JOURNAL_POLICIES, RecordedCall, RecordedSession, TrialSettings, reckon,
};

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
        reckon(
            session,
            &settings,
            if is_shadow { &JOURNAL_POLICIES } else { others },
        )
    });
    let all: Vec<_> = reckoned.filter(|one| one.has_dollars()).collect();
    let all: Vec<_> = all.iter().collect();
    let sums = JOURNAL_POLICIES[1..]
        .iter()
        .map(|policy| ArmSum::new(policy, &all));
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
