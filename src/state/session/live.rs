//! A conversation in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use uuid::Uuid;

use super::checkpoints::{CallsAfterCut, Checkpoints, NewCalls};
use super::context_uses::{ContextUses, ThreadId, ThreadTurns, tail_digest};
use super::record_list::RecordList;
use super::repeats::{LiveAnswer, Repeats, in_time};
use super::view_length::ViewLength;
use crate::sync::locked;
use baton_core::nudge::ContextUse;
use baton_core::plan::{KnownConversation, ThreadCosts};
use baton_core::record::{
    Conversation, CutPoint, HandoffId, HiddenPair, Insertion, InsertionPoint, ReadyDraft, RecordChange,
    Update, UpdateOutcome,
};
use baton_core::wire::View;
use tokio::sync::oneshot;

/// A conversation in use. The record here is never older than the store's; where several processes share the store,
/// that is checked when a request opens the conversation.
pub struct LiveConversation {
    /// Its key and its owner, which never change: read without the lock.
    key: String,
    principal: String,
    state: Mutex<LiveState>,
    contexts: Mutex<ContextUses>,
    /// The text for the model after a handoff that a user resumed, with its first request there.
    notice: Mutex<Option<(HandoffId, String)>>,
    /// Locked while writing to the store, so that records arrive there in the order they were made.
    pub(super) turn: tokio::sync::Mutex<()>,
    used: AtomicU64,
    /// How many messages it has since the last handoff, as far as this process knows.
    pub spoken: ViewLength,
}

pub(super) struct LiveState {
    /// As stored, with the changes that are not written yet.
    pub(super) record: Conversation,
    /// Changes that may wait: made in `record`, not in the store.
    pub(super) unwritten: Vec<RecordChange>,
    /// The pairs since the last cut.
    pub(super) pairs: RecordList<HiddenPair>,
    /// The cut points of the handoffs whose answer the agent may have left out.
    pub(super) left_out: RecordList<CutPoint>,
    /// The texts of ours after its turns.
    pub(super) insertions: RecordList<Insertion>,
    /// Insertions that were already reported as lost.
    reported_lost: Vec<Uuid>,
    /// Whether the store was queried for those of a conversation that this one may be the copy of.
    copy_checked: bool,
    /// A background write is on its way and will take the changes that there then are.
    pub(super) saving: bool,
    repeats: Repeats,
    checkpoints: Checkpoints,
}

/// Records that a durable write has listed: made here, or in a conversation of which this one is a copy.
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
        // Only where the newest transcript is matters, and the writer that it takes over from.
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

    /// Takes a newer record than the one known; what was read for that one is read again.
    fn take_over(&mut self, record: Conversation) {
        self.pairs = RecordList::from_ids(&record.pairs);
        self.left_out = RecordList::from_ids(&record.left_out);
        self.insertions = RecordList::from_ids(&record.insertions);
        self.checkpoints.clear();
        self.set(record);
    }

    /// The agent has the answers that show these handoffs.
    pub(super) fn note_shown(&mut self, handoffs: &[HandoffId]) {
        let listed = |id: &HandoffId| handoffs.contains(id);
        let noted = self.record.repeats.iter().any(|note| listed(&note.handoff));
        if noted || self.record.left_out.iter().any(listed) {
            self.change_in_background(RecordChange::Shown(handoffs.to_vec()));
            self.drop_unlisted();
        }
    }

    /// Records that the record lists no more are not examined again.
    pub(super) fn drop_unlisted(&mut self) {
        self.pairs.keep(&self.record.pairs);
        self.left_out.keep(&self.record.left_out);
        self.insertions.keep(&self.record.insertions);
    }

    /// The record as stored, with the changes that wait.
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

    /// Its key in the store.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whose it is.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The current record.
    pub fn record(&self) -> Conversation {
        self.state().record.clone()
    }

    /// Whether its requests carry the tool; `None` while undecided.
    pub fn tooled(&self) -> Option<bool> {
        self.state().record.tooled
    }

    /// The handoff of the newest pinned request.
    pub fn active(&self) -> Option<HandoffId> {
        self.state().record.active
    }

    /// Notes that `answer`, to a request with this body, shows the sentinel of `handoff`. Until its end was handed
    /// over, the same request again continues directly after it.
    pub fn remember_repeat(&self, body_hash: u64, handoff: HandoffId, answer: &LiveAnswer, now_ms: u64) {
        self.state().repeats.remember(body_hash, handoff, answer, now_ms);
    }

    /// Whether there is such a note at all, of this process or of another one.
    pub fn may_repeat(&self) -> bool {
        let state = self.state();
        !state.repeats.is_empty() || !state.record.repeats.is_empty()
    }

    /// The handoff after which a request continues, if it is a repetition; `answer` will be the answer to it, and is
    /// noted at once. Another request leaves the notes where they are: agents count tokens and ask for titles
    /// before they try again.
    pub fn take_repeat(&self, body_hash: u64, answer: &LiveAnswer, now_ms: u64) -> Option<HandoffId> {
        let mut state = self.state();
        if let Some(handoff) = state.repeats.take(body_hash, answer, now_ms) {
            return Some(handoff);
        }
        let mut noted = state.record.repeats.iter().rev();
        let noted = noted.find(|note| note.body_hash == body_hash && in_time(note.at_ms, now_ms))?;
        let handoff = noted.handoff;
        state.repeats.remember(body_hash, handoff, answer, now_ms);
        Some(handoff)
    }

    /// The end of `answer` was delivered.
    pub fn forget_repeat(&self, answer: &LiveAnswer) {
        self.state().repeats.forget(answer);
    }

    /// Walks the calls of a transcript that is cut at `cut`, from the newest back, as far as their pairs are unknown.
    /// What the store has next to those is given to [`record_lookup`](Self::record_lookup), so that the next request of
    /// the transcript asks for what is new in it.
    pub fn unknown_calls<'a>(
        &self,
        cut: Option<HandoffId>,
        transcript: CallsAfterCut<'a, impl Iterator<Item = (usize, String)>>,
        now_ms: u64,
    ) -> NewCalls {
        let walk = self.state().checkpoints.walk(cut, now_ms);
        walk(transcript)
    }

    /// Whether no pair was written next to older calls since the transcript's were walked.
    pub fn is_current(&self, unknown: &NewCalls) -> bool {
        self.state().checkpoints.is_current(unknown)
    }

    /// Notes that `found` is all that the store has next to these calls.
    pub fn record_lookup(&self, unknown: NewCalls, found: &[Arc<HiddenPair>]) {
        self.state().checkpoints.set(unknown, found);
    }

    /// A request has come, cut at `cut`: its thread, and whether it is new in that and no repetition. `notified`: its
    /// transcript has a nudge after the cut.
    pub fn context_exchange(
        &self,
        view: &View,
        named: bool,
        cut: Option<HandoffId>,
        notified: bool,
    ) -> (ThreadId, bool) {
        let request = ThreadTurns {
            turns: view.turns.len(),
            digest: &|last| tail_digest(view, last),
            named,
        };
        locked(&self.contexts).exchange(&request, cut, notified)
    }

    /// How full a thread's context is; `None` where that is forgotten.
    pub fn context<T>(&self, thread: ThreadId, with: impl FnOnce(&mut ContextUse) -> T) -> Option<T> {
        locked(&self.contexts)
            .of(thread)
            .map(|(context, _)| with(context))
    }

    /// What a thread has cost; `None` where that is forgotten.
    pub fn costs<T>(&self, thread: ThreadId, with: impl FnOnce(&mut ThreadCosts) -> T) -> Option<T> {
        locked(&self.contexts).of(thread).map(|(_, costs)| with(costs))
    }

    /// Has something wait until a thread's next request.
    pub fn set_pause(&self, thread: ThreadId, until_next: oneshot::Sender<()>) {
        locked(&self.contexts).set_pause(thread, until_next);
    }

    /// The draft that was written ahead of a handoff, in requests that are cut at `cut`.
    pub fn ready_draft(&self, cut: Option<HandoffId>) -> Option<Box<ReadyDraft>> {
        let state = self.state();
        let draft = state.record.ready_draft.as_ref();
        draft.filter(|draft| draft.cut == cut).cloned()
    }

    /// The texts that a user pinned.
    pub fn pins(&self) -> Vec<String> {
        self.state().record.pins.clone()
    }

    /// What no handoff carries as a rule: the texts that a user pinned, and the rules that a user dropped.
    pub fn no_rules(&self) -> Vec<String> {
        let state = self.state();
        [&state.record.pins[..], &state.record.dropped_rules].concat()
    }

    /// The topic of its handoffs, for a request that declares this one.
    pub fn topic(&self, declared: Option<&str>) -> Option<String> {
        self.state().record.topic(declared).map(str::to_owned)
    }

    /// What plans of its requests depend on, without what its record lists.
    pub fn known(&self) -> KnownConversation {
        let state = self.state();
        KnownConversation {
            key: self.key.clone(),
            tooled: state.record.tooled,
            active: state.record.active,
            may_be_copy: state.record.tooled.is_none() && !state.copy_checked,
            omissions: state.record.omissions.clone(),
            relied_on: state.record.relied_on.clone(),
            listed: None,
        }
    }

    /// The store was queried for the insertions of a conversation that this one may be the copy of.
    pub fn copy_checked(&self) {
        self.state().copy_checked = true;
    }

    /// How many of the insertions that found no place had one in the request before, or were never reported as lost.
    pub fn newly_lost(&self, lost: &[Uuid]) -> usize {
        let mut state = self.state();
        let new = lost.iter().filter(|id| !state.reported_lost.contains(id)).count();
        state.reported_lost = lost.to_vec();
        new
    }

    /// Keeps a text for the model's first request after this handoff. It does not outlive the process.
    pub fn set_notice(&self, handoff: HandoffId, text: String) {
        *locked(&self.notice) = Some((handoff, text));
    }

    /// Whether there is such a text, of whatever handoff.
    pub fn has_notice(&self) -> bool {
        locked(&self.notice).is_some()
    }

    /// The text that was kept for this handoff, once.
    pub fn take_notice(&self, handoff: HandoffId) -> Option<String> {
        let mut notice = locked(&self.notice);
        notice.take_if(|(kept, _)| *kept == handoff).map(|(_, text)| text)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LiveState> {
        locked(&self.state)
    }

    /// The changes of a write to the store: the pending ones and `change`.
    pub(super) fn update(&self, change: impl IntoIterator<Item = RecordChange>, now_ms: u64) -> Update {
        let mut state = self.state();
        let mut changes = std::mem::take(&mut state.unwritten);
        changes.extend(change);
        let now_ms = now_ms.max(state.record.updated_ms);
        Update {
            known: state.record.clone(),
            changes,
            now_ms,
        }
    }

    /// The write failed: the first `waiting` changes wait on.
    pub(super) fn restore_unwritten(&self, mut update: Update, waiting: usize) {
        update.changes.truncate(waiting);
        let mut state = self.state();
        for change in std::mem::take(&mut state.unwritten) {
            update.changes.push(change);
        }
        state.unwritten = update.changes;
    }

    /// Takes the record that the store has written, and what is known with it.
    pub(super) fn settle(&self, written: UpdateOutcome, new: NewRecords, now_ms: u64) {
        let mut state = self.state();
        if written.overtaken || state.record.version > written.record.version {
            // Another process wrote before this one, or has been read since.
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
            NewRecords::Pairs(new) => {
                if new.iter().any(|pair| pair.place != InsertionPoint::Aside) {
                    state.checkpoints.clear();
                }
                state.pairs.add(new, now_ms);
            }
        }
        state.drop_unlisted();
    }

    /// The version of the record that is known.
    pub fn version(&self) -> u64 {
        self.state().record.version
    }

    /// Takes what the store has, where another process has written it. `known`: the version that was known when the
    /// store was called; what was written here since then is newer than its answer.
    pub(super) fn refresh(&self, stored: Option<Conversation>, known: u64) {
        let Some(stored) = stored else { return };
        let mut state = self.state();
        let version = state.record.version;
        if stored.version != version && (stored.version > version || version == known) {
            state.take_over(stored);
        }
    }

    pub(super) fn mark_used(&self, tick: u64) {
        self.used.store(tick, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
