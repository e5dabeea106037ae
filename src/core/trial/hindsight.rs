//! The upper bound: the best cuts of a session, computed with knowledge of all its calls.

use super::policies::HINDSIGHT;
use super::replay::{Replay, ReplayBill};
use super::sizes::ReplaySession;

/// Maximum number of places for a cut. Each costs one more run over the later calls.
const MAX_PLACES: usize = 64;

/// Tokens of messages that a history needs for a cut to be considered.
const MIN_TOKENS: u64 = 10_000;

/// The cheapest bill of all ways to cut a session at some of its calls.
///
/// After a cut the history does not depend on earlier cuts. So only the cheapest run up to each cut has to be kept.
pub(super) fn best(session: &ReplaySession) -> ReplayBill {
    let calls = session.calls.len();
    let fits = |n: &usize| session.calls[*n].whole() >= session.prefix + MIN_TOKENS;
    let places: Vec<usize> = (session.copied.max(1)..calls).filter(fits).collect();
    // Spread over the whole session: the first 64 candidates would miss late cuts.
    let places: Vec<usize> = places
        .iter()
        .step_by(places.len().div_ceil(MAX_PLACES).max(1))
        .copied()
        .collect();
    let mut after: Vec<Option<Replay<'_>>> = vec![None; places.len()];
    let mut best: Option<ReplayBill> = None;
    for from in 0..=places.len() {
        // The run up to the cut `from - 1`, or the whole session without any cut.
        let (mut run, first) = match from.checked_sub(1) {
            None => (Replay::new(session, &HINDSIGHT, true, 1), 0),
            Some(at) => match after[at].take() {
                Some(run) => (run, places[at] + 1),
                None => continue,
            },
        };
        let mut next = from;
        for n in first..calls {
            if places.get(next) == Some(&n) {
                let mut cut = run.clone();
                cut.call(n, Some("it paid"));
                let is_cheaper = |known: &Replay<'_>| cut.bill.cost < known.bill.cost;
                // The history after this cut does not depend on earlier ones, so only the cheapest way here counts.
                if after[next].as_ref().is_none_or(is_cheaper) {
                    after[next] = Some(cut);
                }
                next += 1;
            }
            run.call(n, None);
        }
        if best.as_ref().is_none_or(|best| run.bill.cost < best.cost) {
            best = Some(run.bill);
        }
    }
    best.unwrap_or_default()
}
