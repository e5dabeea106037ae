//! The cache of a conversation's records besides its transcript: hidden pairs, cut points and texts after
//! turns.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::live::CacheUpdate;
use super::{LiveConversation, Sessions};
use crate::store::StoreResult;
use crate::store::records::PlacedRecord;
use baton_core::record::{CutPoint, HiddenPair, Insertion, ReadyDraft, RecordChange, ThinkingOmission};

impl Sessions {
    /// Writes hidden pairs as made since the last cut. Durable, all or nothing.
    ///
    /// # Errors
    /// The store cannot be written: no mark of the pairs may be shown.
    pub async fn add_pairs(
        &self,
        live: &Arc<LiveConversation>,
        pairs: Vec<HiddenPair>,
        now_ms: u64,
    ) -> StoreResult<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let change = RecordChange::Paired(pairs.iter().map(|pair| pair.id).collect());
        let cached = CacheUpdate::Paired(pairs.iter().cloned().map(Arc::new).collect());
        let records = pairs
            .into_iter()
            .map(|pair| PlacedRecord::Pair(Box::new(pair)).into());
        let records = ("write hidden pairs", records.collect());
        self.write(live, records, change, cached, now_ms).await.map(drop)
    }

    /// The hidden pairs made since the last cut, oldest first. Asks the store once at most.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pairs_of(&self, live: &LiveConversation) -> StoreResult<Vec<Arc<HiddenPair>>> {
        let ids = {
            let state = live.state();
            if let Some(pairs) = &state.pairs {
                return Ok(pairs.clone());
            }
            state.record.pairs.clone()
        };
        let found = self.store.pairs(live.principal(), &ids).await?;
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let mut state = live.state();
        // Others may have been added or cut meanwhile: then the next call reads again.
        if state.pairs.is_none() && state.record.pairs == ids {
            state.pairs = Some(found.clone());
        }
        Ok(found)
    }

    /// The cut points of the conversation's handoffs that the agent may have left out, oldest first. Asks the store
    /// once a day at most, and not at all where there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn left_out(&self, live: &LiveConversation, now_ms: u64) -> StoreResult<Vec<Arc<CutPoint>>> {
        let ids = {
            let state = live.state();
            if let Some(points) = state.left_out.known(now_ms) {
                return Ok(points.to_vec());
            }
            state.record.left_out.clone()
        };
        let found = self.store.cut_points(live.principal(), &ids).await?;
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let mut state = live.state();
        if state.record.left_out == ids {
            state.left_out.read(found.clone(), now_ms);
        }
        Ok(found)
    }

    /// Takes over a cut point of the conversation that this one was copied from. Durable.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn take_over(
        &self,
        live: &Arc<LiveConversation>,
        point: CutPoint,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::LeftOut(point.handoff);
        let cached = CacheUpdate::LeftOut(Arc::new(point));
        self.change(live, change, cached, now_ms).await.map(drop)
    }

    /// Makes the change of a command, where it makes one. Durable.
    ///
    /// # Errors
    /// The store cannot be written: the answer must not be shown.
    pub async fn command(
        &self,
        live: &Arc<LiveConversation>,
        change: Option<RecordChange>,
        now_ms: u64,
    ) -> StoreResult<()> {
        let Some(change) = change else { return Ok(()) };
        self.change(live, change, CacheUpdate::Nothing, now_ms)
            .await
            .map(drop)
    }

    /// Keeps a draft that was written ahead of a handoff. Durable.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn draft_ready(
        &self,
        live: &Arc<LiveConversation>,
        draft: ReadyDraft,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::DraftReady(Box::new(draft));
        self.change(live, change, CacheUpdate::Nothing, now_ms)
            .await
            .map(drop)
    }

    /// Writes an insertion. Durable: when this has returned, it may be sent.
    ///
    /// # Errors
    /// The store cannot be written: the insertion must not be sent.
    pub async fn insert(
        &self,
        live: &Arc<LiveConversation>,
        insertion: Insertion,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::Inserted(vec![insertion.id]);
        let cached = CacheUpdate::Inserted(vec![Arc::new(insertion.clone())]);
        let records = (
            "write an insertion",
            vec![PlacedRecord::Insertion(insertion).into()],
        );
        self.write(live, records, change, cached, now_ms).await.map(drop)
    }

    /// Notes that upstream refused this thinking and took the request without it. Durable.
    ///
    /// # Errors
    /// The store cannot be written: the next request is refused again, and the thinking left out again.
    pub async fn omit_thinking(
        &self,
        live: &Arc<LiveConversation>,
        omission: ThinkingOmission,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::ThinkingOmitted(omission);
        self.change(live, change, CacheUpdate::Nothing, now_ms)
            .await
            .map(drop)
    }

    /// Takes over insertions of the conversation that this one was copied from, where they have their place. Durable.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn take_over_insertions(
        &self,
        live: &Arc<LiveConversation>,
        found: Vec<Insertion>,
        now_ms: u64,
    ) -> StoreResult<()> {
        if found.is_empty() {
            return Ok(());
        }
        let change = RecordChange::Inserted(found.iter().map(|insertion| insertion.id).collect());
        let cached = CacheUpdate::Inserted(found.into_iter().map(Arc::new).collect());
        self.change(live, change, cached, now_ms).await.map(drop)
    }

    /// The conversation's insertions, oldest first, and the ids of those that its record lists and the store has lost. Asks
    /// the store once a day at most, and not at all where there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn insertions_of(
        &self,
        live: &LiveConversation,
        now_ms: u64,
    ) -> StoreResult<(Vec<Arc<Insertion>>, Vec<Uuid>)> {
        let missing = |ids: &[Uuid], found: &[Arc<Insertion>]| -> Vec<Uuid> {
            let known: HashSet<Uuid> = found.iter().map(|insertion| insertion.id).collect();
            ids.iter().filter(|id| !known.contains(id)).copied().collect()
        };
        let ids = {
            let state = live.state();
            let ids = &state.record.insertions;
            if let Some(all) = state.insertions.known(now_ms) {
                return Ok((all.to_vec(), missing(ids, all)));
            }
            ids.clone()
        };
        let found = self.store.insertions(live.principal(), &ids).await?;
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let mut state = live.state();
        if state.record.insertions == ids {
            state.insertions.read(found.clone(), now_ms);
        }
        let missing = missing(&ids, &found);
        Ok((found, missing))
    }
}
