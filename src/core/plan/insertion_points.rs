//! Insertion points of hidden pairs and of notices in a request's transcript.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::{Timestamp, Uuid};

use super::{AgentCall, CutTarget, KnownConversation, ListedRecords, MissingRecords, Need, Policy, Records};
use crate::record::{HiddenPair, INSERTIONS_KEPT, Insertion};
use crate::rewrite::notes::undone_pairs;
use crate::rewrite::{PlacedInsertion, insertions, thinking};

/// Records with a position in a request's transcript.
#[derive(Debug, Clone, Default)]
pub struct InsertionPoints {
    /// Hidden pairs that may belong to the transcript.
    pub pairs: Vec<HiddenPair>,
    /// Pairs next to calls of this transcript. Others belong to branches that the transcript may lack.
    pub beside_calls: Vec<Uuid>,
    /// Searches after an undone handoff, which are left out deliberately.
    pub without_searches: Vec<Uuid>,
    /// Inserted notices.
    pub insertions: Vec<PlacedInsertion>,
    /// End of the turns whose thinking after the cut is left out, because upstream has refused it.
    pub omitted: Option<usize>,
}

impl InsertionPoints {
    /// Whether there are hidden calls or notices.
    ///
    /// The tool was offered when they were made, and the provider accepts them only with it.
    pub fn are_any(&self) -> bool {
        !self.pairs.is_empty() || !self.insertions.is_empty()
    }
}

/// Finds the conversation's pairs, and those that another branch or conversation left in this transcript.
///
/// Returns the pairs next to calls that are new in it.
pub(super) fn find_pairs(
    call: &AgentCall,
    places: &mut InsertionPoints,
    live: &KnownConversation,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Result<Vec<Arc<HiddenPair>>, MissingRecords> {
    // Pairs before the cut are not sent.
    let calls = call.pairs_after(pin.active_id(), pin.turn().unwrap_or_default());
    let beside = records.pairs_after(calls)?;
    let new = belonging(call, live, &beside.found);
    let mut all = live.listed()?.pairs.clone();
    let mut known: HashSet<_> = all.iter().map(|p| p.id).collect();
    let here = beside.known.iter().chain(&new);
    let beside_calls = here.clone().map(|p| p.id).collect();
    // A pair may be both listed and next to a call.
    all.extend(here.filter(|p| known.insert(p.id)).cloned());
    let mut asides = call.reading.asides();
    asides.retain(|id| !known.contains(id));
    let asides = (!asides.is_empty()).then_some(Need::Pairs(asides));
    let of_then = keys_of_then(call, pin, policy);
    let of_then = (!of_then.is_empty()).then_some(Need::PairsBeside(of_then));
    records.all(asides.iter().chain(&of_then).cloned())?;
    if let Some(asides) = asides {
        all.extend(records.pairs(asides)?.iter().cloned().map(Arc::new));
    }
    let mut uncertain = HashSet::new();
    if let Some(of_then) = of_then {
        let beside = records.pairs(of_then)?.iter();
        for pair in beside.filter(|pair| pair.conversation == live.key && known.insert(pair.id)) {
            uncertain.insert(pair.id);
            all.push(Arc::new(pair.clone()));
        }
    }
    // Ids sort by time.
    all.sort_by_key(|p| p.id);
    let mut pairs: Vec<_> = all.iter().map(|p| (**p).clone()).collect();
    let mut settled = settle_undone(call, pin, &mut pairs, policy).into_iter();
    pairs.retain(|pair| {
        let stands_here = settled.next().unwrap_or(true);
        stands_here || !uncertain.contains(&pair.id)
    });
    places.pairs = pairs;
    places.beside_calls = beside_calls;
    Ok(new)
}

/// Keys that the calls had while other handoffs were active, if any was ever undone.
fn keys_of_then(call: &AgentCall, pin: &CutTarget, policy: &Policy<'_>) -> Vec<String> {
    let original = pin.original_with_undos();
    original.map_or_else(Vec::new, |received| {
        undone_pairs::other_keys(&received.text, &call.reading.view, policy.look)
    })
}

/// Makes sure that an undone handoff, and any call queued before it, does not take effect again.
///
/// Also unbinds calls from a prefix that is gone. Returns for each pair whether it is in the transcript.
fn settle_undone(
    call: &AgentCall,
    pin: &CutTarget,
    pairs: &mut [HiddenPair],
    policy: &Policy<'_>,
) -> Vec<bool> {
    let undone = pin.undone.ever().iter();
    let Some(last) = undone.filter_map(|id| id.get_timestamp()).map(millis).max() else {
        return vec![true; pairs.len()];
    };
    let settled = match &pin.taken_out.original {
        Some(received) => {
            let (text, now) = (&received.text, &call.reading.view);
            undone_pairs::settle(text, now, policy.look, &pin.undone, pairs)
        }
        None => vec![false; pairs.len()],
    };
    // A pair outside the transcript is judged only by its time. Inside, position decides, because clocks of
    // several machines differ.
    let unsettled = pairs.iter_mut().zip(&settled).filter(|(_, settled)| !**settled);
    for (pair, _) in unsettled.filter(|(pair, _)| pair.created_ms <= last) {
        // Pending calls of that time belong to the view that was undone.
        pair.pending = None;
    }
    settled
}

fn millis(stamp: Timestamp) -> u64 {
    let (seconds, nanos) = stamp.to_unix();
    seconds * 1000 + u64::from(nanos) / 1_000_000
}

/// Selects the pairs whose calls are in this transcript.
///
/// Their conversation is this one, or one that verifiably had this branch.
fn belonging(call: &AgentCall, live: &KnownConversation, pairs: &[HiddenPair]) -> Vec<Arc<HiddenPair>> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let view = &call.reading.view;
    let siblings: Vec<&str> = pairs.iter().map(|pair| pair.place.sibling()).collect();
    // Proving is expensive, and needless for pairs of this very conversation.
    let foreign = pairs.iter().any(|pair| pair.conversation != live.key);
    let proven = match foreign {
        true => view.prove(&siblings),
        false => vec![false; pairs.len()],
    };
    let belongs = proven.into_iter().zip(view.are_here(&siblings));
    let belonging = pairs
        .iter()
        .zip(belongs)
        .filter(|(pair, (proven, here))| *here && (*proven || pair.conversation == live.key));
    belonging.map(|(pair, _)| Arc::new(pair.clone())).collect()
}

/// Finds the insertions that belong to the request, and the thinking to leave out.
///
/// A conversation without any costs one look at its record. Returns the insertions of the conversation that
/// this one was forked from, and the ids of those that have no position here. The ids are `None` if there are
/// no insertions at all.
pub(super) fn find_insertions(
    call: &AgentCall,
    places: &mut InsertionPoints,
    live: &KnownConversation,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Result<(Vec<Insertion>, Option<Vec<Uuid>>), MissingRecords> {
    let ListedRecords {
        insertions: listed,
        lost_insertions: lost,
        ..
    } = live.listed()?;
    let view = &call.reading.view;
    let mut taken_over = Vec::new();
    if policy.may_have_insertions && live.may_be_copy {
        // A conversation that is new here and has a history may be forked from one with insertions.
        let positions = insertions::positions(view);
        if !positions.is_empty() {
            taken_over = records.insertions(positions)?.to_vec();
        }
    }
    let mut all_lost = None;
    if !(listed.is_empty() && lost.is_empty() && taken_over.is_empty()) {
        let is_old = |old: &&Arc<Insertion>| taken_over.iter().all(|new| new.id != old.id);
        let old = listed.iter().filter(is_old).map(|old| &**old);
        let all: Vec<&Insertion> = old.chain(&taken_over).collect();
        let known = all[all.len().saturating_sub(INSERTIONS_KEPT)..].iter().copied();
        let (placed, misplaced) = insertions::find(view, known);
        places.insertions = placed;
        all_lost = Some(lost.iter().copied().chain(misplaced).collect());
    }
    places.omitted = places.omitted.max(omitted_until(call, live, pin));
    Ok((taken_over, all_lost))
}

/// End of the turns whose thinking a request leaves out, because an earlier request of the stretch was
/// refused with it.
fn omitted_until(call: &AgentCall, live: &KnownConversation, pin: &CutTarget) -> Option<usize> {
    let omissions = live.omissions(pin.stretch());
    if omissions.is_empty() {
        return None;
    }
    thinking::omitted_until(&call.reading.view, &omissions)
}
