//! A conversation in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use uuid::Uuid;

use super::checkpoints::{CallsAfterCut, Checkpoints, NewCalls};
use super::context_uses::{BranchId, BranchTurns, ContextUses, tail_digest};
use super::record_list::RecordList;
use super::repeats::{LiveAnswer, Repeats, in_time};
use super::view_length::ViewLength;
use crate::store::records::{PlacedRecord, StoredRecord};
use crate::sync::locked;
use baton_core::nudge::ContextUse;
use baton_core::plan::{BranchCosts, KnownConversation};
use baton_core::record::{
    Conversation, CutPoint, HandoffId, HiddenPair, Insertion, InsertionPoint, RecordChange, Update,
    UpdateOutcome,
};
use baton_core::wire::View;

/// Maximum number of hidden pairs that a conversation keeps while the store cannot be written.
const MAX_UNWRITTEN_PAIRS: usize = 16;

/// A conversation in use. Its record is never older than the store's.
///
/// If several processes share the store, that is checked when a request opens the conversation.
pub struct LiveConversation {
    /// Key and owner. Both never change and are read without the lock.
    key: String,
    principal: String,
    state: Mutex<LiveState>,
    contexts: Mutex<ContextUses>,
    /// Message for the model after a handoff that a user resumed, sent with the first request after it.
    notice: Mutex<Option<(HandoffId, String)>>,
    /// Held while writing to the store, so that records arrive in the order of the changes.
    pub(super) turn: tokio::sync::Mutex<()>,
    used: AtomicU64,
    /// Number of messages since the last handoff, as far as this process knows.
    pub spoken: ViewLength,
}

pub(super) struct LiveState {
    /// The stored record, with the changes that are not written yet.
    pub(super) record: Conversation,
    /// Changes that may wait. They are applied to `record` but not written to the store.
    pub(super) unwritten: Vec<RecordChange>,
    /// Hidden pairs of these changes, oldest first.
    unwritten_pairs: Vec<Arc<HiddenPair>>,
    /// Hidden pairs since the last cut.
    pub(super) pairs: RecordList<HiddenPair>,
    /// Cut points of handoffs whose response the agent may have omitted.
    pub(super) left_out: RecordList<CutPoint>,
    /// Insertions after the conversation's turns.
    pub(super) insertions: RecordList<Insertion>,
    /// Insertions already reported as lost.
    reported_lost: Vec<Uuid>,
    /// Whether the store was queried for insertions of a conversation that this one may be forked from.
    copy_checked: bool,
    /// Whether a background write is scheduled. It will take the changes pending when it runs.
    pub(super) saving: bool,
    repeats: Repeats,
    checkpoints: Checkpoints,
}

/// Records that a durable write has listed, created in this conversation or in the one that it was forked
/// from.
pub(super) enum NewRecords {
    None,
    Pairs(Vec<Arc<HiddenPair>>),
    LeftOut(Vec<Arc<CutPoint>>),
    Insertions(Vec<Arc<Insertion>>),
}

impl LiveState {
    /// Makes a change that may be written later.
    pub(super) fn change_in_background(&mut self, change: RecordChange) {
        change.apply(&mut self.record);
        // Consecutive moves combine to one: only their start and their end matter for a concurrent writer.
        let change = match (self.unwritten.last(), change) {
            (Some(RecordChange::Followed { from, .. }), RecordChange::Followed { to, .. }) => {
                let from = *from;
                self.unwritten.pop();
                RecordChange::Followed { from, to }
            }
            (_, change) => change,
        };
        self.unwritten.push(change);
    }

    /// Replaces the record by a newer one. Records read for the old one are read again.
    fn take_over(&mut self, record: Conversation) {
        self.pairs = RecordList::from_ids(&record.pairs);
        self.left_out = RecordList::from_ids(&record.left_out);
        self.insertions = RecordList::from_ids(&record.insertions);
        self.checkpoints.clear();
        self.set(record);
    }

    /// Notes that the agent has the responses that show these handoffs.
    pub(super) fn note_shown(&mut self, handoffs: &[HandoffId]) {
        let listed = |id: &HandoffId| handoffs.contains(id);
        let noted = self.record.repeats.iter().any(|note| listed(&note.handoff));
        // Most responses concern no listed handoff, and nothing needs to be written for them.
        if noted || self.record.left_out.iter().any(listed) {
            self.change_in_background(RecordChange::Shown(handoffs.to_vec()));
            self.drop_unlisted();
        }
    }

    fn add_pairs(&mut self, new: Vec<Arc<HiddenPair>>, now_ms: u64) {
        // A pair next to a call may be one that an earlier lookup missed.
        if new.iter().any(|pair| pair.place != InsertionPoint::Aside) {
            self.checkpoints.clear();
        }
        self.pairs.add(new, now_ms);
    }

    /// Drops cached records that the record no longer lists.
    pub(super) fn drop_unlisted(&mut self) {
        self.pairs.keep(&self.record.pairs);
        self.left_out.keep(&self.record.left_out);
        self.insertions.keep(&self.record.insertions);
    }

    /// Sets the stored record and reapplies the pending changes.
    fn set(&mut self, record: Conversation) {
        self.record = record;
        for change in &self.unwritten {
            change.apply(&mut self.record);
        }
    }
}

impl LiveConversation {
    pub(super) fn new(record: Conversation) -> Self {
        Self {
            key: record.key.clone(),
            principal: record.principal.clone(),
            state: Mutex::new(LiveState {
                pairs: RecordList::from_ids(&record.pairs),
                left_out: RecordList::from_ids(&record.left_out),
                insertions: RecordList::from_ids(&record.insertions),
                record,
                unwritten: Vec::new(),
                unwritten_pairs: Vec::new(),
                reported_lost: Vec::new(),
                copy_checked: false,
                saving: false,
                repeats: Repeats::default(),
                checkpoints: Checkpoints::default(),
            }),
            contexts: Mutex::default(),
            notice: Mutex::default(),
            turn: tokio::sync::Mutex::new(()),
            used: AtomicU64::new(0),
            spoken: ViewLength::default(),
        }
    }

    /// Returns the key in the store.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the principal that owns the conversation.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns a copy of the current record.
    pub fn record(&self) -> Conversation {
        self.state().record.clone()
    }

    /// Whether the conversation's requests include the tool. `None` while undecided.
    pub fn tooled(&self) -> Option<bool> {
        self.state().record.tooled
    }

    /// Returns the handoff at which the newest request was cut.
    pub fn active(&self) -> Option<HandoffId> {
        self.state().record.active
    }

    /// Notes that `answer`, the response to a request with this body, shows the sentinel of `handoff`.
    ///
    /// Until the end of the response was delivered, an identical request continues directly after the
    /// handoff.
    pub fn remember_repeat(&self, body_hash: u64, handoff: HandoffId, answer: &LiveAnswer, now_ms: u64) {
        self.state().repeats.remember(body_hash, handoff, answer, now_ms);
    }

    /// Whether a response may have been interrupted, according to notes of this process or of another one.
    pub fn may_repeat(&self) -> bool {
        let state = self.state();
        !state.repeats.is_empty() || !state.record.repeats.is_empty()
    }

    /// Returns the handoff after which a request continues, if it repeats an interrupted one.
    ///
    /// `answer` will be the response to this request, and is noted at once in case it is interrupted as well. A
    /// request with another body changes no note: agents count tokens and ask for titles before they retry.
    pub fn take_repeat(&self, body_hash: u64, answer: &LiveAnswer, now_ms: u64) -> Option<HandoffId> {
        let mut state = self.state();
        if let Some(handoff) = state.repeats.take(body_hash, answer, now_ms) {
            return Some(handoff);
        }
        // This process has no note, but the response may have been interrupted in another one.
        let mut noted = state.record.repeats.iter().rev();
        let noted = noted.find(|note| note.body_hash == body_hash && in_time(note.at_ms, now_ms))?;
        let handoff = noted.handoff;
        state.repeats.remember(body_hash, handoff, answer, now_ms);
        Some(handoff)
    }

    /// Forgets a response whose end was delivered.
    pub fn forget_repeat(&self, answer: &LiveAnswer) {
        self.state().repeats.forget(answer);
    }

    /// Walks the calls of a transcript cut at `cut`, newest first, until it reaches calls with cached pairs.
    ///
    /// Pass the store's results to [`record_lookup`](Self::record_lookup). The transcript's next request then
    /// looks up only its new calls.
    pub fn unknown_calls<'a>(
        &self,
        cut: Option<HandoffId>,
        transcript: CallsAfterCut<'a, impl Iterator<Item = (usize, String)>>,
        now_ms: u64,
    ) -> NewCalls {
        let walk = self.state().checkpoints.walk(cut, now_ms);
        walk(transcript)
    }

    /// Whether no pair was written next to older calls since the transcript was walked.
    pub fn is_current(&self, unknown: &NewCalls) -> bool {
        self.state().checkpoints.is_current(unknown)
    }

    /// Records that `found` is everything the store has next to these calls.
    pub fn record_lookup(&self, unknown: NewCalls, found: &[Arc<HiddenPair>]) {
        self.state().checkpoints.set(unknown, found);
    }

    /// Finds the branch of an incoming request that is cut at `cut`.
    ///
    /// The flag is true if the request extends the branch instead of repeating its newest request. `notified`
    /// tells whether the transcript has a nudge after the cut.
    pub fn context_exchange(
        &self,
        view: &View,
        named: bool,
        cut: Option<HandoffId>,
        notified: bool,
    ) -> (BranchId, bool) {
        let request = BranchTurns {
            turns: view.turns.len(),
            digest: &|last| tail_digest(view, last),
            named,
        };
        locked(&self.contexts).exchange(&request, cut, notified)
    }

    /// Accesses the context use of a branch. Returns `None` if the branch was evicted.
    pub fn context<T>(&self, branch: BranchId, with: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        let mut contexts = locked(&self.contexts);
        contexts.of(branch).map(|(context, _)| with(context))
    }

    /// Accesses the costs of a branch. Returns `None` if the branch was evicted.
    pub fn costs<T>(&self, branch: BranchId, with: impl FnOnce(&mut BranchCosts) -> T) -> Option<T> {
        locked(&self.contexts).of(branch).map(|(_, costs)| with(costs))
    }

    /// Returns the text that the user pinned.
    pub fn pins(&self) -> Vec<String> {
        self.state().record.pins.clone()
    }

    /// Returns the statements that no handoff carries as rules: pinned text, and rules that the user dropped.
    pub fn no_rules(&self) -> Vec<String> {
        let state = self.state();
        [&state.record.pins[..], &state.record.dropped_rules].concat()
    }

    /// Returns the topic of the conversation's handoffs, for a request that declares this one.
    pub fn topic(&self, declared: Option<&str>) -> Option<String> {
        self.state().record.topic(declared).map(str::to_owned)
    }

    /// Returns the inputs of request planning, without the listed records.
    pub fn known(&self) -> KnownConversation {
        let state = self.state();
        KnownConversation {
            key: self.key.clone(),
            tooled: state.record.tooled,
            active: state.record.active,
            // Only a conversation without any decision can be new, and so a fork.
            may_be_copy: state.record.tooled.is_none() && !state.copy_checked,
            omissions: state.record.omissions.clone(),
            relied_on: state.record.relied_on.clone(),
            listed: None,
        }
    }

    /// Notes that the store was queried for insertions of a conversation that this one may be forked from.
    pub fn copy_checked(&self) {
        self.state().copy_checked = true;
    }

    /// Counts the insertions that have newly lost their anchor.
    ///
    /// These had one in the previous request, or were never reported as lost.
    pub fn newly_lost(&self, lost: &[Uuid]) -> usize {
        let mut state = self.state();
        let new = lost.iter().filter(|id| !state.reported_lost.contains(id)).count();
        // An insertion that is found again and lost later counts again.
        state.reported_lost = lost.to_vec();
        new
    }

    /// Keeps a message for the model's first request after this handoff. It does not outlive the process.
    pub fn set_notice(&self, handoff: HandoffId, text: String) {
        *locked(&self.notice) = Some((handoff, text));
    }

    /// Whether there is such a message, for any handoff.
    pub fn has_notice(&self) -> bool {
        locked(&self.notice).is_some()
    }

    /// Takes the message kept for this handoff.
    pub fn take_notice(&self, handoff: HandoffId) -> Option<String> {
        let mut notice = locked(&self.notice);
        notice.take_if(|(kept, _)| *kept == handoff).map(|(_, text)| text)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LiveState> {
        locked(&self.state)
    }

    /// Builds a write to the store from the pending changes and `change`.
    pub(super) fn update(&self, change: impl IntoIterator<Item = RecordChange>, now_ms: u64) -> Update {
        let mut state = self.state();
        let mut changes = std::mem::take(&mut state.unwritten);
        changes.extend(change);
        // Background writes pass 0. Their time was set in the record together with the change.
        let now_ms = now_ms.max(state.record.updated_ms);
        Update {
            known: state.record.clone(),
            changes,
            now_ms,
        }
    }

    /// Restores the first `waiting` changes of a failed write as pending.
    pub(super) fn restore_unwritten(&self, mut update: Update, waiting: usize) {
        update.changes.truncate(waiting);
        let mut state = self.state();
        // Changes made during the failed write come after those that it contained.
        for change in std::mem::take(&mut state.unwritten) {
            update.changes.push(change);
        }
        state.unwritten = update.changes;
    }

    /// Returns the records that the next write must include, because an earlier one has failed.
    pub(super) fn unwritten_records(&self) -> Vec<StoredRecord> {
        let state = self.state();
        let record = |pair: &Arc<HiddenPair>| PlacedRecord::Pair(Box::new((**pair).clone())).into();
        state.unwritten_pairs.iter().map(record).collect()
    }

    /// Notes that the first `count` of these records are in the store.
    pub(super) fn records_written(&self, count: usize) {
        self.state().unwritten_pairs.drain(..count);
    }

    /// Restores a failed write. Returns whether memory keeps its last change, with new records, for the next write.
    ///
    /// Only hidden pairs are kept: the model has seen them, so its next request must have them even while the store is down.
    /// If this process ends before that, they are left out.
    pub(super) fn keep_failed(&self, update: Update, new: NewRecords, now_ms: u64) -> bool {
        let mut waiting = update.changes.len();
        let mut state = self.state();
        let is_kept = match new {
            NewRecords::Pairs(pairs) if state.unwritten_pairs.len() + pairs.len() <= MAX_UNWRITTEN_PAIRS => {
                if let Some(paired) = update.changes.last() {
                    paired.apply(&mut state.record);
                }
                state.unwritten_pairs.extend(pairs.iter().cloned());
                state.add_pairs(pairs, now_ms);
                true
            }
            _ => {
                waiting -= 1;
                false
            }
        };
        drop(state);
        self.restore_unwritten(update, waiting);
        is_kept
    }

    /// Takes over the record that the store has written, and the records written with it.
    pub(super) fn settle(&self, written: UpdateOutcome, new: NewRecords, now_ms: u64) {
        let mut state = self.state();
        if written.overtaken || state.record.version > written.record.version {
            // Another process wrote before this one, or its record was read since.
            let newest = match state.record.version > written.record.version {
                true => state.record.clone(),
                false => written.record,
            };
            state.take_over(newest);
            return;
        }
        state.set(written.record);
        match new {
            NewRecords::None => {}
            NewRecords::LeftOut(new) => state.left_out.add(new, now_ms),
            NewRecords::Insertions(new) => state.insertions.add(new, now_ms),
            NewRecords::Pairs(new) => state.add_pairs(new, now_ms),
        }
        state.drop_unlisted();
    }

    /// Returns the version of the record in memory.
    pub fn version(&self) -> u64 {
        self.state().record.version
    }

    /// Takes over the stored record if another process has written it.
    ///
    /// `known` is the version in memory when the store was called. Changes made here since then are newer
    /// than the result.
    pub(super) fn refresh(&self, stored: Option<Conversation>, known: u64) {
        let Some(stored) = stored else { return };
        let mut state = self.state();
        let version = state.record.version;
        // A lower version is taken over as well: a failover may have lost writes of this process.
        if stored.version != version && (stored.version > version || version == known) {
            state.take_over(stored);
        }
    }

    pub(super) fn mark_used(&self, tick: u64) {
        // The tick only orders conversations for eviction, so no other memory depends on it.
        self.used.store(tick, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
