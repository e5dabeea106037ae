//! The places of hidden pairs and of texts of ours in a request's transcript.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::{Timestamp, Uuid};

use super::{AgentCall, CutTarget, KnownConversation, ListedRecords, MissingRecords, Need, Policy, Records};
use crate::record::{HiddenPair, INSERTIONS_KEPT, Insertion};
use crate::rewrite::notes::undone_pairs;
use crate::rewrite::{PlacedInsertion, insertions, thinking};

/// The records with a place in a request's transcript.
#[derive(Debug, Clone, Default)]
pub struct InsertionPoints {
    /// Hidden pairs that may have their place in the transcript.
    pub pairs: Vec<HiddenPair>,
    /// The pairs next to calls of this transcript: others belong to branches that the transcript may not have.
    pub beside_calls: Vec<Uuid>,
    /// Searches that were made after an undone handoff: left out deliberately.
    pub without_searches: Vec<Uuid>,
    /// Texts of ours.
    pub insertions: Vec<PlacedInsertion>,
    /// The turn up to which thinking after the cut is left out, since upstream has refused it.
    pub omitted: Option<usize>,
}

impl InsertionPoints {
    /// Whether there are hidden calls or texts of ours. They were made while the tool was offered, and the provider
    /// accepts them only with it.
    pub fn are_any(&self) -> bool {
        !self.pairs.is_empty() || !self.insertions.is_empty()
    }
}

/// The conversation's pairs, and those that another branch or another conversation left in this transcript.
/// Returns those next to calls that are new in it.
pub(super) fn find_pairs(
    call: &AgentCall,
    places: &mut InsertionPoints,
    live: &KnownConversation,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Result<Vec<Arc<HiddenPair>>, MissingRecords> {
    // What is before the cut is not sent.
    let calls = call.pairs_after(pin.active_id(), pin.turn().unwrap_or_default());
    let beside = records.pairs_after(calls)?;
    let new = belonging(call, live, &beside.found);
    let mut all = live.listed()?.pairs.clone();
    let mut known: HashSet<_> = all.iter().map(|p| p.id).collect();
    let here = beside.known.iter().chain(&new);
    let beside_calls = here.clone().map(|p| p.id).collect();
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

/// A handoff that was undone, and every call that waited in front of it, must not fire again. Nor is a call bound to a
/// prefix that is gone. Returns for each pair whether it is in the transcript.
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
    // A pair that is not in the transcript is judged by its time alone, since clocks of several machines differ.
    let unsettled = pairs.iter_mut().zip(&settled).filter(|(_, settled)| !**settled);
    for (pair, _) in unsettled.filter(|(pair, _)| pair.created_ms <= last) {
        pair.pending = None;
    }
    settled
}

fn millis(stamp: Timestamp) -> u64 {
    let (seconds, nanos) = stamp.to_unix();
    seconds * 1000 + u64::from(nanos) / 1_000_000
}

/// The pairs whose calls are in this transcript. They were made in this conversation, or in one that verifiably had this
/// very branch.
fn belonging(call: &AgentCall, live: &KnownConversation, pairs: &[HiddenPair]) -> Vec<Arc<HiddenPair>> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let view = &call.reading.view;
    let siblings: Vec<&str> = pairs.iter().map(|pair| pair.place.sibling()).collect();
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

/// The insertions that have their place in the request, and thinking that is left out. A conversation without any costs a look
/// at its record. Returns the insertions of the conversation that this one was copied from, and those that have no place here:
/// `None` where there are no texts at all.
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
        // A conversation that is new here and has a history may be the copy of one with insertions.
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

/// The turn up to which a request leaves thinking out, since an earlier one of the stretch was refused with it.
fn omitted_until(call: &AgentCall, live: &KnownConversation, pin: &CutTarget) -> Option<usize> {
    let omissions = live.omissions(pin.stretch());
    if omissions.is_empty() {
        return None;
    }
    thinking::omitted_until(&call.reading.view, &omissions)
}
