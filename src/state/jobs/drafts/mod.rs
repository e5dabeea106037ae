//! The drafts of all conversations: requested, in progress, ended. A conversation has at most one open draft.
//!
//! Records who requested a draft, its state, and how to stop it. Must not depend on how a draft is written
//! (`exchange`) or shown.

mod job;
mod record;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

pub use self::job::DraftJob;
pub use self::record::{DraftOrder, DraftRecord, DraftResult, DraftState};
pub use self::restore::DecisionFailure;
use crate::clock::{ago_ms, now_ms};
use crate::sync::locked;
use baton_core::handoffs::draft::AcceptedDraft;
use baton_core::plan;

/// Number of ended drafts kept in memory, so that their requesters can be notified.
const MAX_ENDED_DRAFTS: usize = 256;

/// The reason why a draft cannot begin: another draft of the conversation is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDraft {
    pub id: Uuid,
    /// State of the open draft.
    pub state: DraftState,
}

/// The reason why a draft cannot be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelRefusal {
    /// There is no such draft.
    Unknown,
    /// The draft has ended.
    Ended,
}

impl fmt::Display for OpenDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            DraftState::Review => write!(f, "a draft already waits for your approval ({}).", self.id),
            _ => write!(f, "a handoff is already being written ({}).", self.id),
        }
    }
}

#[derive(Debug)]
pub struct DraftQueue {
    all: Mutex<DraftTable>,
    /// How long a draft waits for the user.
    expires: Duration,
}

#[derive(Debug, Default)]
struct DraftTable {
    drafts: HashMap<Uuid, DraftEntry>,
    /// The open draft of each conversation.
    open: HashMap<String, Uuid>,
}

#[derive(Debug)]
struct DraftEntry {
    draft: DraftRecord,
    /// Signals the draft's writer to stop.
    cancel: watch::Sender<bool>,
    /// Whether the user was notified that the draft awaits approval.
    notified: bool,
}

impl DraftQueue {
    /// Creates an empty queue. Drafts that await approval for longer than `expires` expire.
    pub fn expiring_after(expires: Duration) -> Self {
        Self {
            all: Mutex::default(),
            expires,
        }
    }

    /// Whether a draft of the conversation was requested with this key.
    pub fn was_requested(&self, conversation: &str, key: Option<&str>) -> bool {
        self.lock().requested(conversation, key).is_some()
    }

    /// Requests a draft, to be made with the conversation's next request.
    ///
    /// Repeating a request with the same `key` returns the first request's draft.
    ///
    /// # Errors
    /// Returns an error if another draft of the conversation is open.
    pub fn request(
        &self,
        conversation: &str,
        principal: &str,
        wanted: DraftOrder,
        key: Option<String>,
    ) -> Result<DraftRecord, OpenDraft> {
        let mut all = self.lock();
        // An idempotent retry of the API call.
        if let Some(same) = all.requested(conversation, key.as_deref()) {
            return Ok(same.clone());
        }
        let mut draft = DraftRecord::new(conversation, principal, wanted, DraftState::Requested);
        draft.key = key;
        self.insert(&mut all, draft.clone())?;
        Ok(draft)
    }

    /// Begins a draft immediately.
    ///
    /// # Errors
    /// Returns an error if another draft of the conversation is open.
    pub fn begin(
        self: &Arc<Self>,
        conversation: &str,
        principal: &str,
        wanted: DraftOrder,
    ) -> Result<DraftJob, OpenDraft> {
        let draft = DraftRecord::new(conversation, principal, wanted, DraftState::Writing);
        let cancelled = self.insert(&mut self.lock(), draft.clone())?;
        Ok(DraftJob {
            drafting: Arc::clone(self),
            id: draft.id,
            wanted: draft.wanted,
            accepted: None,
            cancelled,
            over: false,
        })
    }

    /// Takes the draft that waits for the conversation's next request, and marks it as being written.
    pub fn take(self: &Arc<Self>, conversation: &str) -> Option<DraftJob> {
        let mut all = self.lock();
        let id = *all.open.get(conversation)?;
        let entry = all.drafts.get_mut(&id)?;
        // The draft is being written or awaits approval, so this request has nothing to do.
        if !entry.draft.state.waits() {
            return None;
        }
        let made = &entry.draft.result;
        let accepted = made.document.clone().map(|document| AcceptedDraft {
            document,
            method: made.method,
            made_at: made.made_at.clone(),
        });
        entry.draft.state = DraftState::Writing;
        entry.draft.updated_ms = now_ms();
        let (wanted, cancelled) = (entry.draft.wanted.clone(), entry.cancel.subscribe());
        Some(DraftJob {
            drafting: Arc::clone(self),
            id,
            wanted,
            accepted,
            cancelled,
            over: false,
        })
    }

    /// Returns a draft by id.
    pub fn get(&self, id: Uuid) -> Option<DraftRecord> {
        self.lock().drafts.get(&id).map(|entry| entry.draft.clone())
    }

    /// Returns the open draft of a conversation.
    pub fn open_in(&self, conversation: &str) -> Option<DraftRecord> {
        let mut all = self.lock();
        // Every request asks this, and most processes have no draft at all.
        if all.open.is_empty() {
            return None;
        }
        self.expire(&mut all);
        let id = all.open.get(conversation)?;
        all.drafts.get(id).map(|entry| entry.draft.clone())
    }

    /// Returns the open draft of a conversation in the form that request planning needs: whether it waits for
    /// a request.
    pub fn planned_in(&self, conversation: &str) -> Option<plan::OpenDraft> {
        Some(match self.open_in(conversation)?.state.waits() {
            true => plan::OpenDraft::Waits,
            false => plan::OpenDraft::Elsewhere,
        })
    }

    /// Returns the draft to report for a conversation: the open one, or else the newest one if it failed.
    pub fn newest_in(&self, conversation: &str) -> Option<DraftRecord> {
        if let Some(open) = self.open_in(conversation) {
            return Some(open);
        }
        let all = self.lock();
        let here = all.drafts.values().map(|entry| &entry.draft);
        let newest = here
            .filter(|draft| draft.conversation == conversation)
            .max_by_key(|draft| draft.id)?;
        matches!(newest.state, DraftState::Failed | DraftState::Empty).then(|| newest.clone())
    }

    /// Records the file that a draft's document was written to.
    pub fn saved(&self, id: Uuid, path: PathBuf) {
        if let Some(entry) = self.lock().drafts.get_mut(&id) {
            entry.draft.saved_path = Some(path);
        }
    }

    /// Returns all open drafts, oldest first.
    pub fn all_open(&self) -> Vec<DraftRecord> {
        let mut all = self.lock();
        self.expire(&mut all);
        let mut open: Vec<DraftRecord> = all
            .open
            .values()
            .filter_map(|id| all.drafts.get(id))
            .map(|entry| entry.draft.clone())
            .collect();
        open.sort_by_key(|draft| draft.id);
        open
    }

    /// Cancels an open draft. A draft being written ends once its writer receives the signal.
    ///
    /// # Errors
    /// Returns an error if there is no such draft, or if it has ended.
    pub fn cancel(&self, id: Uuid) -> Result<(), CancelRefusal> {
        let mut all = self.lock();
        let entry = all.drafts.get_mut(&id).ok_or(CancelRefusal::Unknown)?;
        match entry.draft.state {
            DraftState::Requested | DraftState::Review | DraftState::Accepted => {
                self.end(&mut all, id, DraftState::Cancelled, None);
                Ok(())
            }
            // The writer ends the draft itself, once it has stopped its request.
            DraftState::Writing => {
                // Fails only if the writer is gone, and then the draft has ended.
                let _ = entry.cancel.send(true);
                Ok(())
            }
            _ => Err(CancelRefusal::Ended),
        }
    }

    /// Accepts a draft for the user. `edited` replaces its document.
    ///
    /// It takes effect with the conversation's next request.
    ///
    /// # Errors
    /// Returns an error if there is no such draft, or if it does not await approval.
    pub fn accept(&self, id: Uuid, edited: Option<String>) -> Result<DraftRecord, CancelRefusal> {
        self.decide(id, |draft| {
            draft.state = DraftState::Accepted;
            // The user has read the document, so it takes effect even if it does not make the request
            // smaller.
            draft.wanted.ask.force = true;
            if let Some(edited) = edited {
                draft.result.document = Some(edited);
            }
        })
    }

    /// Accepts the conversation's pending draft, like [`accept`](Self::accept), and begins to write it.
    ///
    /// Returns `None` if no draft awaits approval.
    pub fn approve(self: &Arc<Self>, conversation: &str, edited: Option<String>) -> Option<DraftJob> {
        let open = self.open_in(conversation)?;
        self.accept(open.id, edited).ok()?;
        self.take(conversation)
    }

    /// Rejects a draft for the user.
    ///
    /// # Errors
    /// Returns an error if there is no such draft, or if it does not await approval.
    pub fn reject(&self, id: Uuid) -> Result<DraftRecord, CancelRefusal> {
        let rejected = self.decide(id, |draft| draft.state = DraftState::Rejected)?;
        // Only this frees the conversation for another draft.
        self.end(&mut self.lock(), id, DraftState::Rejected, None);
        Ok(rejected)
    }

    fn decide(&self, id: Uuid, decide: impl FnOnce(&mut DraftRecord)) -> Result<DraftRecord, CancelRefusal> {
        let mut all = self.lock();
        self.expire(&mut all);
        let entry = all.drafts.get_mut(&id).ok_or(CancelRefusal::Unknown)?;
        if !matches!(entry.draft.state, DraftState::Review | DraftState::Accepted) {
            return Err(CancelRefusal::Ended);
        }
        decide(&mut entry.draft);
        entry.draft.updated_ms = now_ms();
        Ok(entry.draft.clone())
    }

    /// Restores a draft that awaited approval when the process ended. Its handoff is in the store.
    ///
    /// # Errors
    /// Returns an error if another draft of the conversation is open.
    pub fn restore(&self, mut draft: DraftRecord) -> Result<(), OpenDraft> {
        draft.state = DraftState::Review;
        self.insert(&mut self.lock(), draft).map(drop)
    }

    /// Returns the draft that awaits approval in this conversation, on the first call only.
    pub fn pending_once(&self, conversation: &str) -> Option<Uuid> {
        let mut all = self.lock();
        self.expire(&mut all);
        let id = *all.open.get(conversation)?;
        let entry = all.drafts.get_mut(&id)?;
        let first = entry.draft.state == DraftState::Review && !std::mem::replace(&mut entry.notified, true);
        first.then_some(id)
    }

    /// Ends drafts that have awaited approval for too long.
    fn expire(&self, all: &mut DraftTable) {
        let since = ago_ms(self.expires);
        let is_old =
            |entry: &DraftEntry| entry.draft.state == DraftState::Review && entry.draft.updated_ms <= since;
        let old = all
            .open
            .values()
            .filter(|id| all.drafts.get(id).is_some_and(is_old));
        for id in old.copied().collect::<Vec<_>>() {
            self.end(
                all,
                id,
                DraftState::Expired,
                Some("nobody said yes or no".to_owned()),
            );
        }
    }

    /// Drops the pending draft of a conversation, because a handoff took effect: the draft was about the previous
    /// task.
    pub fn handed_over(&self, conversation: &str) {
        let mut all = self.lock();
        let waits = |id: &Uuid| {
            let entry = all.drafts.get(id)?;
            (entry.draft.state != DraftState::Writing).then_some(*id)
        };
        if let Some(id) = all.open.get(conversation).and_then(waits) {
            let why = "another handoff took effect before".to_owned();
            self.end(&mut all, id, DraftState::Dropped, Some(why));
        }
    }

    fn insert(&self, all: &mut DraftTable, draft: DraftRecord) -> Result<watch::Receiver<bool>, OpenDraft> {
        self.expire(all);
        if let Some(open) = all
            .open
            .get(&draft.conversation)
            .and_then(|id| all.drafts.get(id))
        {
            return Err(OpenDraft {
                id: open.draft.id,
                state: open.draft.state,
            });
        }
        // Done only when a draft is added, so the map stays bounded without a timer.
        all.forget_oldest();
        let (cancel, cancelled) = watch::channel(false);
        all.open.insert(draft.conversation.clone(), draft.id);
        all.drafts.insert(
            draft.id,
            DraftEntry {
                draft,
                cancel,
                notified: false,
            },
        );
        Ok(cancelled)
    }

    /// Records the result of a job and ends its draft.
    fn finish(&self, id: Uuid, state: DraftState, why: Option<String>, made: DraftResult) {
        let mut all = self.lock();
        if let Some(entry) = all.drafts.get_mut(&id) {
            entry.draft.result = made;
        }
        self.end(&mut all, id, state, why);
    }

    fn end(&self, all: &mut DraftTable, id: Uuid, state: DraftState, why: Option<String>) {
        let Some(entry) = all.drafts.get_mut(&id) else {
            return;
        };
        entry.draft.state = state;
        entry.draft.why = why;
        entry.draft.updated_ms = now_ms();
        let conversation = &entry.draft.conversation;
        // A draft in review keeps its conversation occupied. Another open draft of the conversation stays.
        if !state.is_open() && all.open.get(conversation) == Some(&id) {
            all.open.remove(conversation);
        }
    }

    fn lock(&self) -> MutexGuard<'_, DraftTable> {
        locked(&self.all)
    }
}

impl DraftTable {
    /// Finds the draft of a conversation that was requested with this key.
    fn requested(&self, conversation: &str, key: Option<&str>) -> Option<&DraftRecord> {
        let mut drafts = self.drafts.values().map(|entry| &entry.draft);
        drafts
            // Drafts without a key never match each other.
            .find(|draft| key.is_some() && draft.key.as_deref() == key && draft.conversation == conversation)
    }

    /// Removes the oldest ended drafts to make room for another. Ids sort by time.
    fn forget_oldest(&mut self) {
        let ended = |(id, entry): (&Uuid, &DraftEntry)| (!entry.draft.state.is_open()).then_some(*id);
        let mut ended: Vec<Uuid> = self.drafts.iter().filter_map(ended).collect();
        if ended.len() < MAX_ENDED_DRAFTS {
            return;
        }
        ended.sort_unstable();
        for id in &ended[..ended.len() - MAX_ENDED_DRAFTS + 1] {
            self.drafts.remove(id);
        }
    }
}
