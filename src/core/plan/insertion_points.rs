//! Insertion points of hidden pairs and of notices in a request's transcript.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::{
    AgentCall, CutTarget, Known, KnownConversation, ListedRecords, Need, Policy, Records, is_model_call,
};
use crate::record::{HiddenPair, INSERTIONS_KEPT, Insertion};
use crate::rewrite::notes::{self, undone};
use crate::rewrite::{PlacedInsertion, insertions, thinking};
use crate::wire::{Role, TurnPart, TurnPartKind, View, id_in};

/// Records with a position in a request's transcript.
#[derive(Debug, Clone, Default)]
pub struct InsertionPoints {
    /// Hidden pairs that may belong to the transcript.
    pub pairs: Vec<HiddenPair>,
    /// Pairs next to calls of this transcript. Others belong to branches that the transcript may lack.
    pub beside_calls: Vec<Uuid>,
    /// Whether a handoff that waited for the end of its turn lapses with this request, because the user has sent a message
    /// first.
    pub lapses: bool,
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

/// Hidden pairs of a request. See the fields of [`InsertionPoints`].
pub(super) struct FoundPairs {
    pub(super) pairs: Vec<HiddenPair>,
    pub(super) beside_calls: Vec<Uuid>,
    pub(super) lapses: bool,
    /// Pairs next to calls that are new in the transcript.
    pub(super) new: Vec<Arc<HiddenPair>>,
}

/// Finds the conversation's pairs, and those that another branch or conversation left in this transcript.
pub(super) fn find_pairs(
    call: &AgentCall,
    live: &KnownConversation,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Known<FoundPairs> {
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
    if let Some(asides) = asides {
        all.extend(records.pairs(asides)?.iter().cloned().map(Arc::new));
    }
    // Ids sort by time.
    all.sort_by_key(|p| p.id);
    let mut pairs: Vec<_> = all.iter().map(|p| (**p).clone()).collect();
    settle_undone(call, pin, &mut pairs);
    Ok(FoundPairs {
        lapses: let_lapse(call, pin, &mut pairs, policy.look.tags),
        pairs,
        beside_calls,
        new,
    })
}

/// After an undo, makes sure that no call queued before it takes effect again.
///
/// Also unbinds calls from a prefix that is gone, and drops the pairs that the transcript does not have.
fn settle_undone(call: &AgentCall, pin: &CutTarget, pairs: &mut Vec<HiddenPair>) {
    if pin.undone.ever().is_empty() {
        return;
    }
    let received = pin.taken_out.original.as_ref();
    let settled =
        received.map(|received| undone::settle(&received.text, &call.reading.view, &pin.undone, pairs));
    let mut settled = settled.unwrap_or_default().into_iter();
    pairs.retain(|_| settled.next().unwrap_or(false));
}

/// Lets waiting handoffs lapse that the user has sent a message after: their prompts lack that message and the response to
/// it. Their calls stay in the model's view.
///
/// Returns whether the request begins with such a message.
fn let_lapse(call: &AgentCall, pin: &CutTarget, pairs: &mut [HiddenPair], tags: &[String]) -> bool {
    let view = &call.reading.view;
    let is_continued = pin.stored_turn().is_some_and(|turn| turn.pending.is_some());
    let mut waiting: Vec<_> = pairs.iter_mut().filter(|pair| pair.pending.is_some()).collect();
    if waiting.is_empty() && !is_continued {
        return false;
    }
    let siblings: Vec<&str> = waiting.iter().map(|pair| pair.place.sibling()).collect();
    let calls = view.find_calls(&siblings, 0).into_iter().zip(siblings);
    // Upstream may store the call, so that only its result is in the request.
    let calls = calls.map(|(at, id)| at.map(|at| at.turn).or_else(|| turn_of_result(view, &id_in(id))));
    let calls: Vec<Option<usize>> = calls.collect();
    let first = calls.iter().flatten().min().filter(|_| !is_continued);
    // The answer to a command is baton's, and the command leaves the model's view with it.
    let asked = view.last_spoken().filter(|_| pin.command.is_some());
    let turns = first.map_or(0, |first| first + 1)..asked.unwrap_or(view.turns.len());
    let Some(typed) = notes::last_typed(view, turns, tags) else {
        return false;
    };
    let mut lapses = is_continued;
    for (pair, at) in waiting.iter_mut().zip(calls) {
        if at.is_some_and(|at| at < typed) {
            pair.pending = None;
            lapses = true;
        }
    }
    let is_new = view.turns[typed..]
        .iter()
        .all(|turn| turn.role != Role::Assistant);
    lapses && is_new && is_model_call(call.operation) && !call.is_side_call()
}

/// Turn with the result of the call with this id.
fn turn_of_result(view: &View, id: &str) -> Option<usize> {
    let answers =
        |part: &TurnPart| part.kind == TurnPartKind::Result && part.id.is_some_and(|at| view.str(at) == id);
    let mut turns = 0..view.turns.len();
    turns.find(|turn| view.turns[*turn].role == Role::Tool && view.content(*turn).parts.iter().any(answers))
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
    let pairs = pairs.iter().zip(belongs);
    let belonging =
        pairs.filter(|(pair, (proven, here))| *here && (*proven || pair.conversation == live.key));
    belonging.map(|(pair, _)| Arc::new(pair.clone())).collect()
}

/// Insertions of a request. See the fields of [`InsertionPoints`].
pub(super) struct FoundInsertions {
    pub(super) placed: Vec<PlacedInsertion>,
    pub(super) omitted: Option<usize>,
    /// Insertions of the conversation that this one was forked from.
    pub(super) taken_over: Vec<Insertion>,
    /// Insertions without a position here; `None` if there are none at all.
    pub(super) lost: Option<Vec<Uuid>>,
}

/// Finds the insertions that belong to the request, and the thinking to leave out.
///
/// A conversation without any costs one look at its record.
pub(super) fn find_insertions(
    call: &AgentCall,
    live: &KnownConversation,
    pin: &CutTarget,
    records: &Records,
    policy: &Policy<'_>,
) -> Known<FoundInsertions> {
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
    let (mut placed, mut all_lost) = (Vec::new(), None);
    if !(listed.is_empty() && lost.is_empty() && taken_over.is_empty()) {
        let is_old = |old: &&Arc<Insertion>| taken_over.iter().all(|new| new.id != old.id);
        let old = listed.iter().filter(is_old).map(|old| &**old);
        let all: Vec<&Insertion> = old.chain(&taken_over).collect();
        let known = all[all.len().saturating_sub(INSERTIONS_KEPT)..].iter().copied();
        let misplaced;
        (placed, misplaced) = insertions::find(view, known);
        all_lost = Some(lost.iter().copied().chain(misplaced).collect());
    }
    Ok(FoundInsertions {
        placed,
        omitted: omitted_until(call, live, pin),
        taken_over,
        lost: all_lost,
    })
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
