//! One conversation in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::handoff::record::{Conversation, HandoffId, HiddenPair};

/// How long a broken answer may be asked for again and go on behind its handoff: agents retry within
/// seconds, a person who comes back later means a new turn.
pub const REPEAT_WITHIN_MS: u64 = 10 * 60 * 1000;

/// A conversation in use. The record here is never behind the store's.
pub struct Live {
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
    /// Changed since it was written, and may wait.
    pub(super) unsaved: bool,
    /// A background write is on its way and will take the record as it then is.
    pub(super) saving: bool,
    repeat: Option<Repeat>,
    complete: Complete,
}

/// For which transcripts `pairs` is known to hold every pair: a handoff that fires takes the pairs of other
/// branches, and of conversations that opened alike, off the list.
#[derive(Default)]
struct Complete {
    /// Those cut at this handoff, or nowhere.
    behind: Option<Option<HandoffId>>,
    /// Those that hold this call.
    with_call: Option<String>,
}

/// An answer that broke off behind its sentinel.
struct Repeat {
    body_hash: u64,
    handoff: HandoffId,
    at_ms: u64,
}

/// What a durable write changes.
pub(super) enum Change {
    Tooled(bool),
    Fired(HandoffId),
    Paired(Vec<Arc<HiddenPair>>),
}

impl Change {
    fn apply(&self, record: &mut Conversation, now_ms: u64) {
        match self {
            Self::Tooled(tooled) => record.tooled = Some(*tooled),
            Self::Fired(id) => {
                record.active = Some(*id);
                record.pairs.clear();
            }
            Self::Paired(pairs) => {
                let new = pairs.iter().map(|pair| pair.id);
                let new: Vec<Uuid> = new.filter(|id| !record.pairs.contains(id)).collect();
                record.pairs.extend(new);
            }
        }
        record.updated_ms = now_ms;
    }
}

impl Live {
    /// `fresh`: nothing of it was in the store.
    pub(super) fn new(record: Conversation, fresh: bool) -> Self {
        let pairs = record.pairs.is_empty().then(Vec::new);
        let complete = Complete {
            behind: fresh.then_some(None),
            with_call: None,
        };
        Self {
            key: record.key.clone(),
            principal: record.principal.clone(),
            state: Mutex::new(State {
                record,
                pairs,
                unsaved: false,
                saving: false,
                repeat: None,
                complete,
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

    /// Notes that the answer to a request with this body ended before its end was sent, with the sentinel of
    /// `handoff` shown: the same request again goes straight on behind it.
    pub fn remember_repeat(&self, body_hash: u64, handoff: HandoffId, now_ms: u64) {
        self.state().repeat = Some(Repeat {
            body_hash,
            handoff,
            at_ms: now_ms,
        });
    }

    /// Whether there is such a note at all.
    pub fn may_repeat(&self) -> bool {
        self.state().repeat.is_some()
    }

    /// The handoff behind which this request goes on, if it is a repetition. Another request leaves the
    /// note where it is: agents count tokens and ask for titles before they try again.
    pub fn take_repeat(&self, body_hash: u64, now_ms: u64) -> Option<HandoffId> {
        let mut state = self.state();
        let is_repeat =
            |r: &mut Repeat| r.body_hash == body_hash && now_ms.saturating_sub(r.at_ms) <= REPEAT_WITHIN_MS;
        state.repeat.take_if(is_repeat).map(|repeat| repeat.handoff)
    }

    /// Whether the listed pairs are all that a transcript with this cut and these calls can need. The calls come newest
    /// first and are asked for only where the cut does not tell, and only as far back as the last request knew them;
    /// the next request goes on from here.
    pub fn has_all_pairs<Calls: Iterator<Item = String>>(
        &self,
        active: Option<HandoffId>,
        newest_first: impl FnOnce() -> Calls,
    ) -> bool {
        let known = {
            let state = self.state();
            if state.complete.behind == Some(active) {
                return true;
            }
            state.complete.with_call.clone()
        };
        let Some(known) = known else { return false };
        let mut newest = None;
        for call in newest_first() {
            if call == known {
                self.go_on_from(&known, newest);
                return true;
            }
            newest.get_or_insert(call);
        }
        false
    }

    /// A transcript that holds a later call holds the earlier one, too; unless a handoff has fired meanwhile.
    fn go_on_from(&self, known: &str, newest: Option<String>) {
        let complete = &mut self.state().complete;
        if newest.is_some() && complete.with_call.as_deref() == Some(known) {
            complete.with_call = newest;
        }
    }

    /// Notes that every pair beside these calls is listed.
    pub fn looked_up(&self, calls: &[String]) {
        self.state().complete.with_call = calls.last().cloned();
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
            Change::Fired(id) => {
                state.pairs = Some(Vec::new());
                state.complete = Complete {
                    behind: Some(Some(*id)),
                    with_call: None,
                };
            }
            Change::Paired(new) => {
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
