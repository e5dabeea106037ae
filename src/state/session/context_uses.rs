//! The context use of a key's branches. Kept only in memory: after a restart the next response reports it
//! again.

use crate::keyed_hash;
use baton_core::nudge::ContextUse;
use baton_core::plan::BranchCosts;
use baton_core::record::HandoffId;
use baton_core::rewrite::positions::without_breakpoints;
use baton_core::text::newest;
use baton_core::wire::View;

/// Number of turns at a transcript's end that identify its branch.
const TAIL: usize = 4;

/// Maximum number of branches per key. The one that was extended longest ago is evicted first.
///
/// Each branch has an entry, and so does each conversation that shares the key.
const KEPT: usize = 16;

/// Id of a branch. Valid only under its own key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchId(u64);

/// The part of a request's transcript that identifies its branch.
pub(super) struct BranchTurns<'a> {
    /// Number of elements.
    pub(super) turns: usize,
    /// Returns the digest of the last few elements up to this one.
    ///
    /// A single element may equal one of another branch ("Go on.").
    pub(super) digest: &'a dyn Fn(usize) -> u128,
    /// Whether the agent named its session, so that no other conversation shares the key.
    pub(super) named: bool,
}

/// The branches of one key, in the order in which requests last extended them.
#[derive(Default)]
pub(super) struct ContextUses {
    all: Vec<KnownBranch>,
    ids: u64,
}

struct KnownBranch {
    id: BranchId,
    /// Number of elements in the newest request, and the digest of the last ones.
    turns: usize,
    last: u128,
    context: ContextUse,
    costs: BranchCosts,
}

/// Returns the digest of a transcript's last turns up to this one.
pub(super) fn tail_digest(view: &View, last: usize) -> u128 {
    let turns = &view.turns[(last + 1).saturating_sub(TAIL)..=last];
    let mut digests = [0; TAIL * size_of::<u128>()];
    for (turn, place) in turns.iter().zip(digests.chunks_exact_mut(size_of::<u128>())) {
        let one = keyed_hash::hash(&without_breakpoints(view.text(turn.span)));
        place.copy_from_slice(&one.to_ne_bytes());
    }
    keyed_hash::hash(&digests)
}

impl ContextUses {
    /// Finds the branch of an incoming request that is cut at `cut`.
    ///
    /// The flag is true if the request extends the branch's newest request instead of repeating it.
    /// `notified` tells whether the transcript has a nudge after the cut.
    pub(super) fn exchange(
        &mut self,
        request: &BranchTurns<'_>,
        cut: Option<HandoffId>,
        notified: bool,
    ) -> (BranchId, bool) {
        let Some(last) = request.turns.checked_sub(1) else {
            // A request without turns belongs to no branch. Ids count up from 1, so none has this one.
            return (BranchId(u64::MAX), false);
        };
        let digest = (request.digest)(last);
        let goes_on =
            |known: &&KnownBranch| known.turns <= last && known.last == (request.digest)(known.turns - 1);
        let repeats = |known: &KnownBranch| known.turns == request.turns && known.last == digest;
        // The branch that was extended last is the likely one.
        if let Some(known) = self.all.iter().rev().find(|known| repeats(known)) {
            return (known.id, false);
        }
        let found = self.all.iter().rposition(|known| goes_on(&known));
        // An agent may edit earlier messages and still continue the branch. Only a named session excludes
        // other conversations.
        let found = found.or_else(|| {
            let all = self.all.iter().enumerate();
            let shorter = all.filter(|(_, known)| known.turns < request.turns);
            let longest = shorter.max_by_key(|(_, known)| known.turns).map(|(at, _)| at);
            longest.filter(|_| request.named)
        });
        let mut known = match found {
            Some(at) => self.all.remove(at),
            None => {
                self.ids += 1;
                KnownBranch {
                    id: BranchId(self.ids),
                    turns: 0,
                    last: 0,
                    context: ContextUse::default(),
                    costs: BranchCosts::default(),
                }
            }
        };
        known.costs.before = Some(known.turns).filter(|turns| *turns > 0);
        (known.turns, known.last) = (request.turns, digest);
        if known.context.cut != cut {
            // The history differs: after a handoff, after an undo, or after a rewind to before it.
            known.costs.ledger.handed_over();
        }
        known.context.exchange(cut, notified);
        let id = known.id;
        newest::push(&mut self.all, KEPT, known);
        (id, true)
    }

    /// Returns the context and the costs of a branch that is still in memory.
    pub(super) fn of(&mut self, branch: BranchId) -> Option<(&mut ContextUse, &mut BranchCosts)> {
        let known = self.all.iter_mut().find(|known| known.id == branch)?;
        Some((&mut known.context, &mut known.costs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::nudge::ModelThresholds;
    use baton_core::wire::Usage;

    /// Requests as lists of words. The digest covers the last two.
    fn exchange(all: &mut ContextUses, words: &[u128], named: bool) -> (BranchId, bool) {
        let request = BranchTurns {
            turns: words.len(),
            digest: &|at| words[at] + 100 * at.checked_sub(1).map_or(0, |at| words[at]),
            named,
        };
        all.exchange(&request, None, false)
    }

    fn measured(all: &mut ContextUses, branch: BranchId, tokens: u64) {
        let usage = Usage {
            input: tokens,
            ..Usage::default()
        };
        let (context, _) = all.of(branch).unwrap();
        context.measured(None, usage, &ModelThresholds::default());
    }

    #[test]
    fn what_shares_a_key_shares_no_use() {
        let mut all = ContextUses::default();
        let (one, new) = exchange(&mut all, &[1], false);
        assert!(new);
        measured(&mut all, one, 10);
        // Another conversation with the same opening is the same branch until the two diverge.
        assert_eq!(exchange(&mut all, &[1], false), (one, false));
        assert_eq!(exchange(&mut all, &[1, 2, 3], false), (one, true));
        measured(&mut all, one, 30);
        let (other, new) = exchange(&mut all, &[1, 5, 6], false);
        assert!(new && other != one);
        assert_eq!(all.of(other).unwrap().0.tokens, None);
        assert_eq!(exchange(&mut all, &[1, 5, 6, 7, 8], false), (other, true));
        assert_eq!(exchange(&mut all, &[1, 2, 3, 4, 4], false), (one, true));
        assert_eq!(all.of(one).unwrap().0.tokens, Some(30));
        // Equal words from the user do not make the requests equal.
        assert_eq!(exchange(&mut all, &[1, 5, 6, 7, 8, 9, 0], false), (other, true));
        assert_eq!(exchange(&mut all, &[1, 2, 3, 4, 4, 5, 0], false), (one, true));
        // From an earlier point: that branch is new.
        let (branch, _) = exchange(&mut all, &[1, 2, 9], false);
        assert!(branch != one && all.of(branch).unwrap().0.tokens.is_none());
    }

    #[test]
    fn a_named_session_goes_on_though_earlier_messages_were_changed() {
        let mut all = ContextUses::default();
        let (one, _) = exchange(&mut all, &[1, 2, 3], true);
        measured(&mut all, one, 10);
        assert_eq!(exchange(&mut all, &[1, 2, 33, 4, 5], true), (one, true));
        let (two, _) = exchange(&mut all, &[1, 2], true);
        assert_ne!(two, one, "a shorter one is a rewind");
        let mut all = ContextUses::default();
        let (one, _) = exchange(&mut all, &[1, 2, 3], false);
        assert_ne!(exchange(&mut all, &[1, 2, 33, 4, 5], false).0, one);
    }

    #[test]
    fn the_oldest_is_forgotten_and_nothing_comes_of_it() {
        let mut all = ContextUses::default();
        let (first, _) = exchange(&mut all, &[0], false);
        for n in 1..=KEPT as u128 {
            exchange(&mut all, &[n], false);
        }
        assert!(all.of(first).is_none());
        assert_eq!(all.all.len(), KEPT);
        assert!(!exchange(&mut all, &[], false).1);
    }
}
