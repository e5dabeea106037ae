//! One conversation in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::checkpoints::{Checkpoints, Transcript, Unknown};
use super::cut_off::{self, CutOff};
use super::insertions::{self, Insertions};
use super::repeats::{AnswerId, Repeats};
use crate::record::{Conversation, CutPoint, HandoffId, HiddenPair, Insertion, Place};

/// A conversation in use. The record here is never behind the store's.
pub struct LiveConversation {
    /// Its key and its owner, which never change: asked without the lock.
    key: String,
    principal: String,
    state: Mutex<State>,
    /// Held by who writes to the store, so that records arrive there in the order they were made.
    pub(super) turn: tokio::sync::Mutex<()>,
    used: AtomicU64,
}

pub(super) struct State {
    pub(super) record: Conversation,
    /// The pairs that the record lists; `None`: not read yet.
    pub(super) pairs: Option<Vec<Arc<HiddenPair>>>,
    /// The cut points of the handoffs that the record lists as cut off.
    pub(super) cut_off: CutOff,
    /// The texts of ours behind its turns.
    pub(super) insertions: Insertions,
    /// Changed since it was written, and may wait.
    pub(super) unsaved: bool,
    /// A background write is on its way and will take the record as it then is.
    pub(super) saving: bool,
    repeats: Repeats,
    checkpoints: Checkpoints,
}

/// What a durable write changes.
pub(super) enum Change {
    Tooled(bool),
    /// With its place, where that is known.
    Fired(HandoffId, Option<Arc<CutPoint>>),
    /// A handoff of another conversation, of which this one is a copy.
    CutOff(Arc<CutPoint>),
    Paired(Vec<Arc<HiddenPair>>),
    /// Made here, or in a conversation of which this one is a copy.
    Inserted(Vec<Arc<Insertion>>),
}

impl Change {
    fn apply(&self, record: &mut Conversation, now_ms: u64) {
        match self {
            Self::Tooled(tooled) => record.tooled = Some(*tooled),
            Self::Fired(id, point) => {
                record.active = Some(*id);
                record.pairs.clear();
                if let Some(point) = point {
                    cut_off::list(record, point.handoff);
                }
            }
            Self::CutOff(point) => cut_off::list(record, point.handoff),
            Self::Inserted(new) => insertions::list(record, new),
            Self::Paired(pairs) => {
                let new = pairs.iter().map(|pair| pair.id);
                let new: Vec<Uuid> = new.filter(|id| !record.pairs.contains(id)).collect();
                record.pairs.extend(new);
            }
        }
        record.updated_ms = now_ms;
    }
}

impl LiveConversation {
    pub(super) fn new(record: Conversation) -> Self {
        let pairs = record.pairs.is_empty().then(Vec::new);
        let cut_off = CutOff::of(&record);
        let insertions = Insertions::of(&record);
        Self {
            key: record.key.clone(),
            principal: record.principal.clone(),
            state: Mutex::new(State {
                record,
                pairs,
                cut_off,
                insertions,
                unsaved: false,
                saving: false,
                repeats: Repeats::default(),
                checkpoints: Checkpoints::default(),
            }),
            turn: tokio::sync::Mutex::new(()),
            used: AtomicU64::new(0),
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

    /// The record as it stands.
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
    /// over, the same request again goes straight on behind it.
    pub fn remember_repeat(&self, body_hash: u64, handoff: HandoffId, answer: &AnswerId, now_ms: u64) {
        self.state().repeats.remember(body_hash, handoff, answer, now_ms);
    }

    /// Whether there is such a note at all.
    pub fn may_repeat(&self) -> bool {
        !self.state().repeats.is_empty()
    }

    /// The handoff behind which a request goes on, if it is a repetition; `answer` will be the answer to it, and is
    /// noted at once. Another request leaves the notes where they are: agents count tokens and ask for titles
    /// before they try again.
    pub fn take_repeat(&self, body_hash: u64, answer: &AnswerId, now_ms: u64) -> Option<HandoffId> {
        self.state().repeats.take(body_hash, answer, now_ms)
    }

    /// The end of `answer` was handed over.
    pub fn forget_repeat(&self, answer: &AnswerId) {
        self.state().repeats.forget(answer);
    }

    /// Walks the calls of a transcript that is cut at `cut`, from the newest back, as far as their pairs are not known.
    /// What the store has beside those is told to [`looked_up`](Self::looked_up), so that the next request of the
    /// transcript asks for what is new in it.
    pub fn unknown_calls<'a>(
        &self,
        cut: Option<HandoffId>,
        transcript: Transcript<'a, impl Iterator<Item = (usize, String)>>,
        now_ms: u64,
    ) -> Unknown {
        let walk = self.state().checkpoints.walk(cut, now_ms);
        walk(transcript)
    }

    /// Notes that `found` is all that the store has beside these calls.
    pub fn looked_up(&self, unknown: Unknown, found: &[Arc<HiddenPair>]) {
        self.state().checkpoints.set(unknown, found);
    }

    /// A request was cut by the cut point of this handoff: the agent has left its sentinel out.
    pub fn rely_on(&self, handoff: HandoffId) {
        self.state().cut_off.rely_on(handoff);
    }

    /// Whether any text of ours stands behind its turns.
    pub fn has_insertions(&self) -> bool {
        !self.state().record.insertions.is_empty()
    }

    /// Whether it may be a copy of another conversation, of which it should have the insertions: asked once, of one that is
    /// new here.
    pub fn may_be_copy(&self) -> bool {
        let mut state = self.state();
        state.insertions.check_copy() && state.record.tooled.is_none()
    }

    /// How many of the insertions that found no place had one in the request before, or were never told to be lost.
    pub fn newly_lost(&self, lost: &[Uuid]) -> usize {
        self.state().insertions.newly_lost(lost)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record as it will be, for the store to write first.
    pub(super) fn draft(&self, change: &Change, now_ms: u64) -> Conversation {
        let mut record = self.record();
        change.apply(&mut record, now_ms);
        record
    }

    /// Makes the change that the store has written.
    pub(super) fn settle(&self, change: &Change, now_ms: u64) {
        let mut state = self.state();
        change.apply(&mut state.record, now_ms);
        match change {
            Change::Tooled(_) => {}
            Change::CutOff(point) => state.cut_off.add(Some(point), now_ms),
            Change::Inserted(new) => state.insertions.add(new, now_ms),
            Change::Fired(_, point) => {
                state.pairs = Some(Vec::new());
                state.cut_off.add(point.as_ref(), now_ms);
            }
            Change::Paired(new) => {
                if new.iter().any(|pair| pair.place != Place::Aside) {
                    state.checkpoints.clear();
                }
                if let Some(pairs) = &mut state.pairs {
                    pairs.retain(|old| new.iter().all(|pair| pair.id != old.id));
                    pairs.extend(new.iter().cloned());
                }
            }
        }
    }

    pub(super) fn mark_used(&self, tick: u64) {
        self.used.store(tick, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
