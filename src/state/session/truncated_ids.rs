//! Limits lookups of handoffs by truncated ids, so that nobody finds the handoffs of others by guessing.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::sync::locked;
use baton_core::record::{HandoffId, Principal};

/// First and last id that a truncated one may mean. Equal if the id is complete.
pub(super) type IdRange = (HandoffId, HandoffId);

/// Bits that a truncated id may leave open.
///
/// The first 48 bits of an id are a time, which can be guessed. 23 of its 36 characters contain 26 random bits in
/// addition.
const OPEN_BITS: u32 = 48;

/// Maximum number of different unknown ids within [`WINDOW_MS`].
const MOST_UNKNOWN: usize = 10;

const WINDOW_MS: u64 = 60_000;

/// Unknown truncated ids of each principal.
#[derive(Default)]
pub(super) struct TruncatedIds(Mutex<HashMap<Principal, UnknownIds>>);

#[derive(Default)]
struct UnknownIds {
    since_ms: u64,
    /// Distinct ranges, because a transcript repeats its resume line with every request, which counts once.
    ranges: HashSet<IdRange>,
}

impl TruncatedIds {
    /// Whether a truncated id may be looked up.
    pub(super) fn may_look_up(&self, principal: &str, range: IdRange, now_ms: u64) -> bool {
        let mut all = locked(&self.0);
        // Keeps only principals with recent unknown ids, so that the map stays small.
        all.retain(|_, unknown| now_ms.saturating_sub(unknown.since_ms) < WINDOW_MS);
        all.get(principal)
            .is_none_or(|unknown| unknown.ranges.len() < MOST_UNKNOWN || unknown.ranges.contains(&range))
    }

    /// Notes that a truncated id is unknown.
    pub(super) fn note_unknown(&self, principal: &str, range: IdRange, now_ms: u64) {
        let mut all = locked(&self.0);
        let unknown = all.entry(principal.to_owned()).or_insert_with(|| UnknownIds {
            since_ms: now_ms,
            ranges: HashSet::new(),
        });
        unknown.ranges.insert(range);
        if unknown.ranges.len() == MOST_UNKNOWN {
            tracing::warn!(
                client = principal,
                "too many unknown handoff ids; refusing more for a minute"
            );
        }
    }
}

/// Whether an id contains random bits, and not only a time.
pub(super) fn is_unguessable((first, last): IdRange) -> bool {
    (first.as_u128() ^ last.as_u128()).leading_zeros() >= u128::BITS - OPEN_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::marker::pasted::id_range;

    const ID: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";

    #[test]
    fn an_id_needs_random_bits() {
        for (length, expected) in [(13, false), (18, false), (22, false), (23, true), (36, true)] {
            assert_eq!(
                is_unguessable(id_range(&ID[..length]).unwrap()),
                expected,
                "{length}"
            );
        }
    }

    #[test]
    fn ten_unknown_ids_a_minute_are_looked_up_for_each_principal() {
        let ids = TruncatedIds::default();
        let range = |n: u128| {
            (
                HandoffId::from_u128(n << 64),
                HandoffId::from_u128((n << 64) | 0xff),
            )
        };
        for n in 0..MOST_UNKNOWN as u128 {
            assert!(ids.may_look_up("ada", range(n), 5));
            // Repeated by the next request of the same transcript.
            ids.note_unknown("ada", range(n), 5);
            ids.note_unknown("ada", range(n), 5);
        }
        assert!(!ids.may_look_up("ada", range(99), 6));
        assert!(ids.may_look_up("ada", range(1), 6), "known to be unknown");
        assert!(ids.may_look_up("bob", range(99), 6));
        assert!(ids.may_look_up("ada", range(99), 5 + WINDOW_MS));
    }
}
