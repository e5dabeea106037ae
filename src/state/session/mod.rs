//! Live conversations: a map before the store, so that a hit needs no query.
//!
//! Depends on records and the store. The only parts of a request that it uses are the key, the records that the
//! plan lacks, and those that it writes. State that must survive a crash is in the store before a call here returns.
//! State that the transcript implies is written in the background.

mod branch;
mod checkpoints;
mod context_uses;
pub mod key;
mod ledgers;
mod live;
mod reader;
mod record_list;
mod repeats;
mod stored_insertions;
mod truncated_ids;
mod view_length;
mod written_bytes;

#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

pub use self::branch::ContextBranch;
pub use self::checkpoints::{CallsAfterCut, NewCalls};
pub use self::context_uses::BranchId;
pub use self::key::{ConversationKey, conversation_key, ledger_key, session_name};
use self::ledgers::WaitingEntries;
pub use self::live::LiveConversation;
use self::live::{LiveState, NewRecords};
pub use self::reader::Reader;
pub use self::repeats::{LiveAnswer, REPEAT_WITHIN_MS};
use self::truncated_ids::TruncatedIds;
use self::written_bytes::WrittenBytes;
use crate::store::records::{PlacedRecord, StoredRecord, TOUCH_AFTER_MS};
use crate::store::{SharedStore, StoreError, StoreResult};
use baton_core::record::{
    Conversation, CutPoint, Handoff, HandoffId, HiddenPair, RecordChange, RepeatedAnswer,
};

/// Bytes of handoffs kept in memory without a configured limit.
///
/// Room for a few of the longest ones, with 1 MiB of prompt and as much of head.
const HANDOFF_BYTES: u64 = 8 << 20;

/// Approximate bytes of a conversation in memory.
const CONVERSATION_BYTES: usize = 1 << 10;

/// Fraction of the map to evict when it is full, so that the search for the oldest entries is rare.
const EVICT_SHARE: usize = 8;

/// A write of only the conversation.
const NO_RECORDS: (&str, Vec<StoredRecord>) = ("write a conversation", Vec::new());

/// A handoff that fires in a response.
pub struct FiredHandoff<'a> {
    pub handoff: &'a Handoff,
    /// Position of the handoff in the agent's transcript.
    pub point: Option<CutPoint>,
    pub answer: &'a LiveAnswer,
    /// Hash of the request's body.
    pub body_hash: u64,
}

/// The conversations in use.
pub struct Sessions {
    store: SharedStore,
    /// Whether other processes write to the store. Then a conversation in memory is checked before each use.
    shared: bool,
    live: DashMap<String, Arc<LiveConversation>>,
    capacity: usize,
    /// Counts uses, so that the order of eviction needs no clock.
    ticks: AtomicU64,
    handoffs: Cache<HandoffId, Arc<Handoff>, ByWeight>,
    /// Entries of ledgers that are not written yet.
    waiting: WaitingEntries,
    /// Limits truncated ids. `None` if a single user reaches the proxy.
    truncated_ids: Option<TruncatedIds>,
    /// Limits the bytes that each client writes.
    written: WrittenBytes,
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<HandoffId, Arc<Handoff>> for ByWeight {
    fn weight(&self, _: &HandoffId, handoff: &Arc<Handoff>) -> u64 {
        (size_of::<Handoff>() + handoff.prompt.len() + handoff.head.len()) as u64
    }
}

impl Sessions {
    /// Creates the map. About `capacity` idle conversations stay in memory; the store has all of them.
    pub fn new(store: SharedStore, capacity: usize) -> Self {
        Self {
            shared: store.shared(),
            store,
            live: DashMap::new(),
            capacity: capacity.max(1),
            ticks: AtomicU64::new(0),
            handoffs: Cache::with_weighter(1024, HANDOFF_BYTES, ByWeight),
            waiting: WaitingEntries::default(),
            truncated_ids: None,
            written: WrittenBytes::up_to(u64::MAX),
        }
    }

    /// Creates the map for `limits.cache_bytes`: half of it for handoffs, a quarter for conversations.
    pub fn caching(store: SharedStore, bytes: usize) -> Self {
        Self {
            handoffs: Cache::with_weighter(1024, bytes as u64 / 2, ByWeight),
            ..Self::new(store, bytes / 4 / CONVERSATION_BYTES)
        }
    }

    /// Refuses truncated ids that could be found by trying, if several users reach the proxy.
    #[must_use]
    pub fn guarding_ids(mut self, is_guarding: bool) -> Self {
        self.truncated_ids = is_guarding.then(TruncatedIds::default);
        self
    }

    /// Writes a handoff that is not active until a user accepts it.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub async fn put_draft(&self, live: &LiveConversation, handoff: Handoff, now_ms: u64) -> StoreResult<()> {
        let records = vec![StoredRecord::Handoff(Box::new(handoff))];
        self.admit(live, &records, now_ms)?;
        self.store.put("write a handoff", records).await
    }

    /// Returns the backing store.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// Returns the cached conversation, which may be older than the store's.
    ///
    /// If it is not cached, returns an empty conversation that is not added to the cache.
    pub fn peek(&self, key: &str, principal: &str) -> Arc<LiveConversation> {
        let hit = self.live.get(key).map(|entry| Arc::clone(&entry));
        let hit = hit.filter(|live| live.principal() == principal);
        hit.unwrap_or_else(|| Arc::new(LiveConversation::new(Conversation::default())))
    }

    /// Opens the conversation of a key: from memory, or from the store, or as a new one.
    ///
    /// A new one is written only once something is decided.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn open(&self, key: &str, principal: &str, now_ms: u64) -> StoreResult<Arc<LiveConversation>> {
        let hit = self.live.get(key).map(|entry| Arc::clone(&entry));
        let live = match hit {
            Some(live) if self.shared => {
                let known = live.version();
                live.refresh(self.store.conversation(key).await?, known);
                live
            }
            Some(live) => live,
            None => self.load(key, principal, now_ms).await?,
        };
        if live.principal() != principal {
            return Err(StoreError::new(format!(
                "conversation {key} belongs to another principal"
            )));
        }
        live.mark_used(self.ticks.fetch_add(1, Ordering::Relaxed));
        Ok(live)
    }

    async fn load(&self, key: &str, principal: &str, now_ms: u64) -> StoreResult<Arc<LiveConversation>> {
        let known = self.store.conversation(key).await?;
        let record = known.unwrap_or_else(|| Conversation {
            key: key.to_owned(),
            principal: principal.to_owned(),
            created_ms: now_ms,
            updated_ms: now_ms,
            ..Conversation::default()
        });
        self.make_room();
        // If two requests arrive at once, both use the first one's entry.
        let entry = self.live.entry(key.to_owned());
        let live = entry.or_insert_with(|| {
            let live = LiveConversation::new(record);
            live.mark_used(self.ticks.fetch_add(1, Ordering::Relaxed));
            Arc::new(live)
        });
        Ok(Arc::clone(&live))
    }

    /// Evicts the least recently used conversations if the map is full.
    ///
    /// A conversation in use stays: a second `LiveConversation` of the same key would not see the first one's
    /// changes.
    fn make_room(&self) {
        if self.live.len() < self.capacity {
            return;
        }
        // A count of 1 is the map's own reference. Unwritten changes would be lost with the entry.
        let idle =
            |live: &Arc<LiveConversation>| Arc::strong_count(live) == 1 && live.state().unwritten.is_empty();
        let entries = self.live.iter().filter(|entry| idle(entry.value()));
        let mut oldest: Vec<(u64, String)> = entries.map(|e| (e.used(), e.key().clone())).collect();
        oldest.sort_unstable();
        for (_, key) in oldest.iter().take((self.capacity / EVICT_SHARE).max(1)) {
            // Checked again: a request may have opened it since.
            self.live.remove_if(key, |_, live| idle(live));
        }
    }

    /// Decides whether the conversation's requests include the tool. Durable, and written only on change.
    ///
    /// All requests must agree, because the list of tools is part of the prefix by which providers cache. Returns the
    /// decision in force, since another process may have decided at the same time.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub async fn decide_tooled(
        &self,
        live: &Arc<LiveConversation>,
        tooled: bool,
        now_ms: u64,
    ) -> StoreResult<bool> {
        let from = live.tooled();
        if from == Some(tooled) {
            return Ok(tooled);
        }
        let change = RecordChange::Tooled { from, to: tooled };
        let written = self.change(live, change, now_ms).await?;
        Ok(written.tooled.unwrap_or(tooled))
    }

    /// Notes the handoff at which the newest transcript is cut.
    ///
    /// Written in the background, because each request's transcript implies it again. Call it within the
    /// runtime.
    pub fn follow(&self, live: &Arc<LiveConversation>, active: Option<HandoffId>, now_ms: u64) {
        let mut state = live.state();
        let record = &state.record;
        let from = record.active;
        let decided = record.tooled.is_some() || active.is_some();
        // Once a day the record's time is refreshed, so that a conversation in use is not swept.
        let dated = now_ms.saturating_sub(record.updated_ms) > TOUCH_AFTER_MS;
        if from != active || (decided && dated) {
            let to = active;
            state.change_in_background(RecordChange::Followed { from, to });
            state.record.updated_ms = now_ms;
        }
        // The sentinel is in the transcript, so the agent received the response that showed it. The process
        // may have ended before that was noted.
        if let Some(active) = active.filter(|active| !state.record.relied_on.contains(active)) {
            state.note_shown(&[active]);
        }
        self.save_in_background(live, &mut state);
    }

    /// Records that a request is cut by this handoff's cut point, because the agent omitted the sentinel.
    /// Durable, once.
    ///
    /// The model's response is cut there as well, and nothing else shows that the response came after the
    /// handoff.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The next request would not be cut then.
    pub async fn keep_cut_point(
        &self,
        live: &Arc<LiveConversation>,
        handoff: HandoffId,
        now_ms: u64,
    ) -> StoreResult<()> {
        if live.state().record.relied_on.contains(&handoff) {
            return Ok(());
        }
        let change = RecordChange::ReliedOn(handoff);
        self.change(live, change, now_ms).await.map(drop)
    }

    fn save_in_background(&self, live: &Arc<LiveConversation>, state: &mut LiveState) {
        if !state.unwritten.is_empty() && !state.saving {
            state.saving = true;
            tokio::spawn(save(Arc::clone(live), Arc::clone(&self.store)));
        }
    }

    /// Makes a change durable together with these records, in the order of changes, and then updates memory.
    ///
    /// `action` names the write in errors.
    async fn write(
        &self,
        live: &Arc<LiveConversation>,
        (action, mut records): (&'static str, Vec<StoredRecord>),
        change: RecordChange,
        new: NewRecords,
        now_ms: u64,
    ) -> StoreResult<Conversation> {
        self.admit(live, &records, now_ms)?;
        let (live, store) = (Arc::clone(live), Arc::clone(&self.store));
        to_the_end(async move {
            let _turn = live.turn.lock().await;
            let update = live.update([change], now_ms);
            let mut all = live.unwritten_records();
            let waiting = all.len();
            all.append(&mut records);
            match store.put_with(action, all, &update).await {
                Ok(written) => {
                    live.records_written(waiting);
                    let record = written.record.clone();
                    live.settle(written, new, now_ms);
                    Ok(record)
                }
                Err(error) if live.keep_failed(update, new, now_ms) => {
                    tracing::warn!(%error, conversation = live.key(), "failed to {action}; keeping them in memory until a later write");
                    Ok(live.record())
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Makes a change of only the record durable.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub async fn change(
        &self,
        live: &Arc<LiveConversation>,
        change: RecordChange,
        now_ms: u64,
    ) -> StoreResult<Conversation> {
        self.write(live, NO_RECORDS, change, NewRecords::None, now_ms)
            .await
    }

    /// Writes a handoff that fires, and makes it the active one. Durable and atomic.
    ///
    /// Once this returns, the sentinel may be shown. `point` is the handoff's position in the agent's
    /// transcript. `repeat` describes its request, for the next process and for others that share the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The handoff must not be shown then.
    pub async fn fire(
        &self,
        live: &Arc<LiveConversation>,
        handoff: Handoff,
        point: Option<CutPoint>,
        repeat: Option<RepeatedAnswer>,
        now_ms: u64,
    ) -> StoreResult<Arc<Handoff>> {
        let handoff = Arc::new(handoff);
        let point = point.map(Arc::new);
        let change = RecordChange::Fired {
            handoff: handoff.id,
            placed: point.is_some(),
            pairs: live.state().record.pairs.clone(),
            repeat,
        };
        let placed = point
            .iter()
            .map(|point| PlacedRecord::CutPoint((**point).clone()).into());
        let mut records = vec![StoredRecord::Handoff(Box::new((*handoff).clone()))];
        records.extend(placed);
        let records = ("write a handoff", records);
        let new = NewRecords::LeftOut(point.into_iter().collect());
        self.write(live, records, change, new, now_ms).await?;
        self.handoffs.insert(handoff.id, Arc::clone(&handoff));
        Ok(handoff)
    }

    /// Writes a handoff that fires in a response, like [`fire`](Self::fire).
    ///
    /// Until the end of the response counts as read, an identical request continues after it. Returns the
    /// hidden pairs since the previous handoff.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The handoff must not be shown then.
    pub async fn hand_over(
        &self,
        live: &Arc<LiveConversation>,
        fired: FiredHandoff<'_>,
        now_ms: u64,
    ) -> StoreResult<Vec<Arc<HiddenPair>>> {
        let FiredHandoff {
            handoff,
            point,
            answer,
            body_hash,
        } = fired;
        let repeat = RepeatedAnswer {
            body_hash,
            handoff: handoff.id,
            replaces: answer.fired().clone(),
            at_ms: now_ms,
        };
        // The pairs are only counted. A failure to read them must not stop the handoff.
        let pairs = self.pairs_of(live, now_ms).await.unwrap_or_default();
        answer.fired().push(handoff.id);
        self.fire(live, handoff.clone(), point, Some(repeat), now_ms)
            .await?;
        live.remember_repeat(body_hash, handoff.id, answer, now_ms);
        live.spoken.handed_over();
        Ok(pairs)
    }

    /// Notes that the end of a response counts as read, so an identical request is a new one.
    ///
    /// Call it within the runtime.
    pub fn answer_read(&self, live: &Arc<LiveConversation>, answer: &LiveAnswer) {
        live.forget_repeat(answer);
        let fired = answer.fired();
        if !fired.is_empty() {
            self.shown(live, &fired);
        }
    }

    /// Notes that the response showing these handoffs was delivered in full, so they can be found by their
    /// sentinels.
    ///
    /// Written in the background. Call it within the runtime.
    pub fn shown(&self, live: &Arc<LiveConversation>, handoffs: &[HandoffId]) {
        let mut state = live.state();
        state.note_shown(handoffs);
        self.save_in_background(live, &mut state);
    }

    /// Returns a handoff that is in memory.
    pub fn known_handoff(&self, id: HandoffId) -> Option<Arc<Handoff>> {
        self.handoffs.get(&id)
    }

    /// Returns a handoff by id. Another principal's handoff counts as unknown.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Arc<Handoff>>> {
        if let Some(hit) = self.handoffs.get(&id) {
            // All principals share the cache.
            return Ok((hit.principal == principal).then_some(hit));
        }
        let found = self.store.handoff(principal, id).await?.map(Arc::new);
        if let Some(handoff) = &found {
            self.handoffs.insert(id, Arc::clone(handoff));
        }
        Ok(found)
    }
}

/// Writes the changes that are pending when the turn comes.
async fn save(live: Arc<LiveConversation>, store: SharedStore) {
    let _turn = live.turn.lock().await;
    live.state().saving = false;
    let update = live.update([], 0);
    let waiting = update.changes.len();
    if waiting == 0 {
        // A durable write included them.
        return;
    }
    let records = live.unwritten_records();
    let (action, count) = (NO_RECORDS.0, records.len());
    match store.put_with(action, records, &update).await {
        Ok(written) => {
            live.records_written(count);
            live.settle(written, NewRecords::None, 0);
        }
        Err(error) => {
            // The next request of the conversation tries again.
            tracing::warn!(%error, conversation = live.key(), "failed to write a conversation; its next request tries again");
            live.restore_unwritten(update, waiting);
        }
    }
}

/// Runs a write and its consequences even if the caller is cancelled meanwhile.
///
/// Otherwise the store would have the change while memory does not.
async fn to_the_end<T: Send + 'static>(
    write: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    match tokio::spawn(write).await {
        Ok(result) => result,
        Err(err) => Err(StoreError::new(format!("a write to the store broke off: {err}"))),
    }
}
